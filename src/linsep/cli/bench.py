"""`linsep bench`: the speed on this machine, as ratios measured in one process."""

from pathlib import Path
from typing import Annotated

import typer

from .terminal import open_console, say

app = typer.Typer(no_args_is_help=True, help="Measure the speed on this machine, as ratios.")


@app.callback()
def _group() -> None:
    pass


Rounds = Annotated[int, typer.Option("--repeats", min=1, help="Timed rounds; the least counts.")]


@app.command("step")
def step(rounds: Rounds = 9) -> None:
    """A step of DER++ w/ BFP against its bare passes; a large memory against a small one."""
    from ..bench.step import measure, table

    open_console().print(table(measure(rounds)).to_rich())


@app.command("store")
def store(
    count: Annotated[int, typer.Option("--runs", min=1, help="Run folders to make.")] = 2000,
    rounds: Rounds = 5,
) -> None:
    """List and compare thousands of made-up runs, in a temporary folder."""
    from ..bench.store import measure, table

    open_console().print(table(measure(count, rounds), count).to_rich())


@app.command("data")
def data(
    rounds: Rounds = 9,
    root: Annotated[
        Path | None, typer.Option("--data", help="Where CIFAR-10 is; left out, it is not loaded.")
    ] = None,
) -> None:
    """Augmenting whole batches against one image at a time; loading CIFAR-10."""
    from ..bench.data import load, measure, table

    console = open_console()
    console.print(table(measure(rounds)).to_rich())
    if root is not None:
        found = load(root)
        console.print(f"CIFAR-10: {found.seconds:.2f} s, {found.peak:.2f} x its size at the peak")


@app.command("analysis")
def analysis(
    run: Annotated[
        Path | None, typer.Argument(help="A finished run's folder; one is made if left out.")
    ] = None,
) -> None:
    """The paper's analyses of a 5-task run with 60 000 images and 512 features; takes minutes."""
    import tempfile

    from ..analysis.features import Features, reopen
    from ..bench.analysis import CPU_SECONDS, PEAK_MIB, made_up, measure, trained

    console = open_console()
    with tempfile.TemporaryDirectory() as scratch:
        if run is None:
            console.print("training")
            looked = trained(made_up(5000, 1000, 512), Path(scratch))
        else:
            looked = Features(run, reopen(run))
        cost = measure(looked, console.print)
    for what, seconds in cost.seconds.items():
        say(console, f"{what:18} {seconds:6.1f} s CPU")
    total = f"{cost.total_seconds:6.1f} s CPU (bound {CPU_SECONDS:.0f})"
    peak = f"{cost.peak_mib:.0f} MiB at the peak (bound {PEAK_MIB:.0f})"
    say(console, f"{'in all':18} {total}, {peak}")


@app.command("grid")
def grid(
    runs: Annotated[int, typer.Option(min=2, help="Runs to make, each way.")] = 24,
    workers: Annotated[int, typer.Option(min=1, help="Workers of the grid.")] = 2,
) -> None:
    """A grid of small runs against the same runs one after another; takes minutes."""
    from ..bench.grid import measure, table

    console = open_console()
    console.print(table(measure(runs, workers, console.print)).to_rich())
