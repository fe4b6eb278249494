"""`linsep grid`: every combination of lists of values, run here or on a cluster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..errors import ConfigError
from . import flags
from .asked import settings_from
from .terminal import FAILED, INTERRUPTED, Stop, open_console, say

if TYPE_CHECKING:
    from rich.console import Console, Group

    from ..grids.grid import Grid
    from ..grids.plan import Cell
    from ..grids.search import Search

LINE_EVERY = 30.0  # seconds between lines on how far it is, where there is no terminal
PLANNED = {"done": "finished", "failed": "impossible", "waiting": "new"}  # states in a plan
STATES = ("done", "running", "waiting", "elsewhere", "stopped", "failed")


def grid(
    config: flags.ConfigFile = None,
    over: flags.Over = None,
    part: flags.Parts = None,
    *,
    question: flags.Question,
    details: flags.Details,
    set_: flags.Set = None,
    place: flags.Place,
    dry_run: flags.DryRun = False,
    labels: flags.Labels,
    saving: flags.Saving,
    keep: flags.Keep = None,
    also: flags.Also = None,
) -> None:
    """Run every combination of the given values. Repeat the command to resume.

    Finished runs are skipped, unfinished ones resume from their last save, and crashed ones
    are retried. Ctrl-C saves and stops.

    [bold]Examples[/bold]

      linsep grid fashion-mini --over seed=0..4

      linsep grid --over method=er,er+bfp --over seed=0..2 --epochs 2
    """
    from ..grids.plan import in_parts, plan

    place.check()
    settings = settings_from(config, (question, details, labels), set_, over)
    settings.pop("search", None)
    if not settings.get("over") and not settings.get("parts"):
        raise ConfigError("nothing to vary: give --over seed=0..4, or use `linsep run` for one run")
    cells = plan(in_parts(settings, part or ()), saving.runs, here=place.here, also=also or ())
    make(cells, place, saving, keep, dry_run)
    if not dry_run:
        conclude(cells, saving.runs)


def make(
    cells: list[Cell], place: flags.Place, saving: flags.Saving, keep: flags.Keep, dry_run: bool
) -> None:
    """Carry out the runs of a plan, or list them."""
    from ..grids.grid import Grid
    from ..grids.plan import differing
    from ..storage.store import labels_in, relabel

    slots = place.slots([cell.settings["compute"] for cell in cells if cell.status != "failed"])
    engine = place.engine(saving.runs, slots)
    work = Grid(cells, saving.runs, saving.save_every, keep, engine)
    console = open_console(saving.quiet)
    say(console, announced(cells, len(slots) if place.here else None))
    for text in (*differing(cells), *_cost(cells)):
        say(console, text)
    if dry_run:
        for cell in cells:
            say(console, f"{standing(cell):13}  {cell.name}")
        return
    for cell in cells:
        if cell.status == "done":  # it will not be opened
            relabel(cell.folder, labels_in(cell.settings))
    if any(cell.status == "waiting" for cell in cells):
        watch(work, len(slots), console)


def watch(work: Grid | Search, at_once: int, console: Console) -> None:
    """Carry out a grid or a search and show its progress."""
    from rich.live import Live

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
    from ..settings.layers import flat
    from .progress import cost_of_testing

    ahead = [cell for cell in cells if cell.open]
    fewer = ("scenario.test_per_class", "scenario.validation")
    if any(flat(cell.settings).get(name) for cell in ahead for name in fewer):
        return []
    return cost_of_testing([cell.workload for cell in ahead if cell.workload])


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
    from ..grids.plan import time_left
    from .progress import clock

    seconds = time_left(cells, at_once)
    return f", about {clock(seconds)} left" if seconds else ""


def picture(cells: Sequence[Cell], at_once: int) -> Group:
    """The runs under way with a bar each, and a line about all."""
    from rich.console import Group
    from rich.text import Text

    from .progress import Bar, drawn

    running = [(cell.name, cell.report) for cell in cells if cell.status == "running"]
    bars = [Bar(name, r.share, f"{r.place}  {r.rate:.0f} images/s") for name, r in running]
    return Group(*([drawn(bars)] if bars else []), Text(tally(cells) + left(cells, at_once)))


def conclude(cells: Sequence[Cell], runs: Path) -> None:
    """Print the table and what failed and why, and exit with the code for it."""
    from .store import show_arms

    console = open_console()
    finished = [cell.folder for cell in cells if cell.status == "done"]
    if finished:
        show_arms(finished)
    failed = [cell for cell in cells if cell.status == "failed"]
    for cell in failed:
        say(console, f"failed: {cell.name}: {cell.reason}", "red")
    say(console, f"Everything is in {runs}")
    if len(finished) + len(failed) < len(cells):
        say(console, "Stopped and saved. Repeat the command to resume.")
        raise typer.Exit(INTERRUPTED)
    if failed:
        raise typer.Exit(FAILED)
