"""`linsep runs`, `compare`, `bundle` and `import`: many runs, without importing torch."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from ..compare.tables import Table
from ..errors import ConfigError, shortened
from ..settings.config import from_settings
from ..settings.layers import merged
from ..storage import files
from ..storage.bundle import add as take_in
from ..storage.bundle import pack
from ..storage.store import Record, Store, check_names, read_facts, relabel, short_keys
from . import flags
from .overrides import Labels
from .terminal import open_console, publish, say, write

if TYPE_CHECKING:
    from ..compare.variants import Comparison

Against = Annotated[str | None, Option(metavar="METHOD", help="Compare with this method.")]
Metrics = Annotated[str | None, Option(metavar="NAMES", help="Only these: faa,ff,task_il.faa")]
Columns = Annotated[str | None, Option(metavar="FIELDS", help="Columns by setting: memory,seeds")]
Spread = Annotated[str | None, Option(metavar="KIND", help="std, interval or none.")]
AtEqual = Annotated[str | None, Option(metavar="COST", help="compute, seconds or bytes.")]
Classes = Annotated[bool, Option("--classes", help="Accuracy on each class at the end.")]
Sort = Annotated[str | None, Option(metavar="FIELDS", help="method,-faa; a minus: highest first.")]
Caption = Annotated[str | None, Option(help="Caption of the table.")]
LatexLabel = Annotated[str | None, Option(help="Label of the table in LaTeX: tab:main")]
BundleFile = Annotated[Path, Option("--output", "-o", metavar="FILE", help="File to write.")]
app = typer.Typer()


@app.callback(invoke_without_command=True)
@flags.grouped
def runs(
    ctx: typer.Context,
    where: Annotated[str | None, Option(metavar="CONDITION", help=flags.FILTER)] = None,
    runs: flags.Runs = Path("runs"),
    sort: Sort = None,
    fields: Annotated[
        str | None, Option(metavar="FIELDS", help="Add columns: training.lr,bfp.weight")
    ] = None,
    *,
    form: flags.Form,
) -> None:
    """List the runs in a folder, or name and tag them.

    The other formats have the same columns, except JSON, which has every field of every run.

    Examples:
      linsep runs --where "scenario=split-cifar10" --sort method,seed
      linsep runs label RUN --name ours
    """
    if ctx.invoked_subcommand:
        sources = filter(None, map(ctx.get_parameter_source, ctx.params))
        if any(source.name == "COMMANDLINE" for source in sources):
            raise ConfigError("the flags of `linsep runs label` come after the word label")
        return

    from ..compare.summaries import listing

    found = Store(runs).select(where, sort)
    extra = [name.strip() for name in (fields or "").split(",") if name.strip()]
    check_names(extra, found)
    if form.format_ == "json":
        whole = [{"folder": str(r.folder), "key": r.key, **r.facts} for r in found]
        write(json.dumps(whole, indent=1) + "\n", form.output)
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
    form.publish([replace(table, columns=columns, rows=rows, spare=spare)])


def compare(
    chosen: flags.Selection,
    against: Against = None,
    metrics: Metrics = None,
    columns: Columns = None,
    spread: Spread = None,
    at_equal: AtEqual = None,
    classes: Classes = False,
    sort: Sort = None,
    caption: Caption = None,
    latex_label: LatexLabel = None,
    *,
    form: flags.Form,
) -> None:
    """Compare methods seed by seed, with intervals and paired tests.

    Without --against, a method with add-ons is compared with the method alone: derpp+bfp
    with derpp. With --metrics, --columns or --spread, there is one table of what you chose. With
    --at-equal, methods that cost the same are listed together; with --against too, what costs no
    more than that method. With --classes, there is a row for each class.

    Examples:
      linsep compare --where "scenario=split-cifar10" --sort -faa
      linsep compare --at-equal compute --against derpp+bfp
      linsep compare --metrics faa,ff --columns memory --format latex -o table.tex
    """
    from ..compare.pivot import choose, pivot
    from ..compare.tradeoffs import at_equal as budgeted
    from ..compare.variants import compare as compared

    check_label(latex_label)
    columned = any(given is not None for given in (metrics, columns, spread))
    if columned + classes + (at_equal is not None) > 1:
        raise ConfigError(
            "give one of --at-equal, --classes, and the choice of columns: --metrics, --columns, "
            "--spread"
        )
    comparison = compared(chosen.records(), against, sort)
    one: tuple[Table, list[str]] | None = None
    if at_equal is not None:
        one = budgeted(comparison, at_equal, against)
    elif columned:
        one = pivot(comparison, choose(comparison, metrics, columns, spread))
    elif classes:
        one = _classes(comparison)
    tables, said = ([one[0]], one[1]) if one else _usual_tables(comparison, form.format_)
    if caption is not None:
        tables[0] = replace(tables[0], caption=caption)
    form.publish([table for table in tables if table.rows], said, latex_label or "")


def _classes(comparison: Comparison) -> tuple[Table, list[str]]:
    from ..compare.summaries import per_class, remarks

    table = per_class(comparison)
    if not table.rows:
        raise ConfigError("--classes: no confusion matrix is on record in these runs")
    return table, remarks(comparison)


def _usual_tables(comparison: Comparison, format_: str) -> tuple[list[Table], list[str]]:
    """The tables and notes of a comparison for which no columns were chosen."""
    from ..compare.summaries import differences, long, notes, summary

    if format_ in ("csv", "json"):
        return [long(comparison)], notes(comparison)
    wide = format_ == "terminal"  # a page has no room for the intervals
    return [summary(comparison, intervals=wide), differences(comparison)], notes(comparison)


@app.command(cls=flags.Command)
@flags.grouped
def label(
    chosen: flags.Selection,
    *,
    labels: Labels,
    untag: Annotated[
        list[str] | None, Option(metavar="TAG", help="Remove this tag. May be repeated.")
    ] = None,
) -> None:
    """Name and tag runs.

    Their results stay as they are.

    Examples:
      linsep runs label RUN --name ours
      linsep runs label --where "bfp.weight=3" --tag ablation
    """
    wanted = merged(*(one.settings for one in labels))
    if not wanted and not untag:
        raise ConfigError("nothing to change: give --name, --tag, --untag or --data-name")
    if not chosen.run and chosen.where is None:
        raise ConfigError("name the runs or give --where, so that not all are labelled by mistake")
    from_settings(wanted)  # refuses what is no label
    found = chosen.records()
    changed = sum(relabel(record.folder, wanted, untag or ()) for record in found)
    typer.echo(f"{changed} of {len(found)} runs changed.")


def show_variants(folders: Sequence[Path]) -> None:
    """Print the table that ends `run` and `grid`: a row a variant, and how variants differ."""
    from ..compare.summaries import remarks, summary
    from ..compare.variants import compare

    records = [Record(folder, read_facts(folder)) for folder in folders]
    for record in records:
        if record["status"] == "damaged":
            text = f"left out of the table: {record.folder}/{record['progress']}"
            warnings.warn(text, stacklevel=2)
    comparison = compare(record for record in records if record.finished)
    publish([summary(comparison, intervals=False)], remarks(comparison))


def check_label(label: str | None) -> None:
    if label is not None and not re.fullmatch(r"[\w:./+-]+", label, re.ASCII):
        problem = "should be letters, digits and : . / + - _"
        raise ConfigError(f"--latex-label {shortened(label)}: {problem}")


def bundle(
    chosen: flags.Selection,
    output: BundleFile = Path("runs.zip"),
    weights: Annotated[bool, Option("--weights", help="Put the final weights in too.")] = False,
) -> None:
    """Put finished runs into one file to send to somebody.

    It holds configs, results, events and checksums; no images, paths or commands, and no weights
    unless you ask for them.

    Example:
      linsep bundle --where "scenario=split-cifar10" -o mine.zip
    """
    found = chosen.records(finished=True)
    content = pack([record.folder for record in found], weights=weights)
    files.write(output, content)
    count = f"{len(found)} run{'s' * (len(found) != 1)}"
    say(open_console(), f"{output} has {count}, {len(content) / 1000:.0f} kB.")


def import_(
    file: Annotated[Path, Argument(metavar="BUNDLE", help="A file that `linsep bundle` wrote.")],
    runs: flags.Runs = Path("runs"),
) -> None:
    """Put the runs of a bundle beside your own.

    They are marked as made elsewhere. Every checksum is verified first, and nothing in a bundle is
    executed.

    Example:
      linsep import theirs.zip
    """
    console, done = open_console(), take_in(file, runs)
    for one in done:
        if one.status == "differs":
            say(
                console,
                f"{one.name}: skipped; your own run of this name has other results.",
            )
    added = sum(one.status == "added" for one in done)
    there = sum(one.status == "there already" for one in done)
    also = f" {there} with the same results were already there." if there else ""
    say(console, f"Imported {added} of {len(done)} runs into {runs}.{also}")
