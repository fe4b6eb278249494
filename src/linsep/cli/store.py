"""`linsep runs` and `linsep compare`: what has been run, and what it says. No torch is imported."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigError, StateError, unknown

if TYPE_CHECKING:
    from rich.console import Console

    from ..compare.tables import Table

Runs = Annotated[Path, typer.Option(help="Folder that holds the runs.")]
Where = Annotated[
    str | None,
    typer.Option(
        metavar="CONDITION", help="'scenario=split-cifar10 and memory in (200, 500) and faa>60'"
    ),
]
Format = Annotated[str, typer.Option("--format", help="terminal, markdown, csv, latex or json.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.")
]
FORMATS = ("terminal", "markdown", "csv", "latex", "json")


def runs(
    where: Where = None,
    runs: Runs = Path("runs"),
    sort: Annotated[
        str | None, typer.Option(metavar="FIELDS", help="method,-faa: a minus, highest first.")
    ] = None,
    show: Annotated[
        str | None, typer.Option(metavar="FIELDS", help="More columns: training.lr,bfp.weight")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Every fact of every run.")] = False,
) -> None:
    """The runs in a folder: what each was, how far it came, what came of it.

    [bold]Example[/bold]

      linsep runs --where "scenario=split-cifar10 and memory=200" --sort method,seed
    """
    from ..compare.summaries import listing
    from ..compare.tables import draw
    from ..storage.store import Store, check_names, known_names

    found = Store(runs).select(where, sort)
    extra = [name.strip() for name in (show or "").split(",") if name.strip()]
    check_names(extra, known_names(found))
    if json_:
        whole = [{"folder": str(r.folder), **r.facts} for r in found]
        sys.stdout.write(json.dumps(whole, indent=1) + "\n")
        return
    if not found:
        condition = f" with {where}" if where else ""
        wide_console().print(f"No runs{condition} in {runs}.", highlight=False, markup=False)
        return
    draw(listing(found, extra), wide_console())


def compare(
    run: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUNS]...", help="Folders, or names.")
    ] = None,
    where: Where = None,
    runs: Runs = Path("runs"),
    against: Annotated[
        str | None,
        typer.Option(metavar="METHOD", help="Pair all with it; else derpp+bfp with derpp, ..."),
    ] = None,
    format_: Format = "terminal",
    output: Output = None,
) -> None:
    """Methods against each other, seed by seed: spreads, intervals, paired tests.

    [bold]Examples[/bold]

      linsep compare --where "scenario=split-cifar10 and memory=200"

      linsep compare --against er --format latex -o table.tex
    """
    from ..compare.arms import compare as compared
    from ..compare.summaries import differences, long, notes, summary
    from .selection import selected

    check_format(format_)
    comparison = compared(selected(run, where, runs), against)
    tables = [summary(comparison), differences(comparison)]
    if format_ in ("csv", "json"):
        tables = [long(comparison)]
    tables = [table for table in tables if table.rows]
    publish(tables, notes(comparison), format_, output)


def publish(
    tables: Sequence[Table], notes: Sequence[str], format_: str, output: Path | None
) -> None:
    """Print tables or write them to a file; notes stand where the format has room for them."""
    if format_ == "terminal" and output is None:
        from ..compare.tables import draw

        console = wide_console()
        for table in tables:
            draw(table, console)
        for note in notes:
            console.print(note, style="dim", highlight=False, markup=False, soft_wrap=True)
        return
    match format_:
        case "terminal":
            text = "\n".join([*(t.to_text() for t in tables), *(f"{n}\n" for n in notes)])
        case "markdown":
            text = "\n".join([*(t.to_markdown() for t in tables), *(f"- {n}\n" for n in notes)])
        case "latex":
            remarks = "".join(f"% {' '.join(note.split())}\n" for note in notes)
            text = remarks + "\n".join(table.to_latex() for table in tables)
        case "csv":
            text = "".join(table.to_csv() for table in tables)
            for note in notes:
                sys.stderr.write(f"{note}\n")
        case _:
            parts = [json.loads(table.to_json()) for table in tables]
            whole = {**parts[0], "notes": list(notes)} if parts else {}
            text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StateError(f"cannot write {output}: {error.strerror or error}") from None
    wide_console().print(f"Written to {output}", highlight=False, markup=False, soft_wrap=True)


def check_format(format_: str) -> None:
    if format_ not in FORMATS:
        raise ConfigError(f"--format: {unknown('format', format_, FORMATS)}")


def wide_console() -> Console:
    """As wide as the terminal; where there is none, as wide as tables want to be."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=240)
