"""`linsep grid`: many runs planned, done and watched, here or on a cluster."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigError, StateError
from .run import File, Keep, Quiet, Runs, SaveEvery, Set, checked_keep
from .terminal import FAILED, INTERRUPTED, Stop, open_console, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from ..grids.engines import Engine
    from ..grids.grid import Grid
    from ..grids.plan import Cell
    from ..grids.search import Search

Over = Annotated[
    list[str] | None,
    typer.Option(metavar="FIELD=VALUES", help="seed=0..4, method=er,er+bfp, memory=200,500, ..."),
]
On = Annotated[str, typer.Option(help="Where: local, ray or slurm.")]
Address = Annotated[
    str | None, typer.Option(help="Of a Ray cluster; a local one is started if left out.")
]
Slurm = Annotated[
    list[str] | None,
    typer.Option(metavar="OPTION=VALUE", help="Of Slurm jobs: partition=gpu, timeout_min=240, ..."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Runs at once on this machine; one per core, or GPU, if left out."),
]
PerGpu = Annotated[int, typer.Option(min=1, help="Runs at once on each GPU.")]
LINE_EVERY = 30.0  # seconds between lines on how far it is, where there is no terminal


def grid(
    config: File = None,
    over: Over = None,
    on: On = "local",
    address: Address = None,
    slurm: Slurm = None,
    workers: Workers = None,
    per_gpu: PerGpu = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")] = False,
    runs: Runs = Path("runs"),
    save_every: SaveEvery = 30.0,
    keep: Keep = None,
    quiet: Quiet = False,
    set_: Set = None,
) -> None:
    """Many runs: every combination of lists of values; repeat the command to go on.

    Runs that are finished are skipped, half-finished ones go on from their last save, and what
    a crash took down is tried again. Ctrl-C saves and stops.

    [bold]Examples[/bold]

      linsep grid configs/fashion-mini.toml --over seed=0..4

      linsep grid --over method=er,er+bfp --over seed=0..2 --set training.epochs=2

      linsep grid configs/table1-cifar10.toml --on slurm --slurm partition=gpu
    """
    from ..grids.plan import plan

    settings, kept = gather(config, over, set_), checked_keep(keep)
    if "over" not in settings:
        raise ConfigError("nothing to vary: give --over seed=0..4, or a file with lists in [over]")
    cells = plan(settings, runs, here=on == "local")
    slots = slots_for(cells, workers, per_gpu, here=on == "local")
    engine = engine_for(on, runs, slots, address, slurm)
    console = open_console()
    say(console, quiet, announced(cells, len(slots) if on == "local" else None))
    if dry_run:
        for cell in cells:
            new = "new" if cell.status == "waiting" else cell.status
            state = "half-finished" if cell.begun else new
            say(console, quiet, f"{state:13}  {cell.name}")
        return
    if any(cell.status == "waiting" for cell in cells):
        from ..grids.grid import Grid

        work = Grid(cells, runs, save_every=save_every, keep=kept, engine=engine)
        watch(work, len(slots), console, quiet)
    conclude(cells, runs, console)


def gather(config: Path | None, over: list[str] | None, set_: list[str] | None) -> dict[str, Any]:
    """One set of settings from a file and flags; `search` is another command's."""
    from ..grids.plan import over as parse
    from ..settings.layers import assignment, merged, nested, read

    varied = [nested(f"over.{name}", values) for name, values in map(parse, over or ())]
    settings = merged(read(config) if config else {}, *varied, *map(assignment, set_ or ()))
    settings.pop("search", None)
    return settings


