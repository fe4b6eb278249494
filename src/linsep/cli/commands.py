"""The commands by name. None of these modules imports torch before its command needs it."""

from collections.abc import Callable
from typing import Annotated

import typer

from .. import __version__
from . import analyse, bench, data, grid, learn, look, paper, predict, report, run, search, store
from .flags import grouped

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
COMMANDS: dict[str, Callable[..., None]] = {
    "run": run.run, "grid": grid.grid, "search": search.search, "runs": store.runs,
    "compare": store.compare, "analyse": analyse.analyse, "report": report.report,
    "figures": report.figures, "list": look.list_, "show": look.show, "log": look.log,
    "learn": learn.learn, "predict": predict.predict, "model": predict.model,
    "export": predict.export,
}  # fmt: skip
for name, command in COMMANDS.items():
    app.command(name)(grouped(command))
for name, group in {"paper": paper.app, "data": data.app, "bench": bench.app}.items():
    app.add_typer(group, name=name)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"linsep {__version__}")
        raise typer.Exit


@app.callback()
def _everywhere(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks; may follow any command.")
    ] = False,
) -> None:
    pass
