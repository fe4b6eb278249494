"""Shell completion: which words may stand where, answered without importing torch.

The names of methods, scenarios and nets are keys of dict literals; they are read from the source,
since importing them takes seconds. Knows names of parameters: one table for all commands.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from typer import Context, Typer
from typer.models import ParameterInfo

from ..analysis import ANALYSES
from ..errors import LinsepError
from ..learning.metrics import METRICS, REPORTED, SETTINGS
from ..paper.tables import TABLES
from ..settings import sections
from ..settings.config import Config
from ..settings.names import SHORT
from ..settings.presets import PRESETS
from .store import FORMATS

Word = str | tuple[str, str]  # a tuple has a line about it, which some shells show
Complete = Callable[[Context, str], Iterable[Word]]
SOURCE = Path(__file__).parents[1]


# --- names in the source -------------------------------------------------------------------------


@cache
def names(file: str, literal: str) -> dict[str, str]:
    """The keys of a dict literal in one of our modules, and the lines about them, if it has any."""
    for node in ast.parse((SOURCE / file).read_text(encoding="utf-8")).body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        if [t.id for t in targets if isinstance(t, ast.Name)] == [literal]:
            assert isinstance(node, ast.AnnAssign | ast.Assign)
            assert isinstance(node.value, ast.Dict)
            pairs = zip(node.value.keys, node.value.values, strict=True)
            return {str(k.value): _about(v) for k, v in pairs if isinstance(k, ast.Constant)}
    raise LookupError(f"{file} has no {literal}")


def _about(value: ast.expr) -> str:
    words = value.args if isinstance(value, ast.Call) else []
    texts = [word.value for word in words if isinstance(word, ast.Constant)]
    return next((text for text in texts if isinstance(text, str)), "")


@cache
def options() -> dict[str, list[str]]:
    """The options of every method and term: the keyword-only arguments of its recipe."""
    found = {}
    for file in sorted((SOURCE / "methods").glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                found[node.name] = [argument.arg for argument in node.args.kwonlyargs]
    return {name: found.get(name, []) for name in (*methods(), *terms())}


def methods() -> dict[str, str]:
    return names("methods/__init__.py", "METHODS")


def terms() -> dict[str, str]:
    return names("methods/__init__.py", "TERMS")


def scenarios() -> dict[str, str]:
    return names("data/registry.py", "SOURCES")


def nets() -> dict[str, str]:
    return names("nets/backbones.py", "NETS") | dict.fromkeys(("timm/", "torchvision/"), "")


def fields(model: Any = Config, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting with its type: ('training.lr', float), ..."""
    for name, info in model.model_fields.items():
        if hasattr(info.annotation, "model_fields"):
            yield from fields(info.annotation, f"{prefix}{name}.")
        elif name != "options":
            yield f"{prefix}{name}", info.annotation


# --- words for each place ------------------------------------------------------------------------


def added(text: str) -> Iterable[Word]:
    """Methods; after a plus, the terms that can be added."""
    if "+" not in text:
        return methods().items()
    taken, _, _ = text.rpartition("+")
    return [(f"{taken}+{name}", line) for name, line in terms().items()]


def settings(text: str) -> Iterable[Word]:
    """'training.lr=' and the like; after the equals sign, the values that have names."""
    name, given, value = text.partition("=")
    if given:
        before, comma, last = value.rpartition(",")
        return [f"{name}={before}{comma}{word}" for word in values(name, last)]
    own = [f"{part}.{option}" for part, found in options().items() for option in found]
    return [f"{word}=" for word in (*SHORT, *(field for field, _ in fields()), *own)]


def values(name: str, text: str) -> list[str]:
    """The values that a setting may have, where they have names."""
    match full := SHORT.get(name, name):
        case "scenario.name":
            return list(scenarios())
        case "net.name":
            return list(nets())
        case "preset":
            return list(PRESETS)
        case "method":
            return [_word(word) for word in added(text)]
    kind = dict(fields()).get(full)
    if kind is bool:
        return ["true", "false"]
    literals = [kind] if get_origin(kind) is Literal else get_args(kind)
    return [v for part in literals if get_origin(part) is Literal for v in get_args(part)]


def facts(text: str) -> Iterable[Word]:
    """Fields of runs, the last of a list: 'method,-faa'."""
    before, comma, last = text.rpartition(",")
    start = before + comma + "-" * last.startswith("-")
    return [start + name for name in (*SHORT, *REPORTED, *(field for field, _ in fields()))]


def conditions(text: str) -> Iterable[Word]:
    """The start of a condition: 'memory=', 'faa'."""
    known = [*SHORT, *(field for field, _ in fields()), "status", "name"]
    return [*METRICS, *(f"{name}=" for name in known)]


def runs(ctx: Context, text: str) -> Iterable[Word]:
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
    return sorted(here) + sorted(path.stem for path in (SOURCE / "configs").glob("*.toml"))


def _of(*words: str) -> Complete:
    return lambda ctx, text: words


def _by(find: Callable[[str], Iterable[Word]]) -> Complete:
    return lambda ctx, text: find(text)


# By the name of a parameter, after the command or group in which it means something else.
WORDS: dict[str, Complete] = {
    "method": _by(added), "against": _by(added), "scenario": lambda ctx, text: scenarios().items(),
    "net": lambda ctx, text: nets().items(), "preset": _of(*PRESETS), "run": runs,
    "config": _by(configs), "grid": _by(configs), "set_": _by(settings), "over": _by(settings),
    "over_range": _by(settings), "where": _by(conditions), "sort": _by(facts), "show": _by(facts),
    "format_": _of(*FORMATS), "what": _of(*ANALYSES, "gamma"), "setting": _of(*SETTINGS),
    "metric": _of(*REPORTED), "keep": _of(*get_args(sections.Keep)), "table": _of(*TABLES),
    "device": _of("auto", "cpu", "cuda", "mps"), "on": _of("local", "ray", "slurm"),
    "log": _of("tensorboard", "wandb", "mlflow"), "to": _of("tensorboard", "wandb", "mlflow"),
    "kind": _of("methods", "terms", "scenarios", "nets"), "scale": _of("paper", "small"),
    "engine": _of("opentsne", "sklearn", "pca"), "figures format_": _of("svg", "pdf", "png"),
    "data name": lambda ctx, text: scenarios().items(),
}  # fmt: skip


def completing(app: Typer, group: str = "") -> None:
    """Give every parameter of an app's commands the words that it may be."""
    for command in app.registered_commands:
        assert command.callback is not None
        for name, parameter in signature(command.callback).parameters.items():
            words = WORDS.get(f"{group or command.name} {name}", WORDS.get(name))
            for info in getattr(parameter.annotation, "__metadata__", ()):
                if isinstance(info, ParameterInfo) and words:
                    info.autocompletion = _completer(words)


def _completer(find: Complete) -> Callable[..., list[Word]]:
    def complete(ctx: Context, incomplete: str) -> list[Word]:
        with suppress(LinsepError, OSError):
            return [w for w in find(ctx, incomplete) if _word(w).startswith(incomplete)]
        return []

    return complete


def _word(word: Word) -> str:
    return word if isinstance(word, str) else word[0]
