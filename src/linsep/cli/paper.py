"""`linsep paper`: the paper's tables beside our runs, the grids that fill them, and an audit."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from ..compare.tables import Table
from ..errors import ConfigError
from ..grids.plan import plan
from ..paper.tables import TABLES, scale
from ..paper.tables import audit as findings
from ..storage.store import Store
from . import flags
from .overrides import Details, settings_from

app = typer.Typer(no_args_is_help=True, help="Repeat the BFP paper's tables, and compare.")
NUMBERS = dict(zip("123456", TABLES, strict=True))
Number = Annotated[
    str,
    Argument(
        metavar="N",
        parser=flags.one_of("", "table", tuple(NUMBERS)),
        help="1 accuracy; 2, 3 kinds of projection; 4 forgetting; 5 ImageNet-100; 6 weight of BFP.",
    ),
]


@dataclass(frozen=True)
class Part:
    """The part of a table that is asked for, and what its runs are made with."""

    scale: Annotated[str, Option(help="full (for GPUs) or small (for CPUs).")] = "full"
    scenario: Annotated[str | None, Option(help="Only this scenario: split-cifar10, ...")] = None
    memory: Annotated[int | None, Option(help="Only this memory size of the paper.")] = None
    method: Annotated[str | None, Option(help="Only these methods: derpp,derpp+bfp")] = None
    preset: Annotated[str, Option(help="authors (their code) or paper.")] = "authors"


def show(
    number: Number,
    part: Part,
    runs: flags.Runs = Path("runs"),
    *,
    form: flags.Form,
) -> None:
    """Show a table of the paper: its numbers, ours, and the differences.

    Example:
      linsep paper table 1 --scenario split-cifar10 --memory 200
    """
    from ..paper.reproduction import beside, chosen, laid_out, notes

    size = scale(part.scale)
    found, cells = chosen(NUMBERS[number], part.scenario, part.memory, part.method)
    rows = beside(found, cells, Store(runs).records(), size, part.preset)
    drawn = laid_out(found, rows, size, whole=form.format_ in ("csv", "json"))
    form.publish([drawn], notes(size, part.preset, rows))


app.command("table", cls=flags.Command)(flags.grouped(show))


@app.command("run", cls=flags.Command)
@flags.grouped
def run(
    number: Number,
    part: Part,
    *,
    given: Details,
    place: flags.Place,
    also: flags.Also = None,
) -> None:
    """Run what a table is missing.

    Repeat the command to resume.

    Example:
      linsep paper run 1 --scale small --scenario split-cifar10 --method derpp
    """
    from .grid import conclude, make

    place.check()
    wanted = _wanted(number, part, settings_from(None, given), place.quiet)
    if place.dry_run:
        typer.echo("\n".join(map(_experiment, wanted)))
        return
    cells = plan(wanted, place.runs, here=place.here, also=also or ())
    make(cells, place)
    show(number, part, place.runs, form=flags.Form())
    conclude(cells, place.runs)


def _wanted(number: str, part: Part, own: dict[str, Any], quiet: bool) -> list[dict[str, Any]]:
    """The settings of every run that the table needs, with one's own; announces them."""
    from ..paper.reproduction import chosen, grid

    size = scale(part.scale)
    found, cells = chosen(NUMBERS[number], part.scenario, part.memory, part.method)
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


@app.command("audit", cls=flags.Command)
@flags.grouped
def audit(form: flags.Form) -> None:
    """List printed numbers that are impossible or contradict each other."""
    rows = findings()
    caption = f"{len(rows)} findings in the paper's printed numbers"
    form.publish([Table(("check", "finding"), rows, caption=caption)])
