"""`linsep paper`: the paper's tables beside our runs, the grids that fill them, and an audit."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from ..errors import ConfigError
from ..paper.tables import TABLES
from . import flags
from .overrides import Details, settings_from
from .store import Format, Output, publish

app = typer.Typer(no_args_is_help=True, help="Compare runs with the BFP paper's tables.")


@dataclass(frozen=True)
class Part:
    """The part of a table that is asked for, and what its runs are made with."""

    scale: Annotated[str, Option(help="paper (for GPUs) or small (for CPUs).")] = "paper"
    scenario: Annotated[str | None, Option(help="Only this scenario: split-cifar10, ...")] = None
    memory: Annotated[int | None, Option(help="Only this memory size of the paper.")] = None
    method: Annotated[str | None, Option(help="Only these methods: derpp,derpp+bfp")] = None
    preset: Annotated[str, Option(help="authors (their code) or paper (its text).")] = "authors"


LINES = {
    "faa": "Table 1: final average accuracy",
    "ablation_derpp": "Table 2: kinds of projection on DER++",
    "ablation_er": "Table 3: kinds of projection on ER",
    "ff": "Table 4: final forgetting",
    "imagenet100": "Table 5: ImageNet-100",
    "gamma": "Table 6: the weight of BFP",
}


def show(
    name: str,
    part: Part,
    runs: flags.Runs = Path("runs"),
    format_: Format = "terminal",
    output: Output = None,
) -> None:
    from ..paper.reproduction import beside, chosen, laid_out, notes
    from ..paper.tables import scale
    from ..storage.store import Store

    size = scale(part.scale)
    found, cells = chosen(name, part.scenario, part.memory, part.method)
    rows = beside(found, cells, Store(runs).records(), size, part.preset)
    drawn = laid_out(found, rows, size, whole=format_ in ("csv", "json"))
    publish([drawn], notes(size, part.preset, rows), format_, output)


for _number, _name in enumerate(TABLES, start=1):
    _help = f"{LINES[_name]}. The paper's numbers, ours, and the differences."
    _show = flags.grouped(partial(show, _name))
    app.command(f"table{_number}", help=_help)(_show)
    app.command(_name, help=_help, hidden=True)(_show)


@app.command("run")
@flags.grouped
def run(
    table: Annotated[str, Argument(help="table1 ... table6.")],
    part: Part,
    *,
    given: Details,
    place: flags.Place,
    dry_run: flags.DryRun = False,
    saving: flags.Saving,
    keep: flags.Keep = None,
    also: flags.Also = None,
) -> None:
    """Run what a table is missing. Repeat the command to resume.

    [bold]Examples[/bold]

      linsep paper run table1 --scale small --scenario split-cifar10 --method derpp,derpp+bfp
    """
    from ..grids.plan import plan
    from .grid import conclude, make

    place.check()
    wanted = _wanted(table, part, settings_from(None, given), saving.quiet)
    if dry_run:
        typer.echo("\n".join(map(_experiment, wanted)))
        return
    cells = plan(wanted, saving.runs, here=place.here, also=also or ())
    make(cells, place, saving, keep, dry_run)
    show(table, part, saving.runs)
    conclude(cells, saving.runs)


def _wanted(table: str, part: Part, own: dict[str, Any], quiet: bool) -> list[dict[str, Any]]:
    """The settings of every run that the table needs, with one's own; announces them."""
    from ..paper.reproduction import chosen, grid
    from ..paper.tables import scale

    size = scale(part.scale)
    found, cells = chosen(table, part.scenario, part.memory, part.method)
    possible = [place for place in cells if place.scenario not in size.absent]
    if not possible:
        reasons = "; ".join(f"{name}: {why}" for name, why in size.absent.items())
        raise ConfigError(f"the scale {size.name!r} has no run of this table: {reasons}")
    wanted = grid(possible, size, part.preset, found.runs, own)
    if not quiet:
        typer.echo(f"Table {found.number}, scale {size.name}: {size.line}. {len(wanted)} runs.")
    return wanted


def _experiment(settings: Mapping[str, Any]) -> str:
    """'split-cifar10/200/derpp+bfp seed 0'."""
    memory = str(settings.get("memory", {}).get("size", ""))
    parts = filter(None, (settings["scenario"]["name"], memory, settings["method"]))
    return f"{'/'.join(parts)} seed {settings['seed']}"


@app.command("audit")
def audit(format_: Format = "terminal", output: Output = None) -> None:
    """List printed numbers of the paper that are impossible or contradict each other."""
    from ..compare.tables import Table
    from ..paper.tables import audit as findings

    rows = findings()
    caption = f"{len(rows)} findings in the paper's printed numbers"
    publish([Table(("check", "finding"), rows, caption=caption)], [], format_, output)
