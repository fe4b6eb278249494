"""`linsep list`, `show` and `export`: names to choose from, a run's results, and its log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import StateError
from ..learning.metrics import SETTINGS
from . import flags
from .terminal import open_console, say

if TYPE_CHECKING:
    pass

RunFolder = Annotated[Path, typer.Argument(help="A run's folder, or its name under --runs.")]
KINDS = ("methods", "terms", "scenarios", "nets")


def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            parser=flags.one_of("", "kind", KINDS),
            metavar="[KIND]",
            help="methods, terms, scenarios or nets. Default: all.",
        ),
    ] = None,
) -> None:
    """List the methods, terms, scenarios and nets.

    Terms are added to methods: derpp+bfp, er+fd, ft+bfp2.
    """
    from rich.table import Table

    for name in [kind] if kind else KINDS:
        table = Table(title=name, title_justify="left", box=None, show_header=False)
        for row in _rows(name):
            table.add_row(*row)
        open_console().print(table)


def _rows(kind: str) -> Sequence[tuple[str, ...]]:
    from ..data.registry import SOURCES
    from ..methods import METHODS, TERMS
    from ..nets.backbones import LIBRARIES, NETS

    match kind:
        case "methods":
            return [(name, about.line, about.source) for name, about in METHODS.items()]
        case "terms":
            return [(f"+{name}", about.line, about.source) for name, about in TERMS.items()]
        case "scenarios":
            return [(name, found.line) for name, found in SOURCES.items()]
        case _:
            own = [(name, about.line) for name, about in NETS.items()]
            line = "any model of {0}, if installed: pip install 'linsep[{0}]'"
            return own + [(f"{name}/<model>", line.format(name)) for name in LIBRARIES]


def show(
    run: RunFolder,
    runs: flags.Runs = Path("runs"),
) -> None:
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
    for setting, rows in results.get("matrices", {}).items():
        console.print(_matrix(SETTINGS[setting], rows))
    show_result(console, results, record.folder)


def export(
    run: RunFolder,
    to: Annotated[str, typer.Option(metavar="LOGGER", help="tensorboard, wandb or mlflow.")],
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


def _matrix(title: str, rows: list[list[float | None]]) -> Any:
    from rich.table import Table

    table = Table(title=f"{title} accuracy, %")
    table.add_column("after")
    for task in range(len(rows)):
        table.add_column(f"on task {task + 1}", justify="right")
    for task, row in enumerate(rows):
        cells = ["" if value is None else f"{100 * value:.1f}" for value in row]
        table.add_row(f"task {task + 1}", *cells)
    return table
