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


@app.command("store")
def store(
    count: Annotated[int, typer.Option("--runs", min=1, help="How many run folders.")] = 2000,
    repeats: Annotated[int, typer.Option(min=1, help="Timed rounds; the median counts.")] = 5,
) -> None:
    """List and compare thousands of made-up runs, in a temporary folder."""
    from rich.console import Console

    from .bench.store import measure, table

    Console().print(table(measure(count, repeats), count).to_rich())
