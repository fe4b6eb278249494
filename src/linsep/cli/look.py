"""`linsep list`, `show` and `export`: names to choose from, a run's results, and its log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import StateError
from ..learning.metrics import SETTINGS
from . import flags
from .terminal import open_console, say

if TYPE_CHECKING:
    from ..compare.tables import Table

RunFolder = Annotated[Path, typer.Argument(help="A run's key, name or folder.")]
KIND = flags.one_of("", "kind", ("methods", "terms", "scenarios", "nets"))
KINDS = "methods, terms, scenarios or nets; all if left out."
Kind = Annotated[str | None, typer.Argument(parser=KIND, metavar="KIND", help=KINDS)]


def list_(kind: Kind = None) -> None:
    """List the methods, terms, scenarios and nets.

    Terms are added to methods: derpp+bfp, er+fd, ft+bfp2.
    """
    from rich.markup import escape
    from rich.table import Table

    for name, rows in _choices().items():
        if kind in (None, name):
            table = Table(title=name, title_justify="left", box=None, show_header=False)
            for row in rows:
                table.add_row(*map(escape, row))
            open_console().print(table)


def _choices() -> dict[str, list[tuple[str, ...]]]:
    """What a config may name, by kind: the name, a line about it, where it is from."""
    from ..data.registry import SOURCES
    from ..methods import METHODS, TERMS
    from ..nets.backbones import LIBRARIES, NETS

    line = "any model of {0}, if installed: pip install 'linsep[{0}]'"
    return {
        "methods": [(name, about.line, about.source) for name, about in METHODS.items()],
        "terms": [(f"+{name}", about.line, about.source) for name, about in TERMS.items()],
        "scenarios": [(name, source.line) for name, source in SOURCES.items()],
        "nets": [
            *((name, about.line) for name, about in NETS.items()),
            *((f"{name}/<model>", line.format(name)) for name in LIBRARIES),
        ],
    }


def show(run: RunFolder, runs: flags.Runs = Path("runs")) -> None:
    """Show a run's config, its accuracies after every task, and its metrics."""
    from ..storage.folder import RunFolder
    from ..storage.store import open_record
    from .run import show_result

    record, console = open_record(run, runs), open_console()
    found = RunFolder(record.folder)
    for line in found.config_text().splitlines():
        say(console, line)
    if record["status"] == "damaged":
        raise StateError(f"{record.folder} is damaged: {record['progress']}")
    if not found.finished:
        say(console, f"Not finished: {record['progress']}.")
        return
    results = found.results()
    for setting, matrix in results.get("matrices", {}).items():
        for table in _matrix(matrix, f"{SETTINGS[setting]} accuracy, %", console.width):
            console.print(table.to_rich())
    show_result(console, results, record.folder)


def _matrix(matrix: Sequence[Sequence[float | None]], caption: str, width: int) -> list[Table]:
    """The accuracies after each task, in as many tables as the width asks for."""
    from ..compare.tables import Table

    across = max(1, (width - len(" task 100  ")) // len("on task 10  "))
    tables = []
    for first in range(0, len(matrix), across):
        shown = range(first, min(first + across, len(matrix)))
        shares = [[row[i] for i in shown] for row in matrix]
        percent = [[None if share is None else 100 * share for share in row] for row in shares]
        rows = [(f"task {task}", *row) for task, row in enumerate(percent, start=1)]
        columns = ("after", *(f"on task {i + 1}" for i in shown))
        tables.append(Table(columns, rows[first:], caption=caption, digits=1))
    return tables


def export(
    run: RunFolder,
    to: Annotated[str, typer.Option(metavar="LOGGER", help=flags.LOGGERS)],
    runs: flags.Runs = Path("runs"),
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Folder. Default: the run's own."),
    ] = None,
) -> None:
    """Export a run's records to TensorBoard, Weights & Biases or MLflow.

    linsep export RUN --to tensorboard -o logs
    """
    from ..storage.loggers import replay
    from ..storage.store import open_record

    folder = open_record(run, runs).folder
    replay(to, folder, output)
    say(open_console(), f"Written to {output or folder}")
