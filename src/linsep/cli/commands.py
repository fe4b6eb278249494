"""The commands by name, and shell completion: which words may stand where.

None of the modules imports torch before its command needs it.
"""

import ast
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer import Context, Typer
from typer.models import ArgumentInfo, ParameterInfo

from .. import __version__
from ..analysis import ANALYSES
from ..errors import LinsepError
from ..learning.metrics import METRICS, PROTOCOLS, REPORTED
from ..settings import sections
from ..settings.catalogue import ADDONS, LIBRARIES, METHODS, NETS, PRESETS, SCENARIOS, Entry
from ..settings.config import all_settings
from ..settings.layers import SHORT, full_name, shipped
from . import data, grid, learn, paper, predict, reference, report, run, store
from .flags import Command, Group, grouped
from .terminal import FORMATS

Word = str | tuple[str, str]  # a tuple has a line about it, which some shells show
Complete = Callable[[Context, str], Iterable[Word]]
PACKAGE = Path(__file__).parents[1]
SETTING_NAMES = [s.name for s in all_settings() if s.type != "table"]


@cache
def options(entry: Entry) -> list[str]:
    """The options of a recipe, read from its source: to import it would take seconds."""
    module, _, function = entry.place.partition(":")
    text = (PACKAGE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    found = {f.name: f for f in ast.parse(text).body if isinstance(f, ast.FunctionDef)}
    return [argument.arg for argument in found[function].args.kwonlyargs]


def lines(entries: Mapping[str, Entry], before: str = "") -> list[tuple[str, str]]:
    return [(f"{before}{name}", entry.line) for name, entry in entries.items()]


def methods(text: str) -> Iterable[Word]:
    """Methods; after a plus, what can be added to them."""
    taken, plus, _ = text.rpartition("+")
    return lines(ADDONS if plus else METHODS, taken + plus)


def nets(text: str) -> Iterable[Word]:
    return [*lines(NETS), *(f"{library}/" for library in LIBRARIES)]


def settings(text: str) -> Iterable[Word]:
    """'training.lr=' and the like; after the equals sign, the values that have names."""
    name, given, value = text.partition("=")
    if given:
        before, comma, last = value.rpartition(",")
        return [f"{name}={before}{comma}{word}" for word in values(full_name(name), last)]
    recipes = (METHODS | ADDONS).items()
    own = [f"{part}.{option}" for part, entry in recipes for option in options(entry)]
    return [f"{word}=" for word in (*SHORT, *SETTING_NAMES, *own)]


def values(name: str, text: str) -> Iterable[str]:
    """The values that a setting may have, where they have names."""
    named = {"scenario.name": lambda _: SCENARIOS, "net.name": nets, "method": methods}
    if name in named:
        return map(_word, named[name](text))
    return next((s.choices for s in all_settings() if s.name == name), ())


def facts(text: str) -> Iterable[Word]:
    """Fields of runs, the last of a list: 'method,-faa'."""
    before, comma, last = text.rpartition(",")
    start = before + comma + "-" * last.startswith("-")
    return [start + name for name in (*SHORT, *REPORTED, *SETTING_NAMES)]


def conditions(text: str) -> Iterable[Word]:
    """The start of a condition: 'memory=', 'faa'."""
    return [*METRICS, *(f"{name}=" for name in (*SHORT, *SETTING_NAMES, "status", "name"))]


def run_names(ctx: Context, text: str) -> Iterable[Word]:
    """Names of runs; once something is typed, keys too."""
    from ..storage.store import Store

    found = []
    for record in Store(Path(ctx.params.get("runs") or "runs")).records():
        found.append((record.name, str(record["progress"] or record["status"])))
        found += [(record.key, record.name)] if text and record.key else []
    return found


def configs(text: str) -> Iterable[Word]:
    """Settings files here, in configs/, and those that come with linsep by name."""
    here = [str(path) for pattern in ("*.toml", "configs/*.toml") for path in Path().glob(pattern)]
    return [*sorted(here), *shipped().items()]


def _of(*words: Word) -> Complete:
    return lambda ctx, text: words


def _by(find: Callable[[str], Iterable[Word]]) -> Complete:
    return lambda ctx, text: find(text)


# By the name of a parameter, after the command or group in which it means something else.
WORDS: dict[str, Complete] = {
    "method": _by(methods), "against": _by(methods), "scenario": _of(*lines(SCENARIOS)),
    "net": _by(nets), "preset": _of(*PRESETS), "run": run_names,
    "config": _by(configs), "grid": _by(configs), "set_": _by(settings), "over": _by(settings),
    "over_range": _by(settings), "where": _by(conditions), "sort": _by(facts), "fields": _by(facts),
    "format_": _of(*FORMATS), "what": _of(*ANALYSES, "gamma"), "protocol": _of(*PROTOCOLS),
    "metric": _of(*REPORTED), "keep": _of(*get_args(sections.Keep)), "number": _of(*"123456"),
    "device": _of("auto", "cpu", "cuda", "mps"), "on": _of("local", "ray", "slurm"),
    "log": _of("tensorboard", "wandb", "mlflow"), "to": _of("tensorboard", "wandb", "mlflow"),
    "kind": _of("methods", "addons", "scenarios", "nets"), "scale": _of("full", "small"),
    "engine": _of("opentsne", "sklearn", "pca"), "report format_": _of("svg", "pdf", "png"),
    "data name": _of(*lines(SCENARIOS)),
}  # fmt: skip


METAVARS = {int: "N", float: "NUMBER", str: "TEXT", Path: "PATH"}


def completing(app: Typer, group: str = "") -> None:
    """Give every parameter of an app's commands the words that it may be, and one for its type."""
    for command, callback in callbacks(app):
        for name, parameter in signature(callback, eval_str=True).parameters.items():
            words = WORDS.get(f"{group or command} {name}", WORDS.get(name))
            for info in getattr(parameter.annotation, "__metadata__", ()):
                if isinstance(info, ParameterInfo):
                    info.autocompletion = _completer(words) if words else None
                    kind = _metavar(parameter.annotation)
                    called = name.upper() if isinstance(info, ArgumentInfo) else kind
                    info.metavar = info.metavar or called


def callbacks(app: Typer) -> list[tuple[str, Callable[..., Any]]]:
    """The functions of an app's commands by name; a group may have one of its own."""
    own = app.registered_callback.callback if app.registered_callback else None
    named = [(command.name or "", command.callback) for command in app.registered_commands]
    return [(name, function) for name, function in (*named, ("", own)) if function]


def _metavar(hint: Any) -> str | None:
    """A short word for a type in the help."""
    kinds = [kind for outer in get_args(hint) for kind in (outer, *get_args(outer))]
    kinds += [kind for outer in kinds for kind in get_args(outer)]
    return next((word for kind, word in METAVARS.items() if kind in kinds), None)


def _completer(find: Complete) -> Callable[..., list[Word]]:
    def complete(ctx: Context, incomplete: str) -> list[Word]:
        with suppress(LinsepError, OSError):
            return [w for w in find(ctx, incomplete) if _word(w).startswith(incomplete)]
        return []

    return complete


def _word(word: Word) -> str:
    return word if isinstance(word, str) else word[0]


# --- the commands --------------------------------------------------------------------------------


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
        "learn": learn.learn, "predict": predict.predict, "model": predict.model,
        "export": predict.export,
    },
    "Share": {"bundle": store.bundle, "import": store.import_, "verify": run.verify},
    "Reference": {"list": reference.list_, "data": data.app, "paper": paper.app},
}  # fmt: skip
for panel, commands in PANELS.items():
    for name, command in commands.items():
        if isinstance(command, Typer):
            app.add_typer(command, name=name, cls=Group, rich_help_panel=panel)
            completing(command, name)
        else:
            app.command(name, cls=Command, rich_help_panel=panel)(grouped(command))
completing(app)


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
