"""`linsep runs` and `linsep compare`: list runs and compare methods, without importing torch."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigError, unknown
from ..storage.files import reporting

if TYPE_CHECKING:
    from rich.console import Console

    from ..compare.tables import Table

Runs = Annotated[Path, typer.Option(help="Folder that holds the runs.")]
Where = Annotated[
    str | None, typer.Option(metavar="CONDITION", help="Filter: 'memory in (200, 500) and faa>60'")
]
Format = Annotated[str, typer.Option("--format", help="terminal, markdown, csv, latex or json.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")
]
STATUS = 20  # characters of a status before it folds
FORMATS = ("terminal", "markdown", "csv", "latex", "json")


def runs(
    where: Where = None,
    runs: Runs = Path("runs"),
    sort: Annotated[
        str | None, typer.Option(metavar="FIELDS", help="method,-faa; a minus sorts highest first.")
    ] = None,
    show: Annotated[
        str | None, typer.Option(metavar="FIELDS", help="Add columns: training.lr,bfp.weight")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print all fields as JSON.")] = False,
) -> None:
    """List the runs in a folder with their settings, status and results.

    [bold]Example[/bold]

      linsep runs --where "scenario=split-cifar10 and memory=200" --sort method,seed
    """
    from ..compare.summaries import listing
    from ..storage.store import Store, check_names, short_keys

    found = Store(runs).select(where, sort)
    extra = [name.strip() for name in (show or "").split(",") if name.strip()]
    check_names(extra, found)
    if json_:
        whole = [{"folder": str(r.folder), "key": r.key, **r.facts} for r in found]
        typer.echo(json.dumps(whole, indent=1))
        return
    if not found:
        typer.echo(f"No runs{' with ' + where if where else ''} in {runs}.")
        return
    keys = short_keys(Store(runs).records())  # of all, so that each of them finds its run
    table = listing(found, extra)
    rows = [[keys.get(r.folder, r.key), *row] for r, row in zip(found, table.rows, strict=True)]
    done = all(record.finished for record in found)
    _list(replace(table, columns=["key", *table.columns], rows=rows), done)


def _list(table: Table, done: bool) -> None:
    """Draw a list of runs; what else tells of them is left out where there is no room for it."""
    from ..compare.tables import draw

    console, gone = wide_console(), list[str]()
    for name in ("run", *["status"] * done, "Task-IL FAA", "FF"):
        if _width(table) <= console.width:
            break
        if name in table.columns:
            at = list(table.columns).index(name)
            rest = [[*row[:at], *row[at + 1 :]] for row in table.rows]
            columns = [column for column in table.columns if column != name]
            table, gone = replace(table, columns=columns, rows=rest), [*gone, name]
    draw(table, console)
    if gone:
        left_out = f"Left out to fit {console.width} columns: {', '.join(gone)}."
        console.print(left_out, style="dim", highlight=False, markup=False)


def _width(table: Table) -> int:
    """Of the table when drawn, if a status that is longer than others folds."""
    drawn = table.to_rich()
    widths = [max(len(str(text)) for text in (c.header, *c.cells)) for c in drawn.columns]
    folded = dict(zip(table.columns, widths, strict=True))
    if "status" in folded:
        folded["status"] = min(folded["status"], STATUS)
    return sum(folded.values()) + 2 * len(folded) + 1


def compare(
    run: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUNS", help="Keys, names or folders of runs."),
    ] = None,
    where: Where = None,
    runs: Runs = Path("runs"),
    against: Annotated[
        str | None, typer.Option(metavar="METHOD", help="Compare every method with this one.")
    ] = None,
    format_: Format = "terminal",
    output: Output = None,
) -> None:
    """Compare methods seed by seed, with intervals and paired tests.

    Without --against, a method with an added term is compared with the method alone: derpp+bfp
    with derpp.

    [bold]Examples[/bold]

      linsep compare --where "scenario=split-cifar10 and memory=200"

      linsep compare --against er --format latex -o table.tex
    """
    from ..compare.arms import compare as compared
    from ..compare.summaries import differences, long, notes, summary
    from .selection import selected

    check_format(format_)
    comparison = compared(selected(run, where, runs), against)
    in_full = format_ in ("csv", "json")
    tables = [long(comparison)] if in_full else [summary(comparison), differences(comparison)]
    publish([table for table in tables if table.rows], notes(comparison), format_, output)


def show_arms(folders: Sequence[Path]) -> None:
    """Print the table that ends `run` and `grid`: a row for each arm, and how arms differ."""
    from ..compare.arms import compare
    from ..compare.summaries import remarks, summary
    from ..storage.store import Record, read_facts

    records = [Record(folder, read_facts(folder)) for folder in folders]
    for record in records:
        if record["status"] == "damaged":
            text = f"left out of the table: {record.folder}/{record['progress']}"
            warnings.warn(text, stacklevel=2)
    comparison = compare(record for record in records if record.finished)
    publish([summary(comparison, intervals=False)], remarks(comparison), "terminal", None)


def publish(
    tables: Sequence[Table], notes: Sequence[str], format_: str, output: Path | None
) -> None:
    """Print tables or write them to a file, with the notes where the format has room for them."""
    check_format(format_)
    if format_ == "terminal" and output is None:
        from ..compare.tables import draw

        console = wide_console()
        for table in tables:
            draw(table, console)
        for note in notes:
            console.print(note, style="dim", highlight=False, markup=False, soft_wrap=True)
        return
    text = _written(tables, notes, format_)
    if format_ == "csv":
        for note in notes:
            typer.echo(note, err=True)
    if output is None:
        typer.echo(text, nl=False)
        return
    with reporting(f"cannot write {output}"):
        output.write_text(text, encoding="utf-8")
    typer.echo(f"Written to {output}")


def _written(tables: Sequence[Table], notes: Sequence[str], format_: str) -> str:
    match format_:
        case "terminal":
            return "\n".join([*(t.to_text() for t in tables), *(f"{n}\n" for n in notes)])
        case "markdown":
            return "\n".join([*(t.to_markdown() for t in tables), *(f"- {n}\n" for n in notes)])
        case "latex":
            comments = "".join(f"% {' '.join(note.split())}\n" for note in notes)
            return comments + "\n".join(table.to_latex() for table in tables)
        case "csv":
            return "".join(table.to_csv() for table in tables)
        case _:
            whole = json.loads(tables[0].to_json()) | {"notes": list(notes)} if tables else {}
            return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def check_format(format_: str) -> None:
    if format_ not in FORMATS:
        raise ConfigError(f"--format: {unknown('format', format_, FORMATS)}")


def wide_console() -> Console:
    """A console as wide as the terminal; where there is none, as wide as tables want to be."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=240)
