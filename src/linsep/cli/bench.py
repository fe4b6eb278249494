"""`linsep bench`: how fast it is here, as ratios measured in one process."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Measure speed here, as ratios in one process.")


@app.callback()
def _group() -> None:
    pass


@app.command("step")
def step(
    repeats: Annotated[
        int, typer.Option(min=1, help="Timed rounds of each; the median counts.")
    ] = 9,
) -> None:
    """A whole step of DER++ w/ BFP against its bare passes; a large memory against a small."""
    from rich.console import Console

    from ..bench.step import measure, table

    Console().print(table(measure(repeats)).to_rich())


@app.command("store")
def store(
    count: Annotated[int, typer.Option("--runs", min=1, help="How many run folders.")] = 2000,
    repeats: Annotated[int, typer.Option(min=1, help="Timed rounds; the least counts.")] = 5,
) -> None:
    """List and compare thousands of made-up runs, in a temporary folder."""
    from rich.console import Console

    from ..bench.store import measure, table

    Console().print(table(measure(count, repeats), count).to_rich())


@app.command("data")
def data(
    repeats: Annotated[int, typer.Option(min=1, help="Timed rounds; the median counts.")] = 9,
    root: Annotated[
        Path | None, typer.Option("--data", help="Where CIFAR-10 is; left out, it is not loaded.")
    ] = None,
) -> None:
    """Augmenting whole batches against one image at a time; loading CIFAR-10."""
    from rich.console import Console

    from ..bench.data import load, measure, table

    console = Console()
    console.print(table(measure(repeats)).to_rich())
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

    from rich.console import Console

    from ..analysis.features import Features, reopen
    from ..bench.analysis import CPU_SECONDS, PEAK_MIB, made_up, measure, trained

    console = Console()
    with tempfile.TemporaryDirectory() as scratch:
        if run is None:
            console.print("training")
            looked = trained(made_up(5000, 1000, 512), Path(scratch))
        else:
            looked = Features(run, reopen(run))
        cost = measure(looked, console.print)
    for what, seconds in cost.seconds.items():
        console.print(f"{what:18} {seconds:6.1f} s CPU", highlight=False)
    console.print(
        f"{'in all':18} {cost.total_seconds:6.1f} s CPU (bound {CPU_SECONDS:.0f}), "
        f"{cost.peak_mib:.0f} MiB at the peak (bound {PEAK_MIB:.0f})",
        highlight=False,
    )


@app.command("grid")
def grid(
    runs: Annotated[int, typer.Option(min=2, help="How many.")] = 24,
    workers: Annotated[int, typer.Option(min=1, help="Of the grid.")] = 2,
) -> None:
    """A grid of small runs against the same runs one after the other; takes minutes."""
    from rich.console import Console

    from ..bench.grid import measure, table

    console = Console()
    console.print(table(measure(runs, workers, console.print)).to_rich())
