"""A page about a classifier, for people who decide: how well it knows what, and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..classifier.drift import HeldOut
from ..classifier.predictive import Predictive
from ..compare.tables import Table
from ..errors import printable
from ..optional import needed
from ..storage.manifest import Classifier, Manifest

FEW_KEPT = 10  # images of a class, below which more are advised
CONFUSED, AT_LEAST = 0.2, 5  # share of a class's images, and their number, taken for another
COSTLY = 0.05  # accuracy that a lesson may cost older classes
LOST = 0.1  # accuracy since their lessons, above which training anew is advised
UNCALIBRATED = 0.1
MOST_CLASSES = 20  # that a confusion matrix shows
BINS = (0.0, 0.5, 0.7, 0.9, 1.0)


class Part(NamedTuple):
    title: str
    note: str
    table: Table


def page(name: str, clf: Predictive, told: Manifest, held: HeldOut | None) -> str:
    """The page about a model that a folder of this name holds."""
    jinja2 = needed("jinja2", "a report")
    from .page import text

    classifier = told.classifier
    assert classifier is not None
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    safe = jinja2.utils.markupsafe.Markup
    made = environment.from_string(text("classifier.html.j2")).render(
        title=f"Classifier {printable(name)}",
        byline=f"model {told.version}, {printable(classifier.settings().method)}",
        tiles=_tiles(clf, told, classifier, held),
        advice=list(advice(clf, classifier, held)),
        parts=[part for part in _parts(clf, told, classifier, held) if part.table.rows],
        style=safe(text("report.css")),
        table=lambda part: safe(part.table.to_html()),
        version=told.linsep,
    )
    return str(made)


def _tiles(
    clf: Predictive, told: Manifest, classifier: Classifier, held: HeldOut | None
) -> list[tuple[str, str, str]]:
    last = classifier.history[-1]
    right = "-" if held is None else _percent(float((_taken(clf, held) == held.truth).mean()))
    tested = 0 if held is None else len(held.truth)
    size = sum(file.bytes for file in told.files.values()) / 1e6
    lost = "-" if (value := _lost(classifier)) is None else f"{100 * value:.1f} points"
    kept = len(clf.kept_)
    return [
        ("Knows", f"{len(classifier.learned)} classes", f"from {len(classifier.history)} lessons"),
        ("Accuracy", right, f"on {tested} images that it never trained on"),
        ("Forgotten", lost, "mean since the lessons that taught them"),
        ("Keeps", f"{kept} images", f"{size:.2f} MB in all; last lesson {last.when[:10]}"),
    ]


# --- advice ---------------------------------------------------------------------------------------


def advice(clf: Predictive, told: Classifier, held: HeldOut | None) -> Iterator[str]:
    """What to do next, each with its reason."""
    counts = _kept(clf)
    if told.params.memory and (few := [c for c in told.learned if counts[c] < FEW_KEPT]):
        named = ", ".join(f"{printable(str(c))} ({counts[c]})" for c in few[:5])
        more = f" and {len(few) - 5} more" if len(few) > 5 else ""
        yield (
            f"Bring more images of {named}{more}: fewer than {FEW_KEPT} are kept, so that they are "
            "forgotten first and their accuracy is uncertain."
        )
    for true, other, share, number in _confusions(clf, held)[:5]:
        if share >= CONFUSED and number >= AT_LEAST:
            yield (
                f"Check the labels of {true} and {other}, and bring more images of both: "
                f"{_percent(share)} of {true} is taken for {other} ({number} images)."
            )
    for place, entry in enumerate(told.history, start=1):
        if entry.forgotten is not None and entry.forgotten > COSTLY:
            yield (
                f"Lesson {place} ({entry.when[:10]}) cost the classes before it "
                f"{100 * entry.forgotten:.1f} points. Undo it if it was the last one and not worth "
                "that, or start a model with a larger memory."
            )
    lost = _lost(told)
    if lost is not None and lost > LOST:
        yield (
            f"Retrain from scratch on all images that you still have: classes have lost "
            f"{100 * lost:.1f} points on average since their lessons."
        )
    ece = told.history[-1].ece.after
    if ece is not None and ece > UNCALIBRATED:
        yield (
            f"Do not rely on the probabilities: they are off by {_percent(ece)} on average. More "
            "held-out images (test_share) calibrate them better."
        )


def _lost(told: Classifier) -> float | None:
    """The mean accuracy that groups of classes have lost since the lesson that taught them."""
    last = told.history[-1].groups
    pairs = [(e.groups[i].after, last[i].after) for i, e in enumerate(told.history[:-1])]
    drops = [then - now for then, now in pairs if then is not None and now is not None]
    return float(np.mean(drops)) if drops else None


def _kept(clf: Predictive) -> Counter[object]:
    return Counter(clf.columns_[c] for c in clf.kept_.y.tolist())


def _taken(clf: Predictive, held: HeldOut) -> np.ndarray:
    """The class that each held-out image is taken for."""
    return np.asarray(clf.classes_[held.p.argmax(1)])


def _confusions(clf: Predictive, held: HeldOut | None) -> list[tuple[str, str, float, int]]:
    """(class, what it is taken for, share of its images, number), the most frequent first."""
    if held is None:
        return []
    of = Counter(held.truth.tolist())
    pairs = Counter(zip(held.truth.tolist(), _taken(clf, held).tolist(), strict=True))
    found = [
        (printable(str(true)), printable(str(taken)), number / of[true], number)
        for (true, taken), number in pairs.items()
        if true != taken
    ]
    return sorted(found, key=lambda one: (-one[2], one[:2]))


# --- tables ---------------------------------------------------------------------------------------


def _parts(
    clf: Predictive, told: Manifest, classifier: Classifier, held: HeldOut | None
) -> Iterator[Part]:
    yield Part("Lessons", "Accuracy on held-out images, in percent.", _lessons(classifier))
    yield Part("Classes", "Kept images are those for replay and those held out.", _classes(
        clf, classifier, held
    ))  # fmt: skip
    if held is not None:
        if len(clf.classes_) <= MOST_CLASSES:
            note = "Rows are what images show, columns what they are taken for, in images."
            yield Part("Confusion", note, _matrix(clf, held))
        rows = [(a, b, 100 * share, number) for a, b, share, number in _confusions(clf, held)[:10]]
        columns = ("class", "taken for", "of its images, %", "images")
        yield Part("Most frequent confusions", "", Table(columns, rows, digits=1))
        note = f"Calibration error: {_ece(classifier)}."
        yield Part("Calibration", note, _calibration(clf, held))
    sizes = [(name, file.bytes / 1e6) for name, file in sorted(told.files.items())]
    note = "Only memory.safetensors has images, or features of them."
    yield Part("What is kept", note, Table(("file", "MB"), sizes))


def _lessons(told: Classifier) -> Table:
    last, rows = told.history[-1].groups, []
    for place, (entry, now) in enumerate(zip(told.history, last, strict=True), start=1):
        new = ", ".join(printable(str(c)) for c in entry.new) or "-"
        then = entry.groups[-1].after
        rows.append((
            str(place), entry.when[:10], entry.images, new, _points(then), _points(now.after),
            _points(entry.forgotten),
        ))  # fmt: skip
    columns = (
        "lesson", "date", "images", "new classes", "when learned", "now",
        "cost of the lesson to older classes",
    )  # fmt: skip
    return Table(columns, rows, digits=1)


def _classes(clf: Predictive, told: Classifier, held: HeldOut | None) -> Table:
    kept, rows = _kept(clf), []
    lesson = {c: i for i, e in reversed([*enumerate(told.history, 1)]) for c in e.new}
    taken = None if held is None else _taken(clf, held)
    for label in told.learned:
        right, tested = None, 0
        if held is not None and taken is not None:
            mine = held.truth == label
            tested = int(mine.sum())
            right = 100 * float((taken[mine] == label).mean()) if tested else None
        rows.append(
            (printable(str(label)), str(lesson.get(label, "-")), right, tested, kept[label])
        )
    columns = ("class", "lesson", "accuracy, %", "held-out images", "kept images")
    return Table(columns, rows, digits=1)


def _matrix(clf: Predictive, held: HeldOut) -> Table:
    labels = clf.classes_.tolist()
    pairs = Counter(zip(held.truth.tolist(), _taken(clf, held).tolist(), strict=True))
    names = [printable(str(label)) for label in labels]
    rows: list[list[str | int]] = [
        [name, *(pairs[a, b] for b in labels)] for name, a in zip(names, labels, strict=True)
    ]
    return Table(("class", *(f"as {name}" for name in names)), rows)


def _calibration(clf: Predictive, held: HeldOut) -> Table:
    sure, right, rows = held.p.max(1), _taken(clf, held) == held.truth, []
    for low, high in pairwise(BINS):
        here = (sure > low) & (sure <= high)
        if here.any():
            shares = 100 * float(sure[here].mean()), 100 * float(right[here].mean())
            rows.append((f"{100 * low:.0f} to {100 * high:.0f} %", int(here.sum()), *shares))
    columns = ("probability", "images", "mean probability, %", "right, %")
    return Table(columns, rows, digits=1)


def _ece(told: Classifier) -> str:
    ece = told.history[-1].ece
    both = (("before scaling", ece.before), ("after it", ece.after))
    return ", ".join(f"{_percent(v)} {when}" for when, v in both if v is not None) or "not measured"


def _points(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def written(folder: Path, clf: Predictive, told: Manifest, held: HeldOut | None) -> bytes:
    """The page of a folder's model, as a file."""
    return page(folder.resolve().name, clf, told, held).encode()
