"""`linsep bench`: the speed on this machine, as ratios measured in one process."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from .flags import Runs
from .terminal import open_console, say

app = typer.Typer(no_args_is_help=True, help="Measure speed on this machine, as ratios.")


Rounds = Annotated[int, typer.Option("--repeats", min=1, help="Timed rounds; the minimum counts.")]


@app.command("step")
def step(rounds: Rounds = 9) -> None:
    """Compare a DER++ w/ BFP step with its bare passes, and a large memory with a small one."""
    from ..bench.step import measure, table

    open_console().print(table(measure(rounds)).to_rich())


@app.command("store")
def store(
    count: Annotated[int, typer.Option("--runs", min=1, help="Run folders to make.")] = 2000,
    rounds: Rounds = 5,
) -> None:
    """Time listing and comparing thousands of made-up runs in a temporary folder."""
    from ..bench.store import measure, table

    open_console().print(table(measure(count, rounds), count).to_rich())


@app.command("data")
def data(
    rounds: Rounds = 9,
    root: Annotated[
        Path | None, typer.Option("--data", help="Folder with CIFAR-10. Default: do not load it.")
    ] = None,
) -> None:
    """Compare augmenting whole batches with one image at a time; load CIFAR-10."""
    from ..bench.data import load, measure, table

    console = open_console()
    console.print(table(measure(rounds)).to_rich())
    if root is not None:
        found = load(root)
        say(console, f"CIFAR-10: {found.seconds:.2f} s, {found.peak:.2f} x its size at the peak")


@app.command("analysis")
def analysis(
    run: Annotated[
        Path | None, typer.Argument(help="A finished run's key, name or folder. Default: make one.")
    ] = None,
    runs: Runs = Path("runs"),
) -> None:
    """Time the analyses of a 5-task run with 60 000 images and 512 features. Takes minutes."""
    import tempfile

    from ..analysis.features import Features, reopen
    from ..bench.analysis import CPU_SECONDS, PEAK_MIB, made_up, measure, trained
    from ..compare.tables import Table
    from ..storage.store import open_record

    console = open_console()
    with tempfile.TemporaryDirectory() as scratch:
        if run is None:
            say(console, "training")
            looked = trained(made_up(5000, 1000, 512), Path(scratch))
        else:
            folder = open_record(run, runs).folder
            looked = Features(folder, reopen(folder))
        cost = measure(looked, partial(say, console))
    rows = [*cost.seconds.items(), (f"in all (bound {CPU_SECONDS:.0f})", cost.total_seconds)]
    peak = f"{cost.peak_mib:.0f} MiB at the peak (bound {PEAK_MIB:.0f})"
    console.print(Table(("analysis", "CPU s"), rows, caption=peak, digits=1).to_rich())


@app.command("grid")
def grid(
    runs: Annotated[int, typer.Option(min=2, help="Runs to make each way.")] = 24,
    workers: Annotated[int, typer.Option(min=1, help="Parallel runs of the grid.")] = 2,
) -> None:
    """Compare a grid of small runs with the same runs one after another. Takes minutes."""
    from ..bench.grid import measure, table

    console = open_console()
    console.print(table(measure(runs, workers, partial(say, console))).to_rich())
