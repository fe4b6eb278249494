"""`linsep predict`, `model` and `export`: use a classifier that `linsep learn` has made."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..errors import ConfigError, DataError, StateError, printable
from .flags import Custom, Form
from .learn import Model, named
from .terminal import open_console, say

if TYPE_CHECKING:
    from ..classifier.predictive import SavedClassifier
    from ..compare.tables import Table
    from ..storage.manifest import Classifier, Manifest

CHUNK = 256  # images in memory at once
WHICH = "Folders, image files, or - to read paths from standard input."
UNSURE = "Name no class if its probability is lower."


def predict(
    model: Model,
    images: Annotated[list[str], Argument(metavar="IMAGES", help=WHICH)],
    *,
    unknown_below: Annotated[float | None, Option(metavar="P", help=UNSURE)] = None,
    custom: Custom = None,
    form: Form,
) -> None:
    """Classify images, with probabilities and novelty.

    Novelty is how unlike the images learned so far an image looks.

    Examples:
      linsep predict shop/ new-photos
      find . -name "*.jpg" | linsep predict shop/ - --format csv
    """
    if unknown_below is not None and not 0 <= unknown_below <= 1:
        raise ConfigError(f"--unknown-below: should be from 0 to 1, not {unknown_below}")
    from ..storage import manifest

    if manifest.read_classifier(model)[1].table:
        raise StateError(f"{model} was made of tables of numbers, and reads no images")
    paths = [path for given in images for path in _paths(given)]
    if not paths:
        raise DataError("there are no images to classify")
    from ..compare.tables import Table

    classifier = _loaded(model, custom or ())
    chunks = (paths[i : i + CHUNK] for i in range(0, len(paths), CHUNK))
    rows = [row for part in chunks for row in _classified(classifier, part, unknown_below)]
    columns = ("file", "class", "probability", "novelty")
    form.publish([Table(columns, rows, digits=3)])


def _loaded(model: Path, custom: Sequence[str]) -> SavedClassifier:
    """The model; the collector would search through all of torch again and again, in vain."""
    import gc

    gc.disable()
    try:
        from ..classifier.predictive import SavedClassifier

        return SavedClassifier.load(model, custom=custom)
    finally:
        gc.freeze()
        gc.enable()


def _paths(given: str) -> list[Path]:
    """The images that an argument means."""
    from ..data.reading import SUFFIXES, images_below

    if given == "-":
        found = [Path(os.fsdecode(line)) for line in sys.stdin.buffer.read().splitlines() if line]
    elif Path(given).is_dir():
        found = images_below(Path(given))
        if not found:
            raise DataError(f"{given} has no images ({', '.join(SUFFIXES)}) in it")
    else:
        found = [Path(given)]
    for path in found:
        if not path.is_file():
            raise DataError(f"there is no image {path}")
    return found


def _classified(
    classifier: SavedClassifier, paths: Sequence[Path], unknown_below: float | None
) -> list[tuple[Any, ...]]:
    from ..data.objects import read

    rows = read(list(paths), classifier.form_).rows
    p = classifier.predict_proba(rows)
    strange = classifier.novelty(rows).tolist()
    found = []
    for i, path in enumerate(paths):
        best = int(p[i].argmax())
        sure = unknown_below is None or p[i, best] >= unknown_below
        label = printable(str(classifier.classes_[best])) if sure else None
        found.append((printable(str(path)), label, float(p[i, best]), strange[i]))
    return found


def model(model: Model, *, form: Form) -> None:
    """Show what a model knows and how it was made.

    Example:
      linsep model shop/
    """
    from ..storage import manifest

    under_way = manifest.read(model).lesson
    if under_way is not None and manifest.read(model).classifier is None:
        raise StateError(
            f"{model} holds no model yet: its first lesson, {under_way.about}, was interrupted; "
            "repeat that command to finish it"
        )
    told, classifier = manifest.read_classifier(model)
    form.publish([_lessons(classifier)], list(_facts(model, told, classifier)))


def _lessons(told: Classifier) -> Table:
    from ..compare.tables import Table

    now = [group.after for group in told.history[-1].groups]
    rows = [
        (entry.when[:10], str(place), entry.images, named(entry.new),
         None if share is None else 100 * share)
        for place, (entry, share) in enumerate(zip(told.history, now, strict=True), start=1)
    ]  # fmt: skip
    columns = ("date", "lesson", "images", "new classes", "accuracy now, %")
    return Table(columns, rows, caption="What it has learned", digits=1)


def _facts(folder: Path, whole: Manifest, told: Classifier) -> Iterator[str]:
    from ..storage.manifest import MEMORY

    labels = told.learned
    yield f"Classes: {len(labels)}: {', '.join(sorted(printable(str(c)) for c in labels))}"
    if told.announced:
        rest = [label for label in told.labels if label not in labels]
        yield f"Announced and not learned yet: {named(rest)}"
    config = told.settings()
    width = config.net.options.get("width")
    net = printable(config.net.name) + (f" of width {width}" if width else "")
    if told.handed_in is not None:
        net = f"{printable(told.handed_in)}, a module of yours"
    net += " (frozen)" if told.frozen else ""
    yield f"Method {printable(config.method)}, net {net}, seed {config.seed}"
    yield f"Each lesson: {config.training.epochs} epochs at a learning rate of {config.training.lr}"
    channels, *sides = told.shape
    sides = sides or [channels]
    yield (
        f"Reads {channels} numbers"
        if told.table
        else f"Reads {sides[0]}x{sides[1]}x{channels} pixels"
    )
    if MEMORY in whole.files:
        what = "images' features" if told.frozen else "images"
        yield f"Memory: up to {config.memory.size} {what} for replay, and those to test on"
    else:
        yield "Memory: none in this copy, which predicts and cannot learn"
    ece, t = told.history[-1].ece.after, told.history[-1].temperature
    error = "" if ece is None else f", calibration error {100 * ece:.1f} %"
    yield f"Temperature {t:.3g}{error}"
    sizes = {name: file.bytes for name, file in whole.files.items()}
    yield "Size: " + ", ".join(f"{name} {size / 1e6:.2f} MB" for name, size in sizes.items())
    yield f"Made by linsep {whole.linsep}"
    if whole.lesson is not None:
        yield f"In the middle of learning {whole.lesson.about}, begun {whole.lesson.begun}"


def export(
    model: Model,
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="model.onnx or model.pt2.")
    ],
    custom: Custom = None,
) -> None:
    """Write a model as ONNX or as torch's .pt2, for other programs.

    ONNX needs onnx: pip install 'linsep\\[onnx]'.

    Example:
      linsep export shop/ -o shop.onnx
    """
    from ..classifier.predictive import SavedClassifier

    SavedClassifier.load(model, custom=custom or ()).export(output)
    say(open_console(), f"Written to {output}")
