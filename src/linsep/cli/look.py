"""`linsep list`, `show` and `log`: names to choose from, a run's results, and its log."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import StateError
from ..learning.metrics import SETTINGS
from . import flags
from .terminal import open_console, say

RunFolder = Annotated[Path, typer.Argument(help="A run's folder, or its name under --runs.")]
KIND = flags.one_of("", "kind", ("methods", "terms", "scenarios", "nets"))
KINDS = "methods, terms, scenarios or nets; all if left out."
Kind = Annotated[str | None, typer.Argument(parser=KIND, metavar="[KIND]", help=KINDS)]


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
    from ..compare.tables import Table
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
        rows = [
            (f"task {task}", *(None if share is None else 100 * share for share in shares))
            for task, shares in enumerate(matrix, start=1)
        ]
        columns = ("after", *(f"on task {task}" for task, _ in enumerate(rows, start=1)))
        table = Table(columns, rows, caption=f"{SETTINGS[setting]} accuracy, %", digits=1)
        console.print(table.to_rich())
    show_result(console, results, record.folder)


def log(
    run: RunFolder,
    to: Annotated[str, typer.Option(metavar="LOGGER", help=flags.LOGGERS)],
    runs: flags.Runs = Path("runs"),
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Folder. Default: the run's own."),
    ] = None,
) -> None:
    """Write a run's records to TensorBoard, Weights & Biases or MLflow.

    linsep log RUN --to tensorboard -o logs
    """
    from ..storage.loggers import replay
    from ..storage.store import open_record

    folder = open_record(run, runs).folder
    replay(to, folder, output)
    say(open_console(), f"Written to {output or folder}")
