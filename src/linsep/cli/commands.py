"""The commands by name, each with its panel of the help. None imports torch before it needs it."""

from typing import Annotated, Any

import typer
from typer import Typer

from .. import __version__
from . import data, grid, learn, model, paper, predict, reference, report, run, serve, store
from .flags import Command, Group, grouped


class Root(Group):
    def list_commands(self, ctx: Any) -> list[str]:
        return [name for commands in PANELS.values() for name in commands]


app = Typer(
    name="linsep",
    cls=Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Teach a network new classes and lose less of the old ones.\n\n"
    "To try it on images that come with linsep:  [bold]linsep run --method derpp+bfp[/bold]\n\n"
    "To list methods, add-ons, scenarios, nets and configs:  [bold]linsep list[/bold]",
)
PANELS: dict[str, dict[str, Any]] = {
    "Train": {"run": run.run, "grid": grid.grid, "search": grid.search},
    "Inspect": {
        "runs": store.app, "show": run.show, "compare": store.compare, "report": report.report,
        "analyse": report.analyse, "log": run.log,
    },
    "Classifier": {
        "learn": learn.learn, "predict": predict.predict, "model": model.app,
        "export": predict.export, "serve": serve.serve,
    },
    "Share": {"bundle": store.bundle, "import": store.import_, "verify": run.verify},
    "Reference": {"list": reference.list_, "data": data.app, "paper": paper.app},
}  # fmt: skip
for panel, commands in PANELS.items():
    for name, command in commands.items():
        if isinstance(command, Typer):
            shape = command.info.cls if isinstance(command.info.cls, type) else Group
            app.add_typer(command, name=name, cls=shape, rich_help_panel=panel)
        else:
            app.command(name, cls=Command, rich_help_panel=panel)(grouped(command))


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
