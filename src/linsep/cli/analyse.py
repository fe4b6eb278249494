"""`linsep analyse`: the paper's analyses of finished runs, in tables; figures are the report's."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..analysis import ANALYSES
from ..errors import ConfigError, LinsepError, StateError, unknown
from .flags import selected
from .store import Format, Output, Runs, Where, check_format, publish
from .terminal import INTERRUPTED, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

    from ..compare.tables import Table
    from ..storage.store import Record

ENGINES = ("opentsne", "sklearn", "pca")
Chosen = Annotated[
    list[Path] | None, typer.Argument(metavar="RUNS", help="Keys, names or folders of runs.")
]
What = Annotated[
    str | None,
    typer.Option(help=f"{', '.join((*ANALYSES, 'gamma'))}. Default: all that the runs allow."),
]
Data = Annotated[str | None, typer.Option(help="Where the images are, if they have moved.")]
OWN = "Your own file that a run's method or net comes from; its code is executed."
Custom = Annotated[list[str] | None, typer.Option(metavar="FILE.py", help=OWN)]
Centred = Annotated[bool, typer.Option("--centred", help="spectrum: centre the features.")]
Draws = Annotated[int, typer.Option(min=1, max=1000, help="probe: random samples of each portion.")]
Task = Annotated[int, typer.Option(min=2, help="tsne: the task to show features before and after.")]
Points = Annotated[int, typer.Option(min=4, help="tsne: maximum number of images.")]
Engine = Annotated[
    str | None, typer.Option(help=f"tsne: {', '.join(ENGINES)}. Default: the best one installed.")
]
Seed = Annotated[int, typer.Option(min=0, help="probe, tsne: random seed.")]


def analyse(
    run: Chosen = None,
    what: What = None,
    where: Where = None,
    runs: Runs = Path("runs"),
    data: Data = None,
    custom: Custom = None,
    centred: Centred = False,
    draws: Draws = 3,
    task: Task = 2,
    points: Points = 1000,
    engine: Engine = None,
    seed: Seed = 0,
    format_: Format = "terminal",
    output: Output = None,
) -> None:
    """Analyse the features of finished runs: spectra, probes, similarities, projections.

    Results are kept with each run, where `linsep report` and `linsep figures` find them. Repeat
    the command to resume after a stop. It needs snapshots at the ends of tasks, which `linsep run`
    keeps for small nets, and for others with --keep tasks.

    [bold]Examples[/bold]

      linsep analyse RUN --what spectrum,probe

      linsep analyse --where "scenario=split-cifar10 and method in (derpp, derpp+bfp)"
    """
    check_format(format_)
    names = [name.strip() for name in (what or "").split(",") if name.strip()]
    _check("--what", "analysis", names, (*ANALYSES, "gamma"))
    _check("--engine", "engine", [engine] if engine else [], ENGINES)
    options = {
        "centred": centred, "draws": draws, "task": task - 1, "points": points, "engine": engine,
        "seed": seed,
    }  # fmt: skip
    records = selected(run, where, runs, finished=True)
    places = {"data": data, "custom": custom or []}
    chosen = [name for name in names if name != "gamma"]
    tables: list[Table] = []
    notes: list[str] = []
    if chosen or not names:
        tables, notes = _analysed(records, chosen, options, places)
        notes.append("`linsep report` draws the figures of these analyses")
    publish(tables + (_gamma(records) if "gamma" in names else []), notes, format_, output)


def _check(option: str, kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise ConfigError(f"{option}: {unknown(kind, name, known)}")


def _gamma(records: Sequence[Record]) -> list[Table]:
    from ..compare.tradeoffs import curve_table, tradeoff
    from ..compare.variants import compare

    curves = tradeoff(compare(records))
    if not curves:
        raise ConfigError(
            "gamma needs runs of one method with several weights of its backward term: "
            "linsep grid --over method=derpp+bfp --over bfp.weight=0.1,1,10"
        )
    return [curve_table(curves)]


def _analysed(
    records: Sequence[Record],
    names: Sequence[str],
    options: Mapping[str, Any],
    places: Mapping[str, Any],
) -> tuple[list[Table], list[str]]:
    """Analyse run after run: the tables, and what their columns are. A run that does not allow an
    analysis is named and skipped."""
    from rich.console import Console

    from ..analysis.analyse import analyse as made
    from ..analysis.analyse import find, lacking, table
    from ..analysis.features import Features, reopen
    from ..compare.variants import compare

    opened: dict[str, Any] = {}
    found: dict[str, dict[Path, dict[str, Any]]] = {name: {} for name in ANALYSES}
    skipping = partial(_skipping, alone=len(records) == 1)
    console = Console(stderr=True)
    try:
        for number, record in enumerate(records, start=1):
            told = partial(_tell, console, f"[{number}/{len(records)}] {record.name}")
            with skipping("all"):
                prepared = reopen(record.folder, opened=opened, **places)
                run = Features(record.folder, prepared, told)
                for name in names or [name for name in ANALYSES if not lacking(run, name)]:
                    with skipping(name):
                        given = {n: v for n, v in options.items() if v is not None}
                        chosen = {n: given[n] for n in find(name).options if n in given}
                        found[name][record.folder] = made(run, name, chosen)
    except KeyboardInterrupt:
        typer.echo("Stopped; what was done is kept. Repeat the command to resume.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    done = {name: results for name, results in found.items() if results}
    if not done:
        what = " or ".join(names) or "analysis"
        raise StateError(
            f"no {what} is possible: no run has kept what it needs (--keep tasks), or its method "
            "has no such thing"
        )
    variants = compare(records).variants
    tables = [table(name, variants, results) for name, results in done.items()]
    return tables, [find(name).note for name in done if find(name).note]


@contextmanager
def _skipping(what: str, alone: bool) -> Iterator[None]:
    """What is wrong with one run among many leaves out that run alone."""
    try:
        yield
    except LinsepError as error:
        if alone:
            raise
        typer.echo(f"left out of {what}: {error}", err=True)


def _tell(console: Console, which: str, line: str) -> None:
    say(console, f"{which}: {line}")
