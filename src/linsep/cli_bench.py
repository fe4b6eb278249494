"""`linsep bench`: how fast it is here, as ratios measured in one process."""

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

    from .bench.step import measure, table

    Console().print(table(measure(repeats)).to_rich())


@app.command("grid")
def grid(
    runs: Annotated[int, typer.Option(min=2, help="How many.")] = 24,
    workers: Annotated[int, typer.Option(min=1, help="Of the grid.")] = 2,
) -> None:
    """A grid of small runs against the same runs one after the other; takes minutes."""
    from rich.console import Console

    from .bench.grid import measure, table

    console = Console()
    console.print(table(measure(runs, workers, console.print)).to_rich())
