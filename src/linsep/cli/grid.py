"""`linsep grid` and `search`: runs over lists or ranges of values, here or on a cluster."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text
from typer import Option

from ..compare.tables import Table
from ..errors import ConfigError
from ..grids.plan import Cell, differing, in_parts, plan, time_left
from ..learning.metrics import METRICS, PROTOCOLS, REPORTED
from ..optional import needed
from ..settings.layers import flat
from ..storage.store import labels_in, relabel
from . import flags
from .overrides import PANEL, RANGE, Given, Over, Settings, settings_from, varied
from .store import show_variants
from .terminal import FAILED, INTERRUPTED, Stop, open_console, publish, say

if TYPE_CHECKING:
    from ..grids.grid import Grid, Search
    from ..prepare import Prepared

LINE_EVERY = 30.0  # seconds between lines on how far it is, where there is no terminal
PLANNED = {"done": "finished", "failed": "impossible", "waiting": "new"}  # states in a plan
STATES = ("done", "running", "waiting", "elsewhere", "stopped", "failed")
TRIALS, VALIDATION = 20, "scenario.validation"
RANGES = f"A range: {RANGE}, bfp.weight=1..5, method=er,der"
OverRange = Annotated[
    list[str] | None, Option(metavar="SETTING=RANGE", help=RANGES, rich_help_panel=PANEL)
]
METRIC = flags.one_of("--metric: ", "metric", tuple(REPORTED))
PROTOCOL = flags.one_of("--protocol: ", "protocol", tuple(PROTOCOLS))
Metric = Annotated[str, Option(parser=METRIC, metavar="TEXT", help="faa, ff or ala.")]
Protocol = Annotated[str, Option(parser=PROTOCOL, metavar="TEXT", help="class_il or task_il.")]


def grid(
    config: flags.ConfigFile = None,
    over: Over = None,
    part: flags.Parts = None,
    *,
    given: Settings,
    place: flags.Place,
    also: flags.Also = None,
) -> None:
    """Run every combination of the given values.

    Ctrl-C saves and stops; repeat the command to resume. Finished runs are skipped, unfinished
    ones continue from their last save, and crashed ones are retried.

    Examples:
      linsep grid fashion-mini --over seed=0..4
      linsep grid --over method=er,er+bfp --over seed=0..2 --epochs 2
    """
    place.check()
    settings = settings_from(config, [*given, *varied(over)])
    settings.pop("search", None)
    if not settings.get("over") and not settings.get("parts"):
        raise ConfigError("nothing to vary: give --over seed=0..4, or use `linsep run` for one run")
    cells = plan(in_parts(settings, part or ()), place.runs, here=place.here, also=also or ())
    make(cells, place)
    if not place.dry_run:
        conclude(cells, place.runs)


def make(cells: list[Cell], place: flags.Place) -> None:
    """Carry out the runs of a plan, or list them."""
    slots = place.slots([cell.settings["compute"] for cell in cells if cell.status != "failed"])
    work = _grid(cells, place, slots)
    console = open_console(place.quiet)
    say(console, announced(cells, len(slots) if place.here else None))
    for text in (*differing(cells), *_cost(cells)):
        say(console, text)
    if place.dry_run:
        ahead = [cell.prepared for cell in cells if cell.open and cell.prepared]
        for text in expected(ahead, place, len(slots)):
            say(console, text)
        for cell in cells:
            why = f": {cell.reason}" if cell.status == "failed" else ""
            say(console, f"{standing(cell):13}  {cell.name}{why}")
        if any(cell.status == "failed" for cell in cells):
            raise typer.Exit(FAILED)
        return
    for cell in cells:
        if cell.status == "done":  # it will not be opened
            relabel(cell.folder, labels_in(cell.settings))
    if any(cell.status == "waiting" for cell in cells):
        watch(work, len(slots), console)


def _grid(cells: list[Cell], place: flags.Place, slots: list[dict[str, str]]) -> Grid:
    from ..grids.grid import Grid

    engine, log = place.engine(slots), place.log or ()
    return Grid(cells, place.runs, place.save_every, place.keep, engine, log=log)


def watch(work: Grid | Search, at_once: int, console: Console) -> None:
    """Carry out a grid or a search and show its progress."""
    cells, told = work.cells, time.monotonic()
    drawn = console.is_terminal and not console.quiet
    live = Live(console=console, refresh_per_second=4, transient=True)
    with Stop(work.stop), live if drawn else nullcontext():
        for cell in work:
            ended = cell.status in ("done", "failed", "elsewhere")
            if drawn:
                live.update(picture(cells, at_once))
            elif ended or time.monotonic() - told > LINE_EVERY:
                text = line(cell, cells) if ended else tally(cells)
                say(console, text + left(cells, at_once))
                told = time.monotonic()


def announced(cells: Sequence[Cell], at_once: int | None) -> str:
    """'15 runs: 3 finished, 1 half-finished, 11 new; 2 at once, about 0:42 left.'"""
    counts = Counter(map(standing, cells))
    listed = [f"{count} {name}" for name, count in sorted(counts.items())]
    text = f"{len(cells)} run{'s' * (len(cells) != 1)}: {', '.join(listed)}"
    if at_once and counts["new"] + counts["half-finished"]:
        text += f"; {at_once} at once{left(cells, at_once)}"
    return f"{text}."


def _cost(cells: Sequence[Cell]) -> list[str]:
    """A line on testing, where it takes longer than it need."""
    from .progress import cost_of_testing

    ahead = [cell for cell in cells if cell.open]
    fewer = ("scenario.test_per_class", "scenario.validation")
    if any(flat(cell.settings).get(name) for cell in ahead for name in fewer):
        return []
    return cost_of_testing([cell.prepared.workload() for cell in ahead if cell.prepared])


def expected(ahead: Sequence[Prepared], saving: flags.Saving, at_once: int = 1) -> list[str]:
    """A line on what runs will take; with --measure, a step of each of their networks is timed."""
    from ..grids.forecast import described, forecasts, measure, remembered

    if not ahead:
        return []
    if saving.measure:
        for prepared in ahead:
            if remembered(prepared) is None:
                measure(prepared)
    return [described(forecasts(ahead, saving.keep), at_once)]


def standing(cell: Cell) -> str:
    """Describe the state in which a plan finds a run."""
    return "half-finished" if cell.begun else PLANNED[cell.status]


def line(cell: Cell, cells: Sequence[Cell]) -> str:
    """'[3/15] fashion-mini-er-m200-s0-1234567890  4.2 s'."""
    finished = sum(c.status == "done" for c in cells)
    took, outcome = f"{cell.report.seconds:.1f} s", f"{cell.status}: {cell.reason}"
    note = took if cell.status == "done" else outcome
    return f"[{finished}/{len(cells)}] {cell.name}  {note}"


def tally(cells: Sequence[Cell]) -> str:
    """'3 done, 2 running, 10 waiting, 1 failed; 1250 images/s'."""
    counts: Counter[str] = Counter(cell.status for cell in cells)
    text = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    rate = sum(cell.report.rate for cell in cells if cell.status == "running")
    return text + (f"; {rate:.0f} images/s" if rate else "")


def left(cells: Sequence[Cell], at_once: int) -> str:
    """', about 0:42 left', once a run has been timed."""
    from .progress import clock

    seconds = time_left(cells, at_once)
    return f", about {clock(seconds)} left" if seconds else ""


def picture(cells: Sequence[Cell], at_once: int) -> Group:
    """The runs under way with a bar each, and a line about all."""
    from .progress import Bar, drawn

    running = [(cell.name, cell.report) for cell in cells if cell.status == "running"]
    bars = [Bar(name, r.share, f"{r.place}  {r.rate:.0f} images/s") for name, r in running]
    return Group(*([drawn(bars)] if bars else []), Text(tally(cells) + left(cells, at_once)))


def conclude(cells: Sequence[Cell], runs: Path) -> None:
    """Print the table and what failed and why, and exit with the code for it."""
    console = open_console()
    finished = [cell.folder for cell in cells if cell.status == "done"]
    if finished:
        show_variants(finished)
    failed = [cell for cell in cells if cell.status == "failed"]
    for cell in failed:
        say(console, f"failed: {cell.name}: {cell.reason}", "red")
    say(console, f"Everything is in {runs}")
    if len(finished) + len(failed) < len(cells):
        say(console, "Stopped and saved. Repeat the command to resume.")
        raise typer.Exit(INTERRUPTED)
    if failed:
        raise typer.Exit(FAILED)


def search(
    config: flags.ConfigFile = None,
    over_range: OverRange = None,
    trials: Annotated[int | None, Option(min=1, help="Trials in all; 20 if left out.")] = None,
    metric: Metric = "faa",
    protocol: Protocol = "class_il",
    over: Over = None,
    *,
    given: Settings,
    place: flags.Place,
) -> None:
    """Search for good settings on a validation split.

    Trials are scored on a tenth of the training images, or on the share scenario.validation; test
    images are not used. A trial's score is its mean over the lists of --over, usually seeds. Their
    runs are kept apart, in the folder `search` of the runs' folder. Repeat the command to resume,
    or with more --trials to extend the search. It needs optuna: pip install 'linsep\\[search]'.

    Example:
      linsep search --over-range "bfp.weight=0.1..10 log" --over seed=0..2
    """
    from ..grids.grid import Search, check, on_validation, ranges

    needed("optuna", "a search")
    place.check()
    place = replace(place, runs=place.runs / "search")  # apart from runs that are tested
    settings = on_validation(settings_from(config, [*given, *varied(over, over_range)]))
    table = settings.pop("search", {})
    wanted = ranges(table)
    slots = place.slots([settings.get("compute", {})])
    count, objective = trials or table.get("trials", TRIALS), (protocol, metric)
    if place.dry_run:
        console, one = open_console(), check(settings, wanted)
        some = f"{count} trial{'s' * (count != 1)}, {len(slots)} at once"
        say(console, f"{some}; over {', '.join(wanted)}.")
        cells = plan(one, place.runs, here=place.here)
        ahead = [cell.prepared for cell in cells if cell.prepared] * count
        for text in expected(ahead, place, len(slots)):
            say(console, text)
        return
    work = _grid([], place, slots)
    found = Search(settings, wanted, work, count, len(slots), objective)
    console = open_console(place.quiet)
    say(console, f"{found.trials} trials, {found.done()} done; over {', '.join(wanted)}.")
    watch(found, len(slots), console)
    _conclude(found, _command(found, config, [*given, *varied(over)]), console)


def _conclude(found: Search, command: list[str], progress: Console) -> None:
    """Print the best values and the command that trains with them; exit with the code for it."""
    console, best = open_console(), found.best()
    if found.tried():
        publish([_trials(found)], [f"The trials, on validation images, are in {found.grid.runs}"])
    if best is not None:
        chosen, value = best
        say(console, f"Best {found.objective[1].upper()} on the validation split: {value:.2f}")
        for name, picked in chosen.items():
            say(console, f"  {name} = {picked}")
            command += ["--set", f"{name}={picked}"]
        say(console, "To train it on all images and test it on the test images:")
        say(console, f"  {shlex.join(command)}")
    if found.done() < found.trials:
        say(progress, tally(found.cells))
        say(console, "Stopped and saved. Repeat the command to resume.")
        raise typer.Exit(INTERRUPTED)
    if best is None:
        say(console, "Every trial failed.")
        raise typer.Exit(FAILED)


def _trials(found: Search) -> Table:
    """Every trial with its values, the best first."""
    title, better = METRICS[found.objective[1]].title, METRICS[found.objective[1]].better
    rows = [
        (number, *(str(chosen.get(name, "-")) for name in found.over), value)
        for number, chosen, value in found.tried()
    ]
    caption = f"{len(rows)} trial{'s' * (len(rows) != 1)}"
    return Table(("trial", *found.over, title), rows, caption=caption, best={title: better})


def _command(found: Search, config: str | None, given: Given) -> list[str]:
    """The command that trains with the given settings on everything and tests on the test set."""
    words = ["linsep", "grid" if found.settings.get("over") else "run", *filter(None, [config])]
    for one in given:
        for value in one.values if VALIDATION not in one.names else ():
            words += [one.flag, value]
    if config and VALIDATION in flat(settings_from(config, [])):
        words += ["--set", f"{VALIDATION}=0"]  # which undoes the file's own
    return words
