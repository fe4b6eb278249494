"""`linsep model`: what a model knows, and how to change one's mind about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ..errors import ConfigError, DataError, StateError, printable
from ..settings.catalogue import METHODS
from .flags import Command, Custom, Form, Group, grouped
from .learn import Model, labelled, named
from .predict import paths_of
from .terminal import open_console, say
from .watch import drift, report

if TYPE_CHECKING:
    from ..classifier.course import Course
    from ..compare.tables import Table
    from ..storage.manifest import Classifier, Manifest


FILES = "Folders or image files to forget, as they were when the model learned them."
REFIT = "Fit the head that predicts to the samples that are left."
TABLE = "CSV with the columns file and label."
Old = Annotated[str, Argument(metavar="CLASS", help="A class that the model knows.")]
New = Annotated[str, Argument(metavar="NAME", help="The name of the class from now on.")]
Labels = Annotated[Path, Argument(metavar="FILE.csv", help=TABLE)]


class Shown(Group):
    """`linsep model shop/` is short for `linsep model show shop/`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args.insert(0, "show")
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=Shown, no_args_is_help=True, help="Show a model, or change your mind about it."
)


for _name, _command in (("report", report), ("drift", drift)):
    app.command(_name, cls=Command)(grouped(_command))


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
    base = METHODS.get(config.method.partition("+")[0])
    if base is None or base.compute >= 1:  # others train nothing
        training = config.training
        yield f"Each lesson: {training.epochs} epochs at a learning rate of {training.lr}"
    channels, *sides = told.shape
    sides = sides or [channels]
    yield (
        f"Reads {channels} numbers"
        if told.table
        else f"Reads {sides[0]}x{sides[1]}x{channels} pixels"
    )
    if MEMORY not in whole.files:
        yield "Memory: none in this copy, which predicts and cannot learn"
    elif not config.memory.size:
        yield "Memory: none; it keeps no image"
    else:
        what = "images' features" if told.frozen else "images"
        yield f"Memory: up to {config.memory.size} {what} for replay, plus the held-out images"
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
    changes = [(change.when, change.what) for change in told.changes]
    return sorted([*lessons, *changes], key=lambda event: event[0])


Names = Annotated[list[str] | None, Option("--class", metavar="NAME", help="A class to forget.")]
Images = Annotated[list[Path] | None, Option("--images", metavar="FILES", help=FILES)]
Refit = Annotated[bool, Option("--retrain-head", help=REFIT)]


@app.command(cls=Command)
def forget(
    model: Model,
    class_: Names = None,
    images: Images = None,
    retrain_head: Refit = False,
    custom: Custom = None,
) -> None:
    """Forget classes or images, and every earlier state that knew them.

    They leave the stored samples, the held-out images and the class statistics. It is printed what
    of them is left. The model records when, and the digests of the images, but no content.

    Examples:
      linsep model forget shop/ --class "Old product"
      linsep model forget shop/ --images photos/customer-17
    """
    if not class_ and not images:
        raise ConfigError("name what to forget: --class or --images")
    from ..classifier import changes
    from ..data.objects import read

    def act(course: Course) -> tuple[Course, list[str]]:
        notes: list[str] = []
        if class_:
            names = [changes.label_of(course, name) for name in class_]
            course, notes = changes.forget(course, names, retrain_head)
        if images:
            files = [path for given in images for path in paths_of(str(given))]
            rows = course.as_learned(read(files, course.form).rows)
            course, more = changes.forget_images(course, rows, retrain_head)
            notes = notes + more
        return course, notes

    _change(model, act, custom)


@app.command(cls=Command)
def rename(model: Model, old: Old, new: New, custom: Custom = None) -> None:
    """Give a class another name.

    Example:
      linsep model rename shop/ Trouser Trousers
    """
    from ..classifier import changes

    _change(
        model,
        lambda c: changes.rename(c, changes.label_of(c, old), changes.label_of(c, new)),
        custom,
    )


@app.command(cls=Command)
def merge(model: Model, one: Old, into: New, custom: Custom = None) -> None:
    """Take the images of a class for images of another one from now on.

    Example:
      linsep model merge shop/ Pullover Sweater
    """
    from ..classifier import changes

    _change(
        model,
        lambda c: changes.merge(c, changes.label_of(c, one), changes.label_of(c, into)),
        custom,
    )


@app.command(cls=Command)
def relabel(model: Model, labels: Labels, custom: Custom = None) -> None:
    """Correct wrong labels of images that are stored or held out.

    Example:
      linsep model relabel shop/ corrected.csv
    """
    from ..classifier import changes
    from ..data.objects import read

    if labels.suffix.lower() != ".csv":
        raise DataError(f"{labels}: should be a CSV (.csv) with the columns file and label")
    files = labelled(labels)

    def act(course: Course) -> tuple[Course, list[str]]:
        rows = course.as_learned(read(list(files), course.form).rows)
        return changes.relabel(course, rows, [changes.label_of(course, v) for v in files.values()])

    _change(model, act, custom)


def _change(
    model: Path,
    act: Callable[[Course], tuple[Course, list[str]]],
    custom: list[str] | None,
) -> None:
    """Change a model, and print what was changed and what was not."""
    from ..classifier import saved

    notes: list[str] = []

    def acted(course: Course) -> Course:
        course, told = act(course)
        notes.extend(told)
        return course

    course = saved.change(model, acted, custom=custom or ())
    console, count = open_console(), len(course.seen)
    for note in notes:
        say(console, note)
    say(console, f"{model} knows {count} class{'es' if count > 1 else ''}.")


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
