"""`linsep model`: what a model knows, and how to change one's mind about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import StateError, printable
from .flags import Command, Form, Group, grouped
from .learn import Model, named
from .terminal import open_console, say

if TYPE_CHECKING:
    from ..compare.tables import Table
    from ..storage.manifest import Classifier, Manifest


class Shown(Group):
    """`linsep model shop/` is short for `linsep model show shop/`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args.insert(0, "show")
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=Shown, no_args_is_help=True, help="Show a model, or change your mind about it."
)


@app.command(cls=Command)
@grouped
def show(model: Model, *, form: Form) -> None:
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
    from ..storage.manifest import MEMORY, previous

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
        yield f"Memory: up to {config.memory.size} {what} for replay, plus the held-out images"
    else:
        yield "Memory: none in this copy, which predicts and cannot learn"
    ece, t = told.history[-1].ece.after, told.history[-1].temperature
    error = "" if ece is None else f", calibration error {100 * ece:.1f} %"
    yield f"Temperature {t:.3g}{error}"
    sizes = {name: file.bytes for name, file in whole.files.items()}
    if kept := previous(folder):
        yield f"Previous states: {len(kept)}, {_megabytes(kept):.2f} MB (linsep model undo)"
    yield "Size: " + ", ".join(f"{name} {size / 1e6:.2f} MB" for name, size in sizes.items())
    yield f"Made by linsep {whole.linsep}"
    if whole.lesson is not None:
        yield f"In the middle of learning {whole.lesson.about}, begun {whole.lesson.begun}"


def _megabytes(folders: Sequence[Path]) -> float:
    return sum(path.stat().st_size for place in folders for path in place.iterdir()) / 1e6


@app.command(cls=Command)
@grouped
def history(model: Model, *, form: Form) -> None:
    """List what happened to a model, and the states undo can restore.

    Example:
      linsep model history shop/
    """
    from ..compare.tables import Table
    from ..storage import manifest

    told, classifier = manifest.read_classifier(model)
    kept = manifest.previous(model)
    undos = {_steps(place): (len(kept) - i, _megabytes([place])) for i, place in enumerate(kept)}
    events = _events(classifier)
    size = sum(file.bytes for file in told.files.values()) / 1e6
    undos[len(events)] = (0, size)
    rows = [
        (when[:10], what, *undos.get(number, (None, None)))
        for number, (when, what) in enumerate(events, start=1)
    ]
    columns = ("date", "change", "undos back to it", "MB")
    form.publish([Table(columns, rows, caption="What happened to it", digits=2)])


def _events(told: Classifier) -> list[tuple[str, str]]:
    """When something was changed, and what, in order."""
    lessons = [
        (entry.when, f"lesson {number}: {entry.images} images; new: {named(entry.new)}")
        for number, entry in enumerate(told.history, start=1)
    ]
    return sorted(lessons, key=lambda event: event[0])


def _steps(folder: Path) -> int:
    from ..storage import manifest

    return len(_events(manifest.read_classifier(folder)[1]))


@app.command(cls=Command)
@grouped
def undo(model: Model) -> None:
    """Go back to before the last lesson or change, bit for bit.

    `linsep learn --keep` has how many states are kept to go back to.

    Example:
      linsep model undo shop/
    """
    from ..classifier import saved

    told = saved.undo(model)
    assert told.classifier is not None
    when, what = _events(told.classifier)[-1]
    say(open_console(), f"{model} is again as it was after {printable(what)} ({when[:10]}).")
