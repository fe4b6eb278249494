"""`linsep model report` and `drift`: how a model is doing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from ..compare.tables import Table
from ..errors import StateError
from ..optional import needed
from ..storage import files, manifest
from .flags import Custom, Form
from .learn import Model
from .terminal import open_console, say

if TYPE_CHECKING:
    from ..classifier.predictive import SavedClassifier

OUTPUT = "Page to write. Default: the model's name with .html."
LOG = "A log that linsep predict --log wrote."


def report(
    model: Model,
    output: Annotated[Path | None, Option("--output", "-o", metavar="FILE", help=OUTPUT)] = None,
    custom: Custom = None,
) -> None:
    """Write a page on what a model knows, what it forgot and advice.

    It needs jinja2: pip install 'linsep\\[plot]'.

    Example:
      linsep model report shop/
    """
    needed("jinja2", "a report")
    from ..classifier.drift import held_out
    from ..report.classifier import written

    told = manifest.read_classifier(model)[0]
    clf = _opened(model, custom)
    tested = any(len(group.test) for group in clf.course_.groups)
    path = output or Path(f"{model.resolve().name}.html")
    files.write(path, written(model, clf, told, held_out(clf) if tested else None))
    say(open_console(), f"Report on {model}: {path}")


def drift(
    model: Model,
    *,
    log: Annotated[Path, Option(metavar="FILE", help=LOG)],
    custom: Custom = None,
    form: Form,
) -> None:
    """Compare logged predictions with those on held-out images.

    Examples:
      linsep predict shop/ photos --log shop.log
      linsep model drift shop/ --log shop.log
    """
    from ..classifier.drift import LEVEL, logged
    from ..classifier.drift import drift as compared

    now = logged(log, manifest.read_classifier(model)[0].version) if log.exists() else None
    if now is None:
        raise StateError(f"there is no log {log}; linsep predict --log {log} writes one")
    found = compared(_opened(model, custom), now)
    rows = [(f.what, f.before, f.now, f.p, "yes" if f.changed else "no") for f in found.findings]
    columns = ("what", "held-out images", "log", "p-value", "changed")
    notes = [
        f"{found.images} predictions against {found.held_out} held-out images, at a level of "
        f"{100 * LEVEL:.0f} % for all together.",
        f"Measured false alarms: {100 * found.false_alarms:.1f} % of comparisons of one half of "
        "the held-out images with the other.",
    ]
    form.publish([Table(columns, rows, digits=4)], notes)


def _opened(model: Path, custom: list[str] | None) -> SavedClassifier:
    from ..classifier.predictive import SavedClassifier

    return SavedClassifier.load(model, custom=custom or ())
