"""`linsep analyse`: the paper's analyses of finished runs, in tables; figures are the report's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer

from ..errors import ConfigError, StateError, unknown
from .selection import selected
from .store import Format, Output, Runs, Where, check_format, publish
from .terminal import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..analysis.analyse import Settings
    from ..compare.tables import Table
    from ..storage.store import Record

Engine = Literal["opentsne", "sklearn", "pca"]


def analyse(
    run: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUNS]...", help="Folders, or names.")
    ] = None,
    what: Annotated[
        str | None,
        typer.Option(
            help="spectrum, cka, probe, tsne, projection, gamma; all that the runs allow if left "
            "out."
        ),
    ] = None,
    where: Where = None,
    runs: Runs = Path("runs"),
    data: Annotated[str | None, typer.Option(help="Where the images are now.")] = None,
    centred: Annotated[bool, typer.Option("--centred", help="spectrum: mean taken off.")] = False,
    draws: Annotated[int, typer.Option(min=1, help="probe: of each portion.")] = 3,
    task: Annotated[int, typer.Option(min=2, help="tsne: before and after which task.")] = 2,
    points: Annotated[int, typer.Option(min=4, help="tsne: images at most.")] = 1000,
    engine: Annotated[
        str | None, typer.Option(help="tsne: opentsne, sklearn or pca; the best installed.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="probe, tsne: of draws and starts.")] = 0,
    format_: Format = "terminal",
    output: Output = None,
) -> None:
    """Look into finished runs: features, probes, similarities, projections.

    Results are kept with each run, where `linsep report` and `linsep figures` find them. Repeat
    the command to go on after a stop. Needs the weights at the end of tasks, which `linsep run`
    keeps of small nets, and of others with --keep tasks.

    [bold]Examples[/bold]

      linsep analyse RUN --what spectrum,probe

      linsep analyse --where "scenario=split-cifar10 and method in (derpp, derpp+bfp)"
    """
    from ..analysis.analyse import ANALYSES, Settings

    check_format(format_)
    whats = [name.strip() for name in (what or "").split(",") if name.strip()]
    known = (*ANALYSES, "gamma")
    for name in whats:
        if name not in known:
            raise ConfigError(f"--what: {unknown('analysis', name, known)}")
    if engine is not None and engine not in get_args(Engine):
        raise ConfigError(f"--engine: {unknown('engine', engine, get_args(Engine))}")
    chosen = Settings(
        centred=centred,
        draws=draws,
        task=task - 1,
        points=points,
        engine=cast("Engine | None", engine),
        seed=seed,
    )
    records = selected(run, where, runs, finished=True)
    tables = _gamma(records) if "gamma" in whats else []
    own = [name for name in whats if name != "gamma"]
    if own or not whats:
        tables = [*_analysed(records, own, chosen, data), *tables]
    publish(tables, [], format_, output)


def _gamma(records: Sequence[Record]) -> list[Table]:
    from ..compare.arms import compare
    from ..compare.curves import table, tradeoff

    curves = tradeoff(compare(records))
    if not curves:
        raise ConfigError(
            "gamma needs runs of one method with several weights of its backward term: "
            "linsep grid --over method=derpp+bfp --over bfp.weight=0.1,1,10"
        )
    return [table(curves)]


def _analysed(
    records: Sequence[Record], whats: Sequence[str], chosen: Settings, data: str | None
) -> list[Table]:
    from ..analysis.analyse import ANALYSES, possible
    from ..analysis.analyse import analyse as made
    from ..analysis.features import Features, reopen
    from ..analysis.findings import findings
    from ..compare.arms import compare

    opened: dict[str, Any] = {}
    found: dict[str, dict[Path, dict[str, Any]]] = {name: {} for name in ANALYSES}
    try:
        for record in records:
            prepared = reopen(record.folder, opened=opened, data=data)
            run = Features(record.folder, prepared, lambda line: typer.echo(line, err=True))
            allowed = possible(run)
            for name in whats or allowed:
                if name not in allowed and len(records) > 1:
                    typer.echo(f"left out of {name}: {record.name}", err=True)
                    continue
                found[name][record.folder] = made(run, name, chosen)
    except KeyboardInterrupt:
        typer.echo("Stopped; what was done is kept. Repeat the command to go on.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    done = {name: results for name, results in found.items() if results}
    if not done:
        what = " or ".join(whats) or "analysis"
        raise StateError(
            f"no {what} is possible: no run has kept what it needs (--keep tasks), or its method "
            "has no such thing"
        )
    arms = compare(records).arms
    return [findings(name, arms, results) for name, results in done.items()]
