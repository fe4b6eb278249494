"""`linsep paper`: the paper's tables beside our runs, the grids that fill them, and an audit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from ..errors import ConfigError
from ..paper.tables import TABLES
from . import flags
from .asked import settings_from
from .store import Format, Output, publish

PROTOCOL = "small"  # what `paper run` calls the protocol that decides the claims
PageFile = Annotated[
    Path | None,
    Option("--output", "-o", metavar="FILE.md", help="Write a page, and a figure beside it."),
]
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
    from ..paper.protocol import scale
    from ..paper.reproduction import beside, chosen, laid_out, notes
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
    table: Annotated[
        str, Argument(help="table1 ... table6, or small: the protocol behind `paper evidence`.")
    ],
    part: Part,
    parts: Annotated[
        list[str] | None, Option("--part", help="small: only this part, such as control.")
    ] = None,
    *,
    details: flags.Details,
    set_: flags.Set = None,
    place: flags.Place,
    labels: flags.Labels,
    dry_run: flags.DryRun = False,
    saving: flags.Saving,
    keep: flags.Keep = None,
    also: flags.Also = None,
) -> None:
    """Run what a table or the evidence is missing. Repeat the command to resume.

    [bold]Examples[/bold]

      linsep paper run table1 --scale small --scenario split-cifar10 --method derpp,derpp+bfp

      linsep paper run small --part main --part control
    """
    from ..grids.plan import plan
    from ..settings.layers import merged
    from .grid import conclude, make

    place.check()
    own = settings_from(None, (details, labels), set_)
    if table == PROTOCOL:
        wanted = [merged(settings, own) for settings in _protocol(part, parts or ())]
    else:
        wanted = _wanted(table, part, own, saving.quiet)
    if dry_run and table != PROTOCOL:
        typer.echo("\n".join(map(_experiment, wanted)))
        return
    cells = plan(wanted, saving.runs, here=place.here, also=also or ())
    make(cells, place, saving, keep, dry_run)
    if dry_run:
        return
    if table != PROTOCOL:
        show(table, part, saving.runs)
    conclude(cells, saving.runs)


def _protocol(part: Part, names: Sequence[str]) -> list[dict[str, Any]]:
    """The grids of the protocol, or of these parts of it."""
    from ..grids.plan import in_parts
    from ..paper.evidence import PROTOCOL as FILE
    from ..paper.tables import read

    if part != Part():
        raise ConfigError("paper run small: choose with --part, not by scenario, memory or method")
    return in_parts(read(FILE), names)


def _wanted(table: str, part: Part, own: dict[str, Any], quiet: bool) -> list[dict[str, Any]]:
    """The settings of every run that the table needs, with one's own; announces them."""
    from ..paper.protocol import scale
    from ..paper.reproduction import chosen, grid

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
    memory = str(settings.get("memory", {}).get("rows", ""))
    parts = filter(None, (settings["scenario"]["name"], memory, settings["method"]))
    return f"{'/'.join(parts)} seed {settings['seed']}"


@app.command("evidence")
def evidence(
    runs: flags.Runs = Path("runs"),
    output: PageFile = None,
    into: Annotated[
        Path | None,
        Option(metavar="README.md", help="Renew the table between the marks in this file."),
    ] = None,
) -> None:
    """Decide the paper's claims by the runs of the protocol `small`.

    [bold]Examples[/bold]

      linsep paper evidence --runs results/small

      linsep paper evidence --runs results/small -o evidence.md
    """
    from ..paper.carried import block as carried
    from ..paper.claims import EVERY_CLAIM
    from ..paper.evidence import Runs, findings
    from ..paper.evidence_page import FEATURES, FIGURE, block, listed, page, replaced
    from ..paper.evidence_picture import picture
    from ..paper.features import analysed
    from ..paper.features_picture import picture as of_features
    from ..storage.files import reporting
    from ..storage.store import Store

    records = Store(runs).records()
    found = findings(EVERY_CLAIM, records)
    written = {}
    if output is not None:
        belonging = Runs(records)
        written[output] = page(found, belonging)
        written[output.parent / FIGURE] = picture(found)
        written[output.parent / FEATURES] = of_features(analysed(belonging))
    if into is not None:
        with reporting(f"cannot read {into}"):
            before = into.read_text(encoding="utf-8")
        try:
            written[into] = replaced(
                replaced(before, block(found)), carried(Runs(records)), "carried"
            )
        except ConfigError as error:
            raise ConfigError(f"{into}: {error}") from None
    _write(written)
    if not written:
        typer.echo(listed(found))


@app.command("frontier")
def frontier(runs: flags.Runs = Path("runs"), output: PageFile = None) -> None:
    """Compare sums of methods and parts by accuracy and cost, from the runs of `small`.

    [bold]Examples[/bold]

      linsep paper frontier --runs results/small

      linsep paper frontier --runs results/small -o frontier.md
    """
    from ..paper.frontier import frontier as find
    from ..paper.frontier_page import FIGURE, notes, page, table
    from ..paper.frontier_picture import picture
    from ..storage.store import Store

    found = find(Store(runs).records())
    if output is None:
        publish([table(found)], notes(found), "terminal", None)
    else:
        _write({output: page(found), output.parent / FIGURE: picture(found)})


def _write(texts: Mapping[Path, str]) -> None:
    from ..storage.files import reporting

    for path, text in texts.items():
        with reporting(f"cannot write {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        typer.echo(f"Written to {path}")


@app.command("audit")
def audit(format_: Format = "terminal", output: Output = None) -> None:
    """List printed numbers of the paper that are impossible or contradict each other."""
    from ..compare.tables import Table
    from ..paper.audit import audit as findings

    rows = [(finding.check, finding.text) for finding in findings()]
    caption = f"{len(rows)} findings in the paper's printed numbers"
    publish([Table(("check", "finding"), rows, caption=caption)], [], format_, output)
