"""`linsep runs`, `compare` and `label`: list, compare and name runs, without importing torch."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigError, shortened, unknown
from ..storage.files import reporting
from . import flags
from .overrides import Labels
from .terminal import open_console, say

if TYPE_CHECKING:
    from rich.console import Console

    from ..compare.tables import Table
    from ..compare.variants import Comparison

Runs = Annotated[Path, typer.Option(help="Folder that holds the runs.")]
Where = Annotated[
    str | None, typer.Option(metavar="CONDITION", help="Filter: 'memory in (200, 500) and faa>60'")
]
Format = Annotated[str, typer.Option("--format", help="terminal, markdown, csv, latex or json.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")
]
RunNames = Annotated[
    list[Path] | None, typer.Argument(metavar="RUNS", help="Keys, names or folders of runs.")
]
Against = Annotated[
    str | None, typer.Option(metavar="METHOD", help="Compare every method with this one.")
]
Metrics = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Only these metrics: faa,ff,task_il.faa")
]
Columns = Annotated[
    str | None,
    typer.Option(metavar="FIELDS", help="Columns for each value of a setting: memory,seeds"),
]
Spread = Annotated[
    str | None, typer.Option(metavar="KIND", help="Beside the mean: std, interval or none.")
]
AtEqual = Annotated[
    str | None, typer.Option(metavar="COST", help="Methods of equal compute, seconds or bytes.")
]
Sort = Annotated[
    str | None, typer.Option(metavar="FIELDS", help="method,-faa; a minus sorts highest first.")
]
Caption = Annotated[str | None, typer.Option(help="Caption of the table.")]
Label = Annotated[str | None, typer.Option(help="Label of the table in LaTeX: tab:main")]
FORMATS = ("terminal", "markdown", "csv", "latex", "json")


def runs(
    where: Where = None,
    runs: Runs = Path("runs"),
    sort: Sort = None,
    show: Annotated[
        str | None, typer.Option(metavar="FIELDS", help="Add columns: training.lr,bfp.weight")
    ] = None,
    format_: Format = "terminal",
    output: Output = None,
) -> None:
    """List the runs in a folder with their settings, status and results.

    The other formats have the same columns, except JSON, which has every field of every run.

    [bold]Example[/bold]

      linsep runs --where "scenario=split-cifar10 and memory=200" --sort method,seed
    """
    from ..compare.summaries import listing
    from ..storage.store import Store, check_names, short_keys

    check_format(format_)
    found = Store(runs).select(where, sort)
    extra = [name.strip() for name in (show or "").split(",") if name.strip()]
    check_names(extra, found)
    if format_ == "json":
        whole = [{"folder": str(r.folder), "key": r.key, **r.facts} for r in found]
        write(json.dumps(whole, indent=1) + "\n", output)
        return
    if not found:
        say(open_console(), f"No runs{' with ' + where if where else ''} in {runs}.")
        return
    keys = short_keys(Store(runs).records())  # of all, so that each of them finds its run
    table = listing(found, extra)
    columns = ["key", *table.columns]
    rows = [[keys.get(r.folder, r.key), *row] for r, row in zip(found, table.rows, strict=True)]
    done = all(record.finished for record in found)
    names = ("run", *["status"] * done, "Task-IL FAA", "FF", "compute")
    spare = [[name] for name in names if name in columns]  # where a terminal is narrow
    publish([replace(table, columns=columns, rows=rows, spare=spare)], [], format_, output)


def compare(
    run: RunNames = None,
    where: Where = None,
    runs: Runs = Path("runs"),
    against: Against = None,
    metrics: Metrics = None,
    columns: Columns = None,
    spread: Spread = None,
    at_equal: AtEqual = None,
    sort: Sort = None,
    caption: Caption = None,
    label: Label = None,
    format_: Format = "terminal",
    output: Output = None,
) -> None:
    """Compare methods seed by seed, with intervals and paired tests.

    Without --against, a method with an added term is compared with the method alone: derpp+bfp
    with derpp. With --metrics, --columns or --spread, there is one table of what you chose. With
    --at-equal, methods that cost the same are listed together; with --against too, what costs no
    more than that method.

    [bold]Examples[/bold]

      linsep compare --where "scenario=split-cifar10 and memory=200" --sort -faa

      linsep compare --at-equal compute --against derpp+bfp

      linsep compare --metrics faa,ff --columns memory --format latex -o table.tex
    """
    from ..compare.pivot import choose, pivot
    from ..compare.tradeoffs import at_equal as budgeted
    from ..compare.variants import compare as compared

    check_label(label)
    chosen = any(given is not None for given in (metrics, columns, spread))
    if chosen and at_equal is not None:
        raise ConfigError("--at-equal sets the columns: leave out --metrics, --columns, --spread")
    comparison = compared(flags.selected(run, where, runs), against, sort)
    if at_equal is not None:
        table, said = budgeted(comparison, at_equal, against)
        tables = [table]
    elif chosen:
        table, said = pivot(comparison, choose(comparison, metrics, columns, spread))
        tables = [table]
    else:
        tables, said = _usual_tables(comparison, format_)
    if caption is not None:
        tables[0] = replace(tables[0], caption=caption)
    publish([table for table in tables if table.rows], said, format_, output, label)


def _usual_tables(comparison: Comparison, format_: str) -> tuple[list[Table], list[str]]:
    """The tables and notes of a comparison for which no columns were chosen."""
    from ..compare.summaries import differences, long, notes, summary

    if format_ in ("csv", "json"):
        return [long(comparison)], notes(comparison)
    wide = format_ == "terminal"  # a page has no room for the intervals
    return [summary(comparison, intervals=wide), differences(comparison)], notes(comparison)


def label(
    run: RunNames = None,
    where: Where = None,
    runs: Runs = Path("runs"),
    *,
    labels: Labels,
    untag: Annotated[
        list[str] | None, typer.Option(metavar="TAG", help="Take this tag away. May be repeated.")
    ] = None,
) -> None:
    """Name and tag runs that were made before. Their results stay as they are.

    [bold]Examples[/bold]

      linsep label RUN --name ours

      linsep label --where "bfp.weight=3" --tag ablation
    """
    from ..settings.config import from_settings
    from ..settings.layers import merged
    from ..storage.store import relabel

    wanted = merged(*(one.settings for one in labels))
    if not wanted and not untag:
        raise ConfigError("nothing to change: give --name, --tag, --untag or --data-name")
    if not run and where is None:
        raise ConfigError("name the runs or give --where, so that not all are labelled by mistake")
    from_settings(wanted)  # refuses what is no label
    found = flags.selected(run, where, runs)
    changed = sum(relabel(record.folder, wanted, untag or ()) for record in found)
    typer.echo(f"{changed} of {len(found)} runs changed.")


def show_variants(folders: Sequence[Path]) -> None:
    """Print the table that ends `run` and `grid`: a row a variant, and how variants differ."""
    from ..compare.summaries import remarks, summary
    from ..compare.variants import compare
    from ..storage.store import Record, read_facts

    records = [Record(folder, read_facts(folder)) for folder in folders]
    for record in records:
        if record["status"] == "damaged":
            text = f"left out of the table: {record.folder}/{record['progress']}"
            warnings.warn(text, stacklevel=2)
    comparison = compare(record for record in records if record.finished)
    publish([summary(comparison, intervals=False)], remarks(comparison), "terminal", None)


def publish(
    tables: Sequence[Table],
    notes: Sequence[str],
    format_: str,
    output: Path | None,
    label: str | None = None,
) -> None:
    """Print tables or write them to a file, with the notes where the format has room for them.

    `label` is the first table's in LaTeX; the others have it with a number.
    """
    check_format(format_)
    if format_ == "terminal" and output is None:
        from ..compare.tables import show

        console = wide_console()
        for table in tables:
            show(table, console)
        for note in notes:
            say(console, note, "dim")
        return
    text = _written(tables, notes, format_, label)
    if format_ == "csv":
        for note in notes:
            typer.echo(note, err=True)
    write(text, output)


def write(text: str, output: Path | None) -> None:
    """Print a text, or write it to a file."""
    if output is None:
        typer.echo(text, nl=False)
        return
    with reporting(f"cannot write {output}"):
        output.write_text(text, encoding="utf-8")
    say(open_console(), f"Written to {output}")


def _written(tables: Sequence[Table], notes: Sequence[str], format_: str, label: str | None) -> str:
    match format_:
        case "terminal":
            return "\n".join([*(t.to_text() for t in tables), *(f"{n}\n" for n in notes)])
        case "markdown":
            return "\n".join([*(t.to_markdown() for t in tables), *(f"- {n}\n" for n in notes)])
        case "latex":
            comments = "".join(f"% {' '.join(note.split())}\n" for note in notes)
            labels = [f"{label}-{n}" if n > 1 else label for n, _ in enumerate(tables, start=1)]
            drawn = zip(tables, labels if label else [""] * len(tables), strict=True)
            return comments + "\n".join(table.to_latex(name or "") for table, name in drawn)
        case "csv":
            return "".join(table.to_csv() for table in tables)
        case _:
            whole = json.loads(tables[0].to_json()) | {"notes": list(notes)} if tables else {}
            return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def check_format(format_: str) -> None:
    if format_ not in FORMATS:
        raise ConfigError(f"--format: {unknown('format', format_, FORMATS)}")


def check_label(label: str | None) -> None:
    if label is not None and not re.fullmatch(r"[\w:./+-]+", label, re.ASCII):
        problem = "should be letters, digits and : . / + - _"
        raise ConfigError(f"--label {shortened(label)}: {problem}")


def wide_console() -> Console:
    """A console as wide as the terminal; where there is none, as wide as tables want to be."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=240)
