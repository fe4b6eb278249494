"""The benchmarks as commands: `python -m benchmarks step`, `data`, `store`, `grid`, `analysis`."""

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from linsep.compare.tables import Table, show
from linsep.errors import LinsepError

app = typer.Typer(no_args_is_help=True, help="Measure speed on this machine, as ratios.")
Rounds = Annotated[int, typer.Option("--repeats", min=1, help="Timed rounds; the minimum counts.")]


@app.command("step")
def step(rounds: Rounds = 9) -> None:
    """Compare a DER++ + BFP step with its bare passes, and a large memory with a small one."""
    from .step import measure, table

    show(table(measure(rounds)), Console())


@app.command("store")
def store(
    count: Annotated[int, typer.Option("--runs", min=1, help="Run folders to make.")] = 2000,
    rounds: Rounds = 5,
) -> None:
    """Time listing and comparing thousands of made-up runs in a temporary folder."""
    from .store import measure, table

    show(table(measure(count, rounds), count), Console())


@app.command("data")
def data(
    rounds: Rounds = 9,
    root: Annotated[
        Path | None, typer.Option("--data", help="Folder with CIFAR-10. Default: do not load it.")
    ] = None,
) -> None:
    """Compare augmenting whole batches with one image at a time; load CIFAR-10."""
    from .data import load, measure, table

    show(table(measure(rounds)), Console())
    if root is not None:
        seconds, peak = load(root)
        typer.echo(f"CIFAR-10: {seconds:.2f} s, {peak:.2f} x its size at the peak")


@app.command("analysis")
def analysis(
    run: Annotated[
        Path | None, typer.Argument(help="A finished run's key, name or folder. Default: make one.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="The folder with the runs.")] = Path("runs"),
) -> None:
    """Time the analyses of a 5-task run with 60 000 images and 512 features. Takes minutes."""
    from linsep.analysis.features import Features, reopen
    from linsep.storage.store import open_record

    from .analysis import CPU_SECONDS, PEAK_MIB, measure, trained

    with tempfile.TemporaryDirectory() as scratch:
        if run is None:
            typer.echo("training")
            features = trained(Path(scratch))
        else:
            folder = open_record(run, runs).folder
            features = Features(folder, reopen(folder))
        cost = measure(features, typer.echo)
    rows = [*cost.seconds.items(), (f"in all (bound {CPU_SECONDS:.0f})", cost.total_seconds)]
    peak = f"{cost.peak_mib:.0f} MiB at the peak (bound {PEAK_MIB:.0f})"
    show(Table(("analysis", "CPU s"), rows, caption=peak, digits=1), Console())


@app.command("grid")
def grid(
    runs: Annotated[int, typer.Option(min=2, help="Runs to make each way.")] = 24,
    workers: Annotated[int, typer.Option(min=1, help="Parallel runs of the grid.")] = 2,
) -> None:
    """Compare a grid of small runs with the same runs one after another. Takes minutes."""
    from .grid import measure, table

    show(table(measure(runs, workers, typer.echo)), Console())


@app.command("serving")
def serving(
    requests: Annotated[int, typer.Option(min=100, help="While lessons are swapped.")] = 10_000,
    lessons: Annotated[int, typer.Option(min=1, help="That are swapped.")] = 10,
    clients: Annotated[int, typer.Option(min=1, help="That ask at once.")] = 8,
) -> None:
    """Load `linsep serve` while lessons are swapped, beside a bare onnxruntime loop. Minutes."""
    from .serving import measure, table

    show(table(measure(requests, lessons, clients)), Console())


if __name__ == "__main__":
    try:
        app(prog_name="python -m benchmarks")
    except LinsepError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
