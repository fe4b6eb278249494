"""The commands by name. None of these modules imports torch before its command needs it."""

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .. import __version__
from . import (
    analyse,
    data,
    grid,
    learn,
    look,
    paper,
    predict,
    report,
    run,
    share,
    store,
)
from .completion import completing
from .flags import Command, grouped, typeless


class Group(TyperGroup):
    """A group whose help puts no type beside a flag that takes no value."""

    def get_params(self, ctx: Any) -> Any:
        return typeless(super().get_params(ctx))


app = typer.Typer(
    name="linsep",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Teach a network new classes and lose less of the old ones.\n\n"
    "To try it on images that come with linsep:  [bold]linsep run --method derpp+bfp[/bold]\n\n"
    "To list methods, add-ons, scenarios, nets and configs:  [bold]linsep list[/bold]",
)
PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Train": {"run": run.run, "grid": grid.grid, "search": grid.search},
    "Inspect": {
        "runs": store.runs, "show": look.show, "compare": store.compare, "report": report.report,
        "figures": report.figures, "analyse": analyse.analyse, "log": look.log,
        "label": store.label,
    },
    "Classifier": {
        "learn": learn.learn, "predict": predict.predict, "model": predict.model,
        "export": predict.export,
    },
    "Share": {"bundle": share.bundle, "add": share.add, "verify": share.verify},
    "Reference": {"list": look.list_},
}  # fmt: skip
for panel, commands in PANELS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(grouped(command))
GROUPS = {"paper": paper.app, "data": data.app}
for name, group in GROUPS.items():
    app.add_typer(group, name=name, cls=Group, rich_help_panel="Reference")
for name, group in {"": app, **GROUPS}.items():
    completing(group, name)
    for registered in group.registered_commands:
        registered.cls = Command


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
