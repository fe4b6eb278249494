"""`linsep data`: what there is, fetch it, look at it, decode it once.

Knows the terminal. What is done is done by linsep.data, which is imported when a command runs,
so that help is there at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..data.images import Dataset
    from ..data.sources.registry import Source
    from ..data.sources.table import Table
    from ..data.tasks import Scenario

app = typer.Typer(help="Data sets: list, get, check, prepare and show them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A data set, like cifar100, or a scenario of it.")]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="Where the images are (default: LINSEP_DATA, then the cache)."),
]
Size = Annotated[int | None, typer.Option(help="Shorter side of your own images, cut square.")]
Share = Annotated[float | None, typer.Option(help="Of each class to test on, if nothing says.")]
Channels = Annotated[int | None, typer.Option(help="1 for grey, 3 for colour images.")]


@app.command("list")
def list_(data: Data = None) -> None:
    """Every data set, and whether it is on this machine."""
    from rich.console import Console
    from rich.table import Table as Grid

    from ..data.sources.places import data_folder
    from ..data.sources.registry import SOURCES

    root = data_folder(data)
    grid = Grid("scenario", "what it is", "here", "expected", box=None, pad_edge=False)
    for name, source in SOURCES.items():
        grid.add_row(name, source.line, _here(source, root), source.layout)
    console = Console()
    console.print(grid)
    console.print(f"data folder: {root}", highlight=False, soft_wrap=True)


@app.command()
def get(name: Name, data: Data = None) -> None:
    """Fetch a published data set over https, check it, and unpack it."""
    from ..data.sources.places import data_folder
    from ..data.sources.registry import get as fetch
    from ..data.sources.registry import source

    wanted, root = source(name), data_folder(data)
    from .progress import counting

    with counting(f"fetching {wanted.name}", bytes_=True) as progress:
        files = fetch(wanted, root, progress)
    for file in files:
        typer.echo(f"{file}: checksum right")


@app.command()
def prepare(
    name: Name,
    data: Data = None,
    size: Size = None,
    test_share: Share = None,
    channels: Channels = None,
) -> None:
    """Decode the images once, for runs to read from the cache; goes on where it stopped."""
    from ..data.sources.places import prepared_folder

    wanted, found = _load(name, data, size, test_share, channels)
    where = f"; the cache is {prepared_folder()}" if wanted.prepares else " (nothing to decode)"
    typer.echo(f"{wanted.name}: {_counts(found)}{where}")


@app.command()
def check(
    name: Name,
    data: Data = None,
    size: Size = None,
    test_share: Share = None,
    channels: Channels = None,
) -> None:
    """Read everything and say what is there: counts, balance, pixel statistics, duplicates."""
    from ..data.sources.cache import copies, verify
    from ..data.sources.measure import class_counts, duplicates, pixel_statistics

    wanted, found = _load(name, data, size, test_share, channels)
    typer.echo(f"{wanted.name}: {_counts(found)}")
    for part, images in (("training", found.train), ("test", found.test)):
        counts = class_counts(images, len(found.names))
        typer.echo(f"{part} images per class: {min(counts)} to {max(counts)}")
    measured = pixel_statistics(found.train)
    for what, values, usual in zip(
        ("mean", "std"), measured, (wanted.mean, wanted.std), strict=True
    ):
        against = f" (used: {_row(usual)})" if usual else ""
        typer.echo(f"{what} of the training pixels: {_row(values)}{against}")
    typer.echo(f"test images that are also training images: {duplicates(found)}")
    for folder in copies(wanted.name) if wanted.prepares else ():
        typer.echo(f"{folder}: {verify(folder)} images, all as they were written")


@app.command()
def show(
    name: Name,
    out: Annotated[Path, typer.Option("-o", "--out", help="The picture to write, a .png.")],
    data: Data = None,
    per_task: Annotated[int | None, typer.Option(help="Classes per task.")] = None,
    images: Annotated[int, typer.Option(min=1, help="Images of each class.")] = 3,
    size: Size = None,
    test_share: Share = None,
    channels: Channels = None,
) -> None:
    """Draw a scenario: a column for every task, a row for every class."""
    from ..data.picture import draw
    from ..errors import ConfigError

    if out.suffix.lower() != ".png":
        raise ConfigError(f"--out {out}: the picture is a PNG; call it {out.with_suffix('.png')}")
    scenario = _scenario(name, data, per_task, size, test_share, channels)
    picture = draw(scenario, images)
    out.parent.mkdir(parents=True, exist_ok=True)
    picture.save(out, "PNG")
    typer.echo(f"{out}: {len(scenario.tasks)} tasks, {picture.width}x{picture.height} pixels")


def _scenario(
    name: str,
    data: Path | None,
    per_task: int | None,
    size: int | None,
    share: float | None,
    channels: int | None,
) -> Scenario:
    from ..data.sources.registry import SOURCES, source
    from ..data.sources.table import Table
    from ..data.tasks import split

    if name not in SOURCES and name not in {s.name for s in SOURCES.values()}:
        from ..data.scenarios import open_stream
        from ..settings.sections import Scenario as Wanted

        return open_stream(Wanted(name=name, per_task=per_task)).scenario
    wanted, loaded = _open(name, data, size, share, channels)
    found = loaded.data if isinstance(loaded, Table) else loaded
    count, classes = per_task or source(name).per_task, len(found.names)
    if isinstance(loaded, Table) and loaded.tasks and not per_task:
        tasks = loaded.classes()
        order = [c for task in tasks for c in task]
        return split(wanted.name, found, [len(task) for task in tasks], order)
    counts = [min(count, classes - first) for first in range(0, classes, count)]
    return split(wanted.name, found, counts)


def _load(
    name: str, data: Path | None, size: int | None, share: float | None, channels: int | None
) -> tuple[Source, Dataset]:
    from ..data.sources.table import Table

    wanted, found = _open(name, data, size, share, channels)
    return wanted, found.data if isinstance(found, Table) else found


def _open(
    name: str, data: Path | None, size: int | None, share: float | None, channels: int | None
) -> tuple[Source, Dataset | Table]:
    """Load with the options that were given, and a bar while images are decoded."""
    from ..data.sources.places import data_folder
    from ..data.sources.registry import source
    from ..errors import ConfigError
    from ..settings.signature import complete

    wanted = source(name)
    if wanted.own and data is None:
        raise ConfigError(f"--data is missing: where are they? Expected: {wanted.layout}")
    given = {"size": size, "test_share": share, "channels": channels}
    chosen = {key: value for key, value in given.items() if value is not None}
    options = complete(wanted.load, chosen, wanted.name)
    if not wanted.prepares:
        return wanted, wanted.load(data_folder(data), **options)
    from .progress import counting

    with counting(f"decoding {wanted.name}") as progress:
        return wanted, wanted.load(data_folder(data), progress, **options)


def _here(source: Source, root: Path) -> str:
    if source.own:
        return "yours"
    return "yes" if any(p.exists() for p in source.places(root)) else "no"


def _counts(found: Dataset) -> str:
    c, h, w = found.train.shape
    return (
        f"{len(found.train)} training and {len(found.test)} test images of "
        f"{len(found.names)} classes, {h}x{w}, {'colour' if c == 3 else 'grey'}"
    )


def _row(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.4f}" for value in values)
