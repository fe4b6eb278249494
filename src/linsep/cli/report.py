"""`linsep report` and `linsep figures`: finished runs as a page, and as files of figures."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigError, StateError, unknown
from ..optional import needed
from .flags import selected
from .store import Runs, Where, wide_console
from .terminal import say

if TYPE_CHECKING:
    from ..report.gather import LoadedRuns

Chosen = Annotated[
    list[Path] | None, typer.Argument(metavar="RUNS", help="Keys, names or folders of runs.")
]
GridFile = Annotated[
    str | None, typer.Option("--grid", metavar="CONFIG", help="Only the runs of this grid.")
]
Page = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the page.")
]
Open = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]
Folder = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write to.")]
Formats = Annotated[
    str, typer.Option("--format", metavar="FORMATS", help="svg, pdf or png, separated by commas.")
]


def report(
    run: Chosen = None,
    output: Page = Path("report.html"),
    where: Where = None,
    grid: GridFile = None,
    runs: Runs = Path("runs"),
    open_: Open = False,
) -> None:
    """Write an HTML report on finished runs: results, figures, and how to repeat them.

    The page needs no network and no other file. Sections without data are left out;
    `linsep analyse` adds spectra, probes and more. It needs pip install 'linsep\\[plot]'.

    [bold]Examples[/bold]

      linsep report --where "scenario=fashion-mini" -o report.html

      linsep report --grid fashion-mini --open
    """
    needed("matplotlib", "a report")
    found = _chosen(run, where, grid, runs)
    from ..report.page import page

    with _drawing(found):
        content = page(found).encode()
    _write(output, content)
    for name, why in found.left_out:
        _say(f"left out: {name}, {why}")
    _say(f"Report of {_runs(found)}: {output} ({len(content) / 1000:.0f} kB)")
    if open_:
        import webbrowser

        if not webbrowser.open(output.resolve().as_uri()):
            _say(f"No browser was found here; open {output} yourself.")


def figures(
    run: Chosen = None,
    output: Folder = Path("figures"),
    format_: Formats = "svg,pdf",
    where: Where = None,
    grid: GridFile = None,
    runs: Runs = Path("runs"),
) -> None:
    """Write every figure of the report to files, each with its data as CSV.

    It needs pip install 'linsep\\[plot]'.

    [bold]Example[/bold]

      linsep figures --where "scenario=fashion-mini" -o figures --format svg,pdf,png
    """
    from ..report.canvas import FORMATS

    formats = list(dict.fromkeys(name.strip() for name in format_.split(",") if name.strip()))
    for name in formats:
        if name not in FORMATS:
            raise ConfigError(f"--format: {unknown('format', name, FORMATS)}")
    if not formats:
        raise ConfigError(f"--format: name at least one of {', '.join(FORMATS)}")
    needed("matplotlib", "figures")
    found = _chosen(run, where, grid, runs)
    from ..report.page import figures as drawn

    with _drawing(found):
        made = drawn(found)
        for figure in made:
            for name in formats:
                _write(output / f"{figure.name}.{name}", figure.file(name))
            _write(output / f"{figure.name}.csv", figure.data.to_csv().encode())
    _say(f"{len(made)} figures of {_runs(found)} in {output}")


def _chosen(run: list[Path] | None, where: str | None, grid: str | None, runs: Path) -> LoadedRuns:
    """Return the runs chosen by name, by condition or by grid, or else all."""
    from ..report.gather import load_runs

    return load_runs(selected(run, where, runs, grid))


def _write(path: Path, content: bytes) -> None:
    from ..storage import files

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"cannot write {path}: {error.strerror or error}") from None
    files.write(path, content)


def _drawing(found: LoadedRuns) -> AbstractContextManager[object]:
    """A spinner on a terminal, since drawing takes a second or two for each run."""
    return wide_console().status(f"drawing figures of {_runs(found)}")


def _runs(found: LoadedRuns) -> str:
    return f"{len(found.runs)} run{'s' if len(found.runs) > 1 else ''}"


def _say(line: str) -> None:
    say(wide_console(), line)
