"""Shell completion: which words may stand where. None of it imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from typer import Context

from ..analysis import ANALYSES
from ..errors import LinsepError
from ..learning.metrics import METRICS, PROTOCOLS, REPORTED
from ..settings import sections
from ..settings.catalogue import ADDONS, LIBRARIES, METHODS, NETS, PRESETS, SCENARIOS, Entry
from ..settings.config import all_settings
from ..settings.layers import SHORT, full_name, shipped
from .terminal import FORMATS

Word = str | tuple[str, str]  # a tuple has a line about it, which some shells show
Complete = Callable[[str], Iterable[Word]]  # typer leaves out what does not start with the text


def methods(incomplete: str) -> Iterable[Word]:
    """Methods; after a plus, what can be added to them."""
    taken, plus, _ = incomplete.rpartition("+")
    return _lines(ADDONS if plus else METHODS, taken + plus)


def nets(incomplete: str) -> Iterable[Word]:
    return [*_lines(NETS), *(f"{library}/" for library in LIBRARIES)]


def scenarios(incomplete: str) -> Iterable[Word]:
    return _lines(SCENARIOS)


def values(name: str) -> Complete:
    """The values of a setting, as far as they have names."""
    named: Mapping[str, Complete] = {
        "scenario.name": scenarios, "net.name": nets, "method": methods,
    }  # fmt: skip
    choices = next((s.choices for s in all_settings() if s.name == name), ())
    return named.get(name, _of(*choices))


def settings(incomplete: str) -> Iterable[Word]:
    """'training.lr=' and the like; after the equals sign, the values that have names."""
    name, given, value = incomplete.partition("=")
    if given:
        before, comma, last = value.rpartition(",")
        found = map(_word, values(full_name(name))(last))
        return [f"{name}={before}{comma}{word}" for word in found]
    recipes = (METHODS | ADDONS).items()
    options = [f"{part}.{option}" for part, entry in recipes for option in entry.options]
    return [f"{word}=" for word in (*SHORT, *_names(), *options)]


def facts(incomplete: str) -> Iterable[Word]:
    """Fields of runs, the last of a list: 'method,-faa'."""
    before, comma, last = incomplete.rpartition(",")
    start = before + comma + "-" * last.startswith("-")
    return [start + name for name in (*SHORT, *REPORTED, *_names())]


def conditions(incomplete: str) -> Iterable[Word]:
    """The start of a condition: 'memory=', 'faa'."""
    return [*METRICS, *(f"{name}=" for name in (*SHORT, *_names(), "status", "name"))]


def run_names(ctx: Context, incomplete: str) -> Iterable[Word]:
    """Names of runs; once something is typed, keys too."""
    from ..storage.store import Store

    found: list[Word] = []
    with suppress(LinsepError, OSError):
        for record in Store(Path(ctx.params.get("runs") or "runs")).records():
            found.append((record.name, str(record["progress"] or record["status"])))
            found += [(record.key, record.name)] if incomplete and record.key else []
    return found


def configs(incomplete: str) -> Iterable[Word]:
    """Settings files here, in configs/, and those that come with linsep by name."""
    here = [str(path) for pattern in ("*.toml", "configs/*.toml") for path in Path().glob(pattern)]
    return [*sorted(here), *shipped().items()]


def _of(*words: Word) -> Complete:
    def complete(incomplete: str) -> Iterable[Word]:
        return words

    return complete


def _lines(entries: Mapping[str, Entry], before: str = "") -> list[Word]:
    return [(f"{before}{name}", entry.line) for name, entry in entries.items()]


def _names() -> list[str]:
    return [setting.name for setting in all_settings() if setting.type != "table"]


def _word(word: Word) -> str:
    return word if isinstance(word, str) else word[0]


_LOGGERS = _of("tensorboard", "wandb", "mlflow")
WORDS: dict[str, Callable[..., Any]] = {  # by the name of a parameter
    "method": methods, "against": methods, "scenario": scenarios, "dataset": scenarios,
    "net": nets, "preset": _of(*PRESETS), "run": run_names, "config": configs, "grid": configs,
    "set_": settings, "over": settings, "over_range": settings, "where": conditions, "sort": facts,
    "fields": facts, "format_": _of(*FORMATS), "formats": _of("svg", "pdf", "png"),
    "what": _of(*ANALYSES, "gamma"), "protocol": _of(*PROTOCOLS), "metric": _of(*REPORTED),
    "keep": _of(*get_args(sections.Keep)), "number": _of(*"123456"), "log": _LOGGERS,
    "to": _LOGGERS, "device": values("compute.device"), "on": _of("local", "ray", "slurm"),
    "kind": _of("methods", "addons", "scenarios", "nets", "configs", "settings"),
    "scale": _of("full", "small"), "engine": _of("opentsne", "sklearn", "pca"),
    "runtime": _of("onnx", "torch"),
}  # fmt: skip