def slots_for(
    cells: Sequence[Cell], workers: int | None, per_gpu: int, *, here: bool
) -> list[dict[str, str]]:
    """This machine's: one per core a run needs, or per GPU; a cluster may have GPUs unseen."""
    import os

    from ..grids.engines.local import cpu_slots, gpu_slots
    from ..storage.environment import cores

    if any(cell.device == "cuda" for cell in cells):
        import torch

        count = max(torch.cuda.device_count(), 0 if here else 1)
        found = gpu_slots(os.environ.get("CUDA_VISIBLE_DEVICES"), count, per_gpu)
        return found[:workers] if workers else found
    threads = max(cell.settings["compute"]["threads"] for cell in cells)
    return cpu_slots(workers or max(1, cores() // threads))


def engine_for(
    on: str,
    runs: Path,
    slots: Sequence[Mapping[str, str]],
    address: str | None,
    slurm: list[str] | None,
) -> Engine:
    from ..grids.engines import open_engine
    from ..settings.layers import assignment, merged

    options = merged(*map(assignment, slurm or ()))
    return open_engine(on, runs, slots=slots, address=address, slurm=options)


def announced(cells: Sequence[Cell], at_once: int | None) -> str:
    """'15 runs: 3 finished, 1 half-finished, 11 new; 2 at once, about 0:42'."""
    from ..grids.plan import time_left
    from .progress import clock

    done = sum(cell.status == "done" for cell in cells)
    begun = sum(cell.begun for cell in cells)
    wrong = sum(cell.status == "failed" for cell in cells)
    parts = {"finished": done, "half-finished": begun, "impossible": wrong}
    parts["new"] = len(cells) - done - begun - wrong
    counts = ", ".join(f"{count} {what}" for what, count in parts.items() if count)
    text = f"{len(cells)} run{'s' * (len(cells) != 1)}: {counts}"
    if at_once and done + wrong < len(cells):
        left = time_left(cells, at_once)
        text += f"; {at_once} at once" + (f", about {clock(left)}" if left else "")
    return f"{text}."


def watch(work: Grid | Search, at_once: int, console: Console, quiet: bool) -> None:
    """Make a grid or a search happen, with a picture of it in a terminal and lines elsewhere."""
    from rich.live import Live

    cells = work.cells

    live = Live(console=console, refresh_per_second=4, transient=True)
    said = time.monotonic()
    with Stop(work.stop):
        if console.is_terminal and not quiet:
            live.start()
        try:
            for cell in work:
                if live.is_started:
                    live.update(picture(cells, at_once))
                    continue
                if cell.status in ("done", "failed", "elsewhere"):
                    say(console, quiet, line(cell, cells, at_once))
                    said = time.monotonic()
                elif time.monotonic() - said > LINE_EVERY:
                    say(console, quiet, standing(cells, at_once))
                    said = time.monotonic()
        finally:
            if live.is_started:
                live.stop()


def line(cell: Cell, cells: Sequence[Cell], at_once: int) -> str:
    from ..grids.plan import time_left
    from .progress import clock

    finished = sum(c.status == "done" for c in cells)
    note = f"{cell.seconds:.1f} s" if cell.status == "done" else f"{cell.status}: {cell.reason}"
    left = time_left(cells, at_once)
    rest = f"  about {clock(left)} left" if left else ""
    return f"[{finished}/{len(cells)}] {cell.name}  {note}{rest}"


def standing(cells: Sequence[Cell], at_once: int) -> str:
    """'3 done, 2 running, 10 waiting, 1 failed; 1250 images/s; about 0:42 left'."""
    from ..grids.plan import time_left
    from .progress import clock

    shown = ("done", "running", "queued", "waiting", "elsewhere", "stopped", "failed")
    counts = {status: sum(c.status == status for c in cells) for status in shown}
    text = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    rate = sum(cell.rate for cell in cells if cell.status == "running")
    left = time_left(cells, at_once)
    text += f"; {rate:.0f} images/s" if rate else ""
    return text + (f"; about {clock(left)} left" if left else "")


def picture(cells: Sequence[Cell], at_once: int) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rows = Table.grid(padding=(0, 2))
    for cell in cells:
        if cell.status == "running":
            bar = "━" * round(20 * cell.share)
            rate = f"{cell.rate:.0f} images/s"
            rows.add_row(Text(cell.name), Text(f"{bar:<20}"), f"{100 * cell.share:.0f} %", rate)
    return Group(rows, Text(standing(cells, at_once)))


def conclude(cells: Sequence[Cell], runs: Path, console: Console) -> None:
    """The table, what failed and why, and the exit code that says so."""
    from ..compare.summaries import summary_table
    from ..storage.folder import RunFolder

    done, finished = [cell for cell in cells if cell.status == "done"], []
    for cell in done:
        try:
            finished.append(RunFolder(cell.folder).results())
        except StateError as error:
            warnings.warn(f"left out of the table: {error}", stacklevel=2)
    if finished:
        console.print(summary_table(finished).to_rich())
    failed = [cell for cell in cells if cell.status == "failed"]
    for cell in failed:
        text = f"failed: {cell.name}: {cell.reason}"
        console.print(text, style="red", soft_wrap=True, markup=False, highlight=False)
    console.print(f"Everything is in {runs}", highlight=False, soft_wrap=True)
    if len(done) + len(failed) < len(cells):
        console.print("Stopped and saved; repeat the command to go on.")
        raise typer.Exit(INTERRUPTED)
    if failed:
        raise typer.Exit(FAILED)
