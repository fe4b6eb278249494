"""`linsep paper`: its tables beside our runs, the grids that fill them, and what cannot be so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError
from ..paper.tables import TABLES
from .flags import Address, DryRun, Keep, On, PerGpu, Place, Quiet, SaveEvery, Slurm, Workers
from .store import Format, Output, Runs, check_format, publish, wide_console

app = typer.Typer(no_args_is_help=True, help="The BFP paper's tables beside our runs.")

ScaleName = Annotated[str, typer.Option("--scale", help="paper (GPUs) or small (CPUs).")]
Scenario = Annotated[str | None, typer.Option(help="Only this one: split-cifar10, ...")]
Memory = Annotated[int | None, typer.Option(help="Only this one of the paper's memory sizes.")]
Method = Annotated[str | None, typer.Option(help="Only these: derpp,derpp+bfp")]
Preset = Annotated[
    str, typer.Option(help="authors (what their program does) or paper (what the text says).")
]
LINES = {
    "faa": "Table 1: final average accuracy",
    "ablation_derpp": "Table 2: kinds of projection on DER++",
    "ablation_er": "Table 3: kinds of projection on ER",
    "ff": "Table 4: final forgetting",
    "imagenet100": "Table 5: ImageNet-100",
    "gamma": "Table 6: the weight of BFP",
}


def _command(name: str) -> Callable[..., None]:
    def show(
        scale: ScaleName = "paper",
        scenario: Scenario = None,
        memory: Memory = None,
        method: Method = None,
        preset: Preset = "authors",
        runs: Runs = Path("runs"),
        format_: Format = "terminal",
        output: Output = None,
    ) -> None:
        from ..paper.protocol import scale as sized
        from ..paper.reproduction import beside, chosen, laid_out, notes
        from ..storage.store import Store

        check_format(format_)
        size = sized(scale)
        found, cells = chosen(name, scenario, memory, method)
        rows = beside(found, cells, Store(runs).records(), size, preset)
        drawn = laid_out(found, rows, size, whole=format_ in ("csv", "json"))
        publish([drawn], notes(size, preset, rows), format_, output)

    show.__doc__ = f"{LINES[name]}; paper, ours, difference, sigmas, seeds."
    return show


for _number, _name in enumerate(TABLES, start=1):
    app.command(f"table{_number}")(_command(_name))
    app.command(_name, hidden=True)(_command(_name))


@app.command("run")
def run(
    table: Annotated[str, typer.Argument(help="table1 ... table6, or a name: faa, ff, gamma ...")],
    scale: ScaleName = "paper",
    scenario: Scenario = None,
    memory: Memory = None,
    method: Method = None,
    preset: Preset = "authors",
    data: Annotated[str | None, typer.Option(help="Where the images are.")] = None,
    on: On = "local",
    address: Address = None,
    slurm: Slurm = None,
    workers: Workers = None,
    per_gpu: PerGpu = 1,
    runs: Runs = Path("runs"),
    save_every: SaveEvery = 30.0,
    keep: Keep = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Of all runs: compute.device=cuda"),
    ] = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> None:
    """Make the runs that fill a table. Repeat the command to resume.

    [bold]Example[/bold]

      linsep paper run table1 --scale small --scenario split-cifar10 --method derpp,derpp+bfp
    """
    from ..grids.plan import plan
    from ..paper.protocol import scale as sized
    from ..paper.reproduction import chosen, grid
    from ..settings.layers import assignment, merged
    from .grid import conclude, make

    size = sized(scale)
    found, cells = chosen(table, scenario, memory, method)
    possible = [place for place in cells if scenario or place.scenario not in size.absent]
    if not possible:
        raise ConfigError(
            f"the scale {size.name!r} has no run of this table: "
            + "; ".join(f"{name}: {why}" for name, why in size.absent.items())
        )
    extra = merged(
        {} if data is None else {"scenario": {"data": data}}, *map(assignment, set_ or ())
    )
    wanted = [merged(s, extra) for s in grid(possible, size, preset, found.runs)]
    console = wide_console()
    if not quiet:
        text = f"Table {found.number}, scale {size.name}: {size.line}. {len(wanted)} runs."
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    if dry_run:
        for s in wanted:
            place = "/".join(
                str(part)
                for part in (s["scenario"]["name"], s.get("memory", {}).get("rows"), s["method"])
                if part is not None
            )
            console.print(f"{place} seed {s['seed']}", highlight=False, markup=False)
        return
    where = Place(on, address, slurm, workers, per_gpu)
    planned = plan(wanted, runs, here=where.here)
    make(planned, runs, where, save_every, keep, quiet)
    _command(found.name)(
        scale=scale, scenario=scenario, memory=memory, method=method, preset=preset, runs=runs
    )
    conclude(planned, runs)


@app.command("audit")
def audit(format_: Format = "terminal", output: Output = None) -> None:
    """What in the paper's printed numbers cannot be so, or does not fit the rest."""
    from ..compare.tables import Table
    from ..paper.audit import audit as findings

    check_format(format_)
    rows = [(finding.check, finding.text) for finding in findings()]
    caption = f"{len(rows)} findings in the paper's printed numbers"
    publish([Table(("check", "finding"), rows, caption=caption)], [], format_, output)
