"""`linsep list`, `show` and `log`: names to choose from, a run's results, and its log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..custom import Group, offered, package_of
from ..errors import ConfigError, StateError
from ..learning.metrics import PROTOCOLS
from ..settings.catalogue import ADDONS, LIBRARIES, METHODS, NETS, SCENARIOS
from ..settings.config import unknown_setting
from ..settings.layers import shipped
from . import flags
from .store import Format, Output, check_format, publish, write
from .terminal import open_console, say

if TYPE_CHECKING:
    from ..compare.tables import Table

RunFolder = Annotated[Path, typer.Argument(help="A run's key, name or folder.")]
KINDS = ("methods", "addons", "scenarios", "nets", "configs", "settings")
COMPUTE = (
    "1.00x is fine-tuning: images through the nets, over a run of Split CIFAR-10 with 50 epochs "
    "and 200 stored images"
)
KIND = flags.one_of("", "kind", KINDS)
Kind = Annotated[
    str | None,
    typer.Argument(parser=KIND, metavar="KIND", help=f"{', '.join(KINDS)}; default: all names."),
]
Part = Annotated[str, typer.Argument(metavar="TEXT", help="Only what has this in its name.")]


def list_(
    kind: Kind = None, text: Part = "", format_: Format = "terminal", output: Output = None
) -> None:
    """List the names to choose from, or every setting with its default and what it does.

    Terms are added to methods: derpp+bfp, er+fd, ft+bfp2.

    [bold]Examples[/bold]

      linsep list methods

      linsep list settings bfp
    """
    check_format(format_)
    if kind is None and (format_ != "terminal" or output):
        raise ConfigError(f"--format and --output are for one kind: {', '.join(KINDS)}")
    if kind == "settings":
        _list_settings(text, format_, output)
    elif format_ != "terminal" or output:
        _publish_names(str(kind), text, format_, output)
    else:
        _print_names(kind, text)


def _print_names(kind: str | None, text: str) -> None:
    from rich.markup import escape
    from rich.table import Table

    for name in KINDS[:-1]:
        if kind in (None, name):
            table = Table(title=name, title_justify="left", box=None, show_header=False)
            for row in _choices(name):
                if text in row[0]:
                    table.add_row(*map(escape, row))
            open_console().print(table)
    if kind in (None, "methods", "addons"):
        say(open_console(), COMPUTE)
    if kind is None:
        say(open_console(), "All settings, their defaults and what they do: linsep list settings")


def _publish_names(kind: str, text: str, format_: str, output: Path | None) -> None:
    from ..compare.tables import Table

    rows = [row for row in _choices(kind) if text in row[0]]
    columns = ("name", "what it is", "source", "compute")[: len(rows[0])] if rows else ("name",)
    publish([Table(columns, rows)], [], format_, output)


def _list_settings(text: str, format_: str, output: Path | None) -> None:
    from . import reference

    found = reference.blocks(text)
    if not found:
        raise ConfigError(unknown_setting(text))
    if format_ == "markdown":
        write(reference.page(found), output)
    elif format_ == "terminal" and output is None:
        reference.show(found, open_console())
    else:
        publish([reference.table(found)], [], format_, output)


def _choices(kind: str) -> list[tuple[str, ...]]:
    """What a config may name: the name, a line about it, where it is from, its cost."""
    if kind == "configs":
        return list(shipped().items())
    line = "any model of {0}, if installed: pip install 'linsep[{0}]'"
    group: Group = kind  # type: ignore[assignment]
    packages = [(name, f"of {package_of(point)}") for name, point in offered(group).items()]
    if kind == "scenarios":
        return [*((name, entry.line) for name, entry in SCENARIOS.items()), *packages]
    if kind == "nets":
        nets = [(name, entry.line) for name, entry in NETS.items()]
        return [*nets, *((f"{name}/<model>", line.format(name)) for name in LIBRARIES), *packages]
    plus, entries = ("+", ADDONS) if kind == "addons" else ("", METHODS)
    return [
        *((plus + n, e.line, e.source, f"{e.compute:{plus}.2f}x") for n, e in entries.items()),
        *((plus + name, words, "-", "-") for name, words in packages),
    ]


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
    if origin := found.manifest().origin:
        say(console, f"Made elsewhere and added from the bundle {origin.bundle}.")
    results = found.results()
    for protocol, matrix in results.get("matrices", {}).items():
        for table in _matrix(matrix, f"{PROTOCOLS[protocol]} accuracy, %", console.width):
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
