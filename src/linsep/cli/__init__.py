"""The command line: `linsep run`, `grid`, `search`, `runs`, `compare`, `report`, `list`, `show` ...

Knows how to ask and how to answer. Imports torch only inside commands that need it, so that help is
instant. Whatever a user can mend is one line on standard error and exit code 2.
"""

import sys
import warnings
from typing import Annotated

import typer

from .. import __version__
from ..errors import LinsepError, printable
from . import analyse, bench, data, grid, look, paper, report, run, search, store

app = typer.Typer(
    name="linsep",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Teach a network new classes without forgetting the old ones.\n\n"
    "A first try, on images that come with linsep:  [bold]linsep run --method derpp+bfp[/bold]\n\n"
    "What there is to choose from:  [bold]linsep list[/bold]",
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
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="On an error, show the traceback. Works anywhere.")
    ] = False,
) -> None:
    pass


def main() -> None:
    debug = "--debug" in sys.argv
    if debug:
        sys.argv = [sys.argv[0], *(a for a in sys.argv[1:] if a != "--debug")]
    warnings.showwarning = _warn
    try:
        app()
    except LinsepError as error:
        if debug:
            raise
        sys.stderr.write(f"error: {printable(str(error))}\n")
        sys.exit(2)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    sys.stderr.write(f"warning: {printable(str(message))}\n")
