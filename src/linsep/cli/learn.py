"""`linsep learn`: make a classifier of images, or teach the one in a folder more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.markup import escape
from typer import Argument, Option

from ..compare.tables import Table
from ..errors import ConfigError, DataError, printable, shortened
from ..settings.catalogue import method_name
from ..settings.config import nest_options
from ..settings.signature import validate
from ..storage import manifest
from ..storage.manifest import Params
from .flags import Custom, Pace
from .overrides import Set, assigned, settings_from
from .run import followed
from .terminal import open_console, publish, say

if TYPE_CHECKING:
    from ..classifier.course import Course
    from ..classifier.teaching import Teaching

Model = Annotated[Path, Argument(metavar="MODEL", help="The model's folder.")]
SHOWN = 4  # classes that a cell names
WHERE = "Folder of class folders, or a CSV with the columns file and label."
ANNOUNCED = "All classes it will ever learn: cat,dog,fox. Default: any."
TRAIN = "Train only the head, or all. Default: all; photographs: none."
MEMORY = "Images to keep for replay, or 0. Default: 200; untrained, 0."
RATE = "Learning rate. Default: 0.2, scaled for some methods."
START = "Weights trained on --classes, in that order; learns none of IMAGES."
AGAIN = "Repeat the last lesson, although it is learned."
DISCARD = "Drop an interrupted lesson and start this one."
SKIP = "Skip and list files that cannot be read."
KEEP = "Earlier states to keep for `linsep model undo`. Default: 3."
EMPTY = "Let a copy without memory learn on, with an empty one."


@dataclass(frozen=True)
class ModelFlags:
    """Flags that are fixed when the model is created."""

    method: Annotated[str | None, Option(help="How to learn: er, derpp+bfp, icarl, ...")] = None
    net: Annotated[str | None, Option(help="cnn, mlp, resnet18, timm/..., and more.")] = None
    train: Annotated[str | None, Option(metavar="head|all", help=TRAIN)] = None
    memory: Annotated[int | None, Option(help=MEMORY)] = None
    epochs: Annotated[int | None, Option(help="Epochs per lesson. Default: 20.")] = None
    batch_size: Annotated[int | None, Option(help="Images per step. Default: 32.")] = None
    lr: Annotated[float | None, Option(help=RATE)] = None
    image_size: Annotated[
        int | None, Option(help="Side in pixels to resize images to. Default: as the first.")
    ] = None
    test_share: Annotated[
        float | None, Option(help="Share to hold out for testing and calibration. Default: 0.1.")
    ] = None
    keep: Annotated[int | None, Option(help=KEEP)] = None
    seed: Annotated[int | None, Option(help="Seed of all random numbers. Default: 0.")] = None
    device: Annotated[str | None, Option(help="auto, cpu, cuda or mps.")] = None
    set_: Set = None

    def params(self) -> dict[str, Any]:
        """The parameters of the classifier that were given."""
        given = {name: value for name, value in vars(self).items() if name != "set_"}
        given["random_state"] = given.pop("seed")
        given["method"] = self.method and method_name(self.method)
        if self.set_:
            given["settings"] = settings_from(None, assigned(self.set_))
        return {name: value for name, value in given.items() if value is not None}


def learn(
    model: Model,
    images: Annotated[Path, Argument(metavar="IMAGES", help=WHERE)],
    *,
    making: ModelFlags,
    classes: Annotated[str | None, Option(metavar="NAMES", help=ANNOUNCED)] = None,
    start_from: Annotated[Path | None, Option(metavar="FILE", help=START)] = None,
    again: Annotated[bool, Option("--again", help=AGAIN)] = False,
    discard: Annotated[bool, Option("--discard", help=DISCARD)] = False,
    empty_memory: Annotated[bool, Option("--empty-memory", help=EMPTY)] = False,
    skip_unreadable: Annotated[bool, Option("--skip-unreadable", help=SKIP)] = False,
    custom: Custom = None,
    pace: Pace,
) -> None:
    """Teach a model new classes, or more of those it knows.

    A folder without a model gets one. How it learns is chosen then, and stays with it. Stop at any
    time, and repeat the command to resume.

    Examples:
      linsep learn shop/ photos/january --image-size 64 --memory 500
      linsep learn shop/ photos/february
    """
    announced = _announced(classes)
    new = _checked(model, making.params(), announced, start_from)

    from ..classifier.teaching import Teaching

    rows, labels = _given(images, skip_unreadable)
    console = open_console(pace.quiet)
    lesson = Teaching(
        model, rows, labels, new=new, classes=announced,
        start_from=None if start_from is None else str(start_from), about=str(images), again=again,
        discard=discard, empty_memory=empty_memory, custom=custom or (), save_every=pace.save_every,
    )  # fmt: skip
    with ExitStack() as opened:
        with console.status(f"reading {escape(str(images))}") as status:
            lesson.progress = lambda done, total: status.update(f"features {done}/{total}")
            opened.enter_context(lesson)
        if lesson.finished:
            say(console, f"{model} has learned {images} already; --again learns it once more.")
        else:
            _teach(lesson, console)
    _conclude(lesson.course, model)


def _announced(classes: str | None) -> list[str] | None:
    if classes is None:
        return None
    names = [name.strip() for name in classes.split(",")]
    if not all(names) or len(set(names)) != len(names):
        raise ConfigError(f"--classes: should be distinct names, such as cat,dog, not {classes!r}")
    return names


def _checked(
    model: Path,
    given: Mapping[str, Any],
    announced: Sequence[str] | None,
    start_from: Path | None,
) -> Params:
    """What a new model begins with; for one that is there, flags that contradict it are refused."""
    if "settings" in given:
        given = {**given, "settings": nest_options(given["settings"])}
    known = manifest.read(model).classifier
    if known is None:
        from ..classifier.beginning import resolved

        new = validate(manifest.Params, given)
        resolved(new)  # refuses a method, a net or a value that there is not
        if start_from is not None and announced is None:
            raise ConfigError("--start-from: name the file's classes in its order with --classes")
        return new
    params = known.params.model_dump()
    for name, value in given.items():
        if params[name] != value and name != "keep":
            flag = {"random_state": "seed", "settings": "set"}.get(name, name.replace("_", "-"))
            was = "the default" if params[name] is None else shortened(params[name])
            raise ConfigError(
                f"--{flag}: {model} was made with {was}, not {shortened(value)}; leave it out, "
                "or make a new model"
            )
    if start_from is not None:
        raise ConfigError(f"--start-from: {model} has learned something; give it a new folder")
    if announced is not None and (not known.announced or announced != known.labels):
        raise ConfigError(f"--classes: {model} was made with others; leave it out")
    return known.params.model_copy(update={"keep": given.get("keep", known.params.keep)})


def _given(images: Path, skip: bool) -> tuple[Any, list[str] | None]:
    """What the classifier reads: a folder, or the files and labels of a CSV."""
    if images.is_dir() and not skip:
        return images, None
    files = labelled(images)
    if skip:
        from ..data.reading import readable

        files = {file: files[file] for file in readable(files, images)}
    return list(files), list(files.values())


def labelled(images: Path) -> dict[Path, str]:
    """The files to learn from, each with its label."""
    from ..data.listings import read_rows
    from ..data.reading import check_case, labelled_files

    if images.is_dir():
        return labelled_files(images)
    if not images.exists():
        raise DataError(f"there is no folder or CSV of images at {images}")
    if images.suffix.lower() != ".csv":
        raise DataError(f"{images}: should be a folder of class folders, or a CSV (.csv)")
    rows = read_rows(images)
    if len({row.task for row in rows}) > 1:
        raise DataError(f"{images} has several tasks; give a CSV for each lesson")
    train = [row for row in rows if row.split != "test"]
    if not train:
        raise DataError(f"{images} has test rows only")
    check_case(sorted({row.label for row in train}), images)
    return {row.path: row.label for row in train}


def _teach(lesson: Teaching, console: Console) -> None:
    run = lesson.run
    assert run is not None
    task, held = run.scenario.tasks[-1], len(run.scenario.groups[-1].test)
    done, total = run.steps()
    new = [lesson.columns[c] for c in task.classes]
    say(console, f"{len(task.train)} images to learn from and {held} to test on; new: {named(new)}")
    if lesson.resumed:
        say(console, f"resuming from step {done} of {total}")
    for _ in followed(lesson, console, accuracies=False):
        pass


def _conclude(course: Course, model: Path) -> None:
    report, console = course.history[-1], open_console()
    publish([known_table(report)])
    ece = report["ece"]
    if ece["before"] is not None:
        error = f"{100 * ece['before']:.1f} % before scaling, {100 * ece['after']:.1f} % after"
        if report["temperature"] == 1.0:
            error = f"{100 * ece['before']:.1f} %; too few images were held out to correct it"
        say(console, f"Calibration error: {error}")
    count = len(course.seen)
    say(console, f"{model} knows {count} class{'es' if count > 1 else ''}.")


def known_table(report: Mapping[str, Any]) -> Table:
    """How well each lesson's classes are known, before and after the last one."""
    rows = []
    for place, group in enumerate(report["groups"], start=1):
        before, after = group["before"], group["after"]
        lost = None if before is None or after is None else 100 * (before - after)
        share = [None if value is None else 100 * value for value in (before, after)]
        rows.append((str(place), named(group["classes"]), *share, lost))
    columns = ("lesson", "classes", "before, %", "now, %", "forgotten, points")
    return Table(columns, rows, caption="Accuracy on images that were held out", digits=1)


def named(classes: Sequence[Any]) -> str:
    """Some classes by name, and how many more there are."""
    shown = [printable(str(label)) for label in classes[:SHOWN]]
    more = len(classes) - len(shown)
    return (", ".join(shown) + (f" and {more} more" if more else "")) or "none"
