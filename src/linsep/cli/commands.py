"""The commands by name. None of these modules imports torch before its command needs it."""

from typing import Annotated

import typer

from .. import __version__
from . import analyse, bench, data, grid, look, paper, report, run, search, store

app = typer.Typer(
    name="linsep",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Teach a network new classes without forgetting the old ones.\n\n"
    "To try it on images that come with linsep:  [bold]linsep run --method derpp+bfp[/bold]\n\n"
    "To list methods, terms, scenarios and nets:  [bold]linsep list[/bold]",
)
app.command("run")(run.run)
app.command("grid")(grid.grid)
app.command("search")(search.search)
app.command("runs")(store.runs)
app.command("compare")(store.compare)
app.command("analyse")(analyse.analyse)
app.command("report")(report.report)
app.command("figures")(report.figures)
app.command("list")(look.list_)
app.command("show")(look.show)
app.command("export")(look.export)
app.add_typer(paper.app, name="paper")
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"linsep {__version__}")
        raise typer.Exit


@app.callback()
def _everywhere(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks; may follow any command.")
    ] = False,
) -> None:
    pass
