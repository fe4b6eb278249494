"""`linsep data`: list data sets, fetch, check, prepare and draw them.

Knows the terminal. The work is done by linsep.data, which is imported when a command runs, so that
help is there at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..data.images import Dataset
    from ..settings.sections import Scenario

app = typer.Typer(help="Data sets: list, get, check, prepare and show them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A data set, like cifar100, or a scenario of it.")]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="Where the images are (default: LINSEP_DATA, then the cache)."),
]
Size = Annotated[int | None, typer.Option(help="Shorter side of your own images, cut square.")]
Share = Annotated[
    float | None, typer.Option(help="Share of each class to test on, where the data have no split.")
]
Channels = Annotated[int | None, typer.Option(help="1 for grey, 3 for colour images.")]


@app.command("list")
def list_(data: Data = None) -> None:
    """List every data set, and whether it is on this machine."""
    from rich.console import Console
    from rich.table import Table

    from ..data.registry import SOURCES
    from ..data.sources.places import data_folder

    root = data_folder(data)
    table = Table("scenario", "what it is", "here", "expected", box=None, pad_edge=False)
    for name, source in SOURCES.items():
        here = "yes" if not source.layout else "yours"
        if source.published is not None:
            here = "yes" if source.published.here(root) else "no"
        table.add_row(name, source.line, here, source.layout)
    console = Console()
    console.print(table)
    typer.echo(f"data folder: {_plain(root)}")


@app.command()
def get(name: Name, data: Data = None) -> None:
    """Fetch a published data set over https, check it, and unpack it."""
    from ..data import registry
    from ..data.sources.places import data_folder
    from ..data.sources.reading import reading
    from .progress import counting

    root = data_folder(data)
    with (
        counting(f"fetching {name}", bytes_=True) as progress,
        reading(root, "cannot be used", OSError),
    ):
        files = registry.get(registry.full_name(name), root, progress)
    for file in files:
        typer.echo(f"{_plain(file)}: checksum right")


@app.command()
def prepare(
    name: Name,
    data: Data = None,
    size: Size = None,
    test_share: Share = None,
    channels: Channels = None,
) -> None:
    """Decode the images once, for runs to read from the cache. Repeat the command to resume."""
    found = _load(_wanted(name, data, size, test_share, channels))
    where = " (nothing to decode)" if found.cached is None else f", in {_plain(found.cached)}"
    typer.echo(f"{name}: {_counts(found)}{where}")


@app.command()
def check(
    name: Name,
    data: Data = None,
    size: Size = None,
    test_share: Share = None,
    channels: Channels = None,
) -> None:
    """Read everything and report counts, balance, pixel statistics and duplicates."""
    from ..data.registry import source
    from ..data.sources.cache import verify
    from ..data.sources.measure import class_counts, duplicates, pixel_statistics

    wanted = _wanted(name, data, size, test_share, channels)
    found, used = _load(wanted), source(wanted.name).augment
    typer.echo(f"{name}: {_counts(found)}")
    for part, images in (("training", found.train), ("test", found.test)):
        counts = class_counts(images, len(found.names))
        typer.echo(f"{part} images per class: {min(counts)} to {max(counts)}")
    for what, values in pixel_statistics(found.train)._asdict().items():
        against = f" (used: {_row(getattr(used, what))})" if used else ""
        typer.echo(f"{what} of the training pixels: {_row(values)}{against}")
    typer.echo(f"test images that are also training images: {duplicates(found)}")
    if found.cached is not None:
        typer.echo(f"{_plain(found.cached)}: {verify(found.cached)} images, unchanged")


@app.command()
def show(
    name: Name,
    out: Annotated[Path, typer.Option("-o", "--out", help="The picture to write, a .png.")],
    data: Data = None,
    per_task: Annotated[int | None, typer.Option(help="Classes per task.")] = None,
    images: Annotated[int, typer.Option(min=1, max=100, help="Images of each class.")] = 3,
    size: Size = None,
    test_share: Share = None,
    channels: Channels = None,
) -> None:
    """Draw a scenario as `linsep run` opens it: a column for every task, a row for every class."""
    from ..data.picture import draw
    from ..data.scenarios import open_scenario
    from ..data.sources.reading import reading
    from ..errors import ConfigError

    if out.suffix.lower() != ".png":
        named = out.parent / f"{out.stem or 'picture'}.png"
        raise ConfigError(f"--out {out}: the picture is a PNG; call it {named}")
    wanted = _wanted(name, data, size, test_share, channels, per_task)
    scenario = open_scenario(wanted, _load(wanted)).scenario
    picture = draw(scenario, images)
    with reading(out, "cannot be written"):
        out.parent.mkdir(parents=True, exist_ok=True)
        picture.save(out, "PNG")
    size_ = f"{picture.width}x{picture.height}"
    typer.echo(f"{_plain(out)}: {len(scenario.tasks)} tasks, {size_} pixels")


def _wanted(
    name: str,
    data: Path | None,
    size: int | None,
    test_share: float | None,
    channels: int | None,
    per_task: int | None = None,
) -> Scenario:
    """Return the scenario that the options describe, as a config of a run would."""
    from ..data.registry import full_name
    from ..settings.sections import Scenario
    from ..settings.signature import validate

    given = {
        "data": None if data is None else str(data),
        "size": size,
        "test_share": test_share,
        "channels": channels,
        "per_task": per_task,
    }
    chosen = {key: value for key, value in given.items() if value is not None}
    return validate(Scenario, {"name": full_name(name)} | chosen, "scenario")


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
    c, h, w = found.train.shape
    return (
        f"{len(found.train)} training and {len(found.test)} test images of "
        f"{len(found.names)} classes, {h}x{w}, {'colour' if c == 3 else 'grey'}"
    )


def _row(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.4f}" for value in values)


def _plain(path: Path) -> str:
    """Return a path in printable form, as a name on disk need not be UTF-8."""
    return str(path).encode(errors="replace").decode()
