"""`linsep paper`: the paper's tables beside our runs, the grids that fill them, and an audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ConfigError
from ..paper.tables import TABLES
from .flags import Address, DryRun, Keep, On, PerGpu, Place, Quiet, SaveEvery, Set, Slurm, Workers
from .store import Format, Output, Runs, publish

app = typer.Typer(no_args_is_help=True, help="Compare runs with the BFP paper's tables.")

ScaleName = Annotated[str, typer.Option("--scale", help="paper (for GPUs) or small (for CPUs).")]
OnlyScenario = Annotated[str | None, typer.Option(help="Only this scenario: split-cifar10, ...")]
OnlyMemory = Annotated[int | None, typer.Option(help="Only this memory size of the paper.")]
OnlyMethods = Annotated[str | None, typer.Option(help="Only these methods: derpp,derpp+bfp")]
Preset = Annotated[str, typer.Option(help="authors (their code) or paper (its text).")]
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
        scenario: OnlyScenario = None,
        memory: OnlyMemory = None,
        method: OnlyMethods = None,
        preset: Preset = "authors",
        runs: Runs = Path("runs"),
        format_: Format = "terminal",
        output: Output = None,
    ) -> None:
        from ..paper.protocol import scale as sized
        from ..paper.reproduction import beside, chosen, laid_out, notes
        from ..storage.store import Store

        size = sized(scale)
        found, cells = chosen(name, scenario, memory, method)
        rows = beside(found, cells, Store(runs).records(), size, preset)
        drawn = laid_out(found, rows, size, whole=format_ in ("csv", "json"))
        publish([drawn], notes(size, preset, rows), format_, output)

    return show


for _number, _name in enumerate(TABLES, start=1):
    _help = f"{LINES[_name]}. The paper's numbers, ours, and the differences."
    app.command(f"table{_number}", help=_help)(_command(_name))
    app.command(_name, help=_help, hidden=True)(_command(_name))


@app.command("run")
def run(
    table: Annotated[str, typer.Argument(help="table1 ... table6, or a name: faa, ff, gamma ...")],
    scale: ScaleName = "paper",
    scenario: OnlyScenario = None,
    memory: OnlyMemory = None,
    method: OnlyMethods = None,
    preset: Preset = "authors",
    data: Annotated[str | None, typer.Option(help="Folder that holds the images.")] = None,
    on: On = "local",
    address: Address = None,
    slurm: Slurm = None,
    workers: Workers = None,
    per_gpu: PerGpu = 1,
    runs: Runs = Path("runs"),
    save_every: SaveEvery = 30.0,
    keep: Keep = None,
    set_: Set = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> None:
    """Run what a table is missing. Repeat the command to resume.

    [bold]Example[/bold]

      linsep paper run table1 --scale small --scenario split-cifar10 --method derpp,derpp+bfp
    """
    from ..grids.plan import plan
    from .grid import conclude, make

    which = scale, scenario, memory, method
    wanted = _wanted(table, *which, preset, data, set_ or [], quiet)
    if dry_run:
        typer.echo("\n".join(map(_experiment, wanted)))
        return
    place = Place(on, address, slurm, workers, per_gpu)
    cells = plan(wanted, runs, here=place.here)
    make(cells, runs, place, save_every, keep, quiet)
    _command(table)(*which, preset, runs)
    conclude(cells, runs)


def _wanted(
    table: str, scale: str, scenario: str | None, memory: int | None, method: str | None,
    preset: str, data: str | None, set_: list[str], quiet: bool,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the settings of every run that the table needs; announce them unless `quiet`."""
    from ..paper.protocol import scale as sized
    from ..paper.reproduction import chosen, grid
    from ..settings.layers import assignment, merged

    size = sized(scale)
    found, cells = chosen(table, scenario, memory, method)
    possible = [place for place in cells if place.scenario not in size.absent]
    if not possible:
        reasons = "; ".join(f"{name}: {why}" for name, why in size.absent.items())
        raise ConfigError(f"the scale {size.name!r} has no run of this table: {reasons}")
    own = [{} if data is None else {"scenario": {"data": data}}, *map(assignment, set_)]
    wanted = [merged(settings, *own) for settings in grid(possible, size, preset, found.runs)]
    if not quiet:
        typer.echo(f"Table {found.number}, scale {size.name}: {size.line}. {len(wanted)} runs.")
    return wanted


def _experiment(settings: Mapping[str, Any]) -> str:
    """'split-cifar10/200/derpp+bfp seed 0'."""
    memory = str(settings.get("memory", {}).get("rows", ""))
    parts = filter(None, (settings["scenario"]["name"], memory, settings["method"]))
    return f"{'/'.join(parts)} seed {settings['seed']}"


@app.command("audit")
def audit(format_: Format = "terminal", output: Output = None) -> None:
    """List printed numbers of the paper that are impossible or contradict each other."""
    from ..compare.tables import Table
    from ..paper.audit import audit as findings

    rows = [(finding.check, finding.text) for finding in findings()]
    caption = f"{len(rows)} findings in the paper's printed numbers"
    publish([Table(("check", "finding"), rows, caption=caption)], [], format_, output)
