"""`linsep data`: list data sets; download, check, prepare and draw them.

linsep.data is imported when a command runs, so that help appears at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table
from typer import Argument, Option

from ..errors import ConfigError, DataError, printable
from ..settings.catalogue import SCENARIOS
from ..settings.layers import assignment, merged
from ..settings.sections import Scenario
from ..settings.signature import validate
from .flags import Command, grouped
from .overrides import Set
from .terminal import open_console

if TYPE_CHECKING:
    from ..data.images import Dataset

app = typer.Typer(help="List, download, check, prepare and draw data sets.", no_args_is_help=True)

Name = Annotated[str, Argument(metavar="NAME", help="A data set, such as cifar100, or a scenario.")]
Data = Annotated[
    Path | None,
    Option("--data", help="Folder of the images. Default: LINSEP_DATA, then the cache."),
]
SKIP = "Skip and list files that cannot be read."
HOLD_OUT = "Share to hold out if there is no test split."


@dataclass(frozen=True)
class Given:
    """A data set, where it is, and how its images are read."""

    dataset: Name
    data: Data = None
    image_size: Annotated[int | None, Option(help="Resize your own images to squares.")] = None
    test_share: Annotated[float | None, Option(help=HOLD_OUT)] = None
    channels: Annotated[int | None, Option(help="1 for grey, 3 for colour images.")] = None
    skip_unreadable: Annotated[bool | None, Option("--skip-unreadable", help=SKIP)] = None
    set_: Set = None

    def scenario(self, per_task: int | None = None) -> Scenario:
        """Return the scenario that the options describe, as a config of a run would."""
        from ..data.registry import full_name

        given = vars(self) | {"per_task": per_task}
        given["name"] = full_name(given.pop("dataset"))
        given["data"] = self.data and str(self.data)
        fields = merged(*map(assignment, given.pop("set_") or ()))
        if other := fields.keys() - {"scenario"}:
            raise ConfigError(
                f"--set {min(other)}: only fields of the scenario: scenario.label=..."
            )
        given |= fields.get("scenario", {})
        return validate(Scenario, {k: v for k, v in given.items() if v is not None}, "scenario")


@app.command("list", cls=Command)
@grouped
def list_(data: Data = None) -> None:
    """List every data set, and whether it is on this machine."""
    from ..data.published import data_folder
    from ..data.registry import SOURCES

    root = data_folder(data)
    table = Table("scenario", "what it is", "here", "expected", box=None, pad_edge=False)
    for name, source in SOURCES.items():
        here = "yes" if not source.layout else "yours"
        if source.published is not None:
            here = "yes" if source.published.here(root) else "no"
        table.add_row(*map(escape, (name, SCENARIOS[name].line, here, source.layout)))
    open_console().print(table)
    typer.echo(f"data folder: {printable(str(root))}")


@app.command(cls=Command)
@grouped
def get(dataset: Name, data: Data = None) -> None:
    """Download a published data set, check it, and unpack it."""
    from ..data import registry
    from ..data.decoding import reading
    from ..data.published import data_folder
    from .progress import counting

    root = data_folder(data)
    with (
        counting(f"fetching {dataset}", bytes_=True) as progress,
        reading(root, "cannot be used", OSError),
    ):
        files = registry.get(registry.full_name(dataset), root, progress)
    for file in files:
        typer.echo(f"{printable(str(file))}: checksum right")


@app.command(cls=Command)
@grouped
def prepare(given: Given) -> None:
    """Decode the images into the cache, so that runs start at once.

    Repeat the command to resume.
    """
    found = _load(given.scenario())
    where = f", in {printable(str(found.cached))}" if found.cached else " (nothing to decode)"
    typer.echo(f"{given.dataset}: {_counts(found)}{where}")


@app.command(cls=Command)
@grouped
def check(given: Given) -> None:
    """Read all images; report counts, balance, pixels and duplicates."""
    from ..data.cache import verify
    from ..data.images import duplicates, pixel_statistics
    from ..data.registry import source

    wanted = given.scenario()
    found, used = _load(wanted), source(wanted.name).augment
    typer.echo(f"{given.dataset}: {_counts(found)}")
    for part, images in (("training", found.train), ("test", found.test)):
        counts = images.counts(len(found.names))
        some = " to ".join(map(str, sorted({min(counts), max(counts)})))
        typer.echo(f"{part} images per class: {some}")
    pictures = len(found.train.shape) == 3
    for what, values in pixel_statistics(found.train)._asdict().items() if pictures else ():
        against = f" (used: {_row(getattr(used, what))})" if used else ""
        typer.echo(f"{what} of the training pixels: {_row(values)}{against}")
    typer.echo(f"test images that are also training images: {duplicates(found)}")
    if found.cached is not None:
        typer.echo(f"{printable(str(found.cached))}: {verify(found.cached)} images, unchanged")


@app.command(cls=Command)
@grouped
def draw(
    given: Given,
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="The PNG file to write.")
    ],
    per_task: Annotated[int | None, Option(help="Classes per task.")] = None,
    images: Annotated[int, Option(min=1, max=100, help="Images of each class.")] = 3,
) -> None:
    """Draw a scenario: a column for each task, a row for each class."""
    from ..data.decoding import reading
    from ..data.scenarios import open_scenario
    from ..data.tasks import draw as drawn

    if output.suffix.lower() != ".png":
        named = output.parent / f"{output.stem or 'picture'}.png"
        raise ConfigError(f"--output {output}: the picture is a PNG; call it {named}")
    wanted = given.scenario(per_task)
    scenario = open_scenario(wanted, _load(wanted)).scenario
    if len(scenario.shape) == 1:
        raise DataError(f"{given.dataset}: rows of numbers cannot be drawn; see linsep data check")
    picture = drawn(scenario, images)
    with reading(output, "cannot be written"):
        output.parent.mkdir(parents=True, exist_ok=True)
        picture.save(output, "PNG")
    width, height = picture.size
    typer.echo(f"{printable(str(output))}: {len(scenario.tasks)} tasks, {width}x{height} pixels")


def _load(wanted: Scenario) -> Dataset:
    """Load and check a scenario's images, with a bar while they are decoded."""
    from ..data.images import check
    from ..data.scenarios import load
    from .progress import counting

    with counting(f"decoding {wanted.name}") as progress:
        found = load(wanted, progress)
    check(found)
    return found


def _counts(found: Dataset) -> str:
    first, *sides = found.train.shape
    counts = f"{len(found.train)} training and {len(found.test)} test"
    classes = f"of {len(found.names)} classes"
    if not sides:
        return f"{counts} rows {classes}, {first} numbers"
    kind = "colour" if first == 3 else "grey"
    return f"{counts} images {classes}, {sides[0]}x{sides[1]}, {kind}"


def _row(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.4f}" for value in values)
