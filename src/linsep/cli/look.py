"""`linsep list`, `show` and `export`: what there is, what came of it, and told to others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigError, StateError, printable, unknown
from ..learning.metrics import SETTINGS

if TYPE_CHECKING:
    pass

KINDS = ("methods", "terms", "scenarios", "nets")


def list_(
    kind: Annotated[
        str | None, typer.Argument(help="methods, terms, scenarios or nets; all if left out.")
    ] = None,
) -> None:
    """What there is to choose from, a line each.

    Terms are added to methods: derpp+bfp, er+fd, ft+bfp2.
    """
    from rich.console import Console
    from rich.table import Table

    if kind is not None and kind not in KINDS:
        raise ConfigError(unknown("kind", kind, KINDS))
    console = Console()
    for name in [kind] if kind else KINDS:
        table = Table(title=name, title_justify="left", box=None, show_header=False)
        for row in _rows(name):
            table.add_row(*row)
        console.print(table)


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
    run: Annotated[Path, typer.Argument(help="A run's folder, or its name under --runs.")],
    runs: Annotated[Path, typer.Option(help="Folder that holds the runs.")] = Path("runs"),
) -> None:
    """What a run did: its settings, accuracies after every task, and metrics."""
    from rich.console import Console

    from ..storage.folder import RunFolder
    from ..storage.store import open_record
    from .run import show_result

    record, console = open_record(run, runs), Console()
    found = RunFolder(record.folder)
    for line in found.config_text().splitlines():
        console.print(printable(line), markup=False, highlight=False)
    if record["status"] == "damaged":
        raise StateError(f"{record.folder} is damaged: {record['progress']}")
    if not found.finished:
        console.print(f"Not finished: {record['progress']}.", markup=False, highlight=False)
        return
    results = found.results()
    for setting, rows in results.get("matrices", {}).items():
        console.print(_matrix(SETTINGS[setting], rows))
    show_result(console, results, record.folder)


def export(
    run: Annotated[Path, typer.Argument(help="A run's folder, or its name under --runs.")],
    to: Annotated[str, typer.Option(metavar="LOGGER", help="tensorboard, wandb or mlflow.")],
    runs: Annotated[Path, typer.Option(help="Folder that holds the runs.")] = Path("runs"),
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Instead of the run's own folder."),
    ] = None,
) -> None:
    """Write a run's log for TensorBoard, Weights & Biases or MLflow, from what it recorded.

    [bold]Example[/bold]

      linsep export RUN --to tensorboard -o logs
    """
    from rich.console import Console

    from ..storage.loggers import replay
    from ..storage.store import open_record

    folder = open_record(run, runs).folder
    replay(to, folder, output)
    Console().print(f"Written to {output or folder}", highlight=False, soft_wrap=True)


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
