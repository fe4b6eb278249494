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
    help="Teach a network new classes without forgetting the old ones.\n\n"
    "To try it on images that come with linsep:  [bold]linsep run --method derpp+bfp[/bold]\n\n"
    "To list methods, terms, scenarios, nets and configs:  [bold]linsep list[/bold]",
)
COMMANDS: dict[str, Callable[..., None]] = {
    "run": run.run, "grid": grid.grid, "search": grid.search, "runs": store.runs,
    "compare": store.compare, "analyse": analyse.analyse, "report": report.report,
    "figures": report.figures, "list": look.list_, "show": look.show, "log": look.log,
    "label": store.label, "learn": learn.learn, "predict": predict.predict, "model": predict.model,
    "export": predict.export, "bundle": share.bundle, "add": share.add, "verify": share.verify,
}  # fmt: skip
for name, command in COMMANDS.items():
    app.command(name)(grouped(command))
GROUPS = {"paper": paper.app, "data": data.app}
for name, group in GROUPS.items():
    app.add_typer(group, name=name, cls=Group)
for name, commands in {"": app, **GROUPS}.items():
    completing(commands, name)
    for registered in commands.registered_commands:
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
