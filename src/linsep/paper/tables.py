"""Look up a cell of the paper's tables or a method's hyper-parameters.

Knows the layout of the TOML files beside it and linsep's names for scenarios, methods and metrics.
Does not know which numbers are believable (audit.py), how to draw a table, or anything about runs.

A hyper-parameter may have two values: the text's, and that of its authors' program where
the two part. Where the text is silent the program's value completes it, marked `stated = False`.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

from ..errors import ConfigError, unknown

Source = Literal["text", "program"]
Value = int | float | tuple[int, ...]

TABLES = ("faa", "ablation_derpp", "ablation_er", "ff", "imagenet100", "gamma")  # in print order
SCENARIOS = ("split-cifar10", "split-cifar100", "split-tinyimagenet", "split-imagenet100")
PROJECTIONS = ("fd", "bfp", "bfp2")


@dataclass(frozen=True)
class Place:
    """Where a number stands. `memory` is None without one; `gamma` is set only where it varies."""

    scenario: str
    memory: int | None
    method: str
    metric: str = "faa"  # faa | ff | ala
    setting: str = "class_il"  # class_il | task_il
    gamma: float | None = None

    def __str__(self) -> str:
        where = self.scenario if self.memory is None else f"{self.scenario}/{self.memory}"
        gamma = "" if self.gamma is None else f" gamma={self.gamma:g}"
        return f"{where}/{self.method} {self.setting} {self.metric}{gamma}"


@dataclass(frozen=True)
class Cell:
    """A number as printed, in percent. `delta` has its printed sign; `bold` is the paper's mark."""

    mean: float
    std: float | None = None
    delta: float | None = None
    bold: bool = False


@dataclass(frozen=True)
class PaperTable:
    name: str
    number: int
    label: str
    caption: str
    runs: int | None  # None: the paper does not say
    cells: Mapping[Place, Cell]


@dataclass(frozen=True)
class Hyperparameter:
    """One value, or two where text and program part. Neither: the paper leaves it open."""

    name: str
    text: Value | None
    program: Value | None
    stated: bool = True
    note: str = ""

    def value(self, source: Source) -> Value | None:
        return self.text if source == "text" else self.program


@cache
def table(name: str) -> PaperTable:
    """Return a table by name ("faa") or by its number in the paper ("table1")."""
    numbered = {f"table{i}": found for i, found in enumerate(TABLES, start=1)}
    found = numbered.get(name, name)
    if found not in TABLES:
        raise ConfigError(unknown("table of the paper", name, [*TABLES, *numbered]))
    raw = read(f"{found}.toml")
    cells = {place: cell for block in raw["block"] for place, cell in _block(block)}
    number, label, caption = raw["number"], raw["label"], raw["caption"]
    return PaperTable(found, number, label, caption, raw.get("runs"), MappingProxyType(cells))


def at(sought: Place) -> Cell:
    """Return the printed number at a place, from the first table that has it."""
    for name in TABLES:
        if (found := table(name).cells.get(sought)) is not None:
            return found
    raise ConfigError(_why_absent(sought))


def hyperparameters(
    scenario: str, memory: int | None, method: str, source: Source = "text"
) -> dict[str, Value]:
    """Return a method's values in the paper: {"lr": 0.03, "replay_logits": 0.2, ...}.

    `source="program"` takes the program's value where it parts from the text. What neither gives is
    left out; `entries` shows it. `+fd`, `+bfp`, `+bfp2` add the projection's values to any base.
    """
    if source not in ("text", "program"):
        raise ConfigError(unknown("source", source, ("text", "program")))
    found = {name: h.value(source) for name, h in entries(scenario, memory, method).items()}
    return {name: value for name, value in found.items() if value is not None}


def entries(scenario: str, memory: int | None, method: str) -> dict[str, Hyperparameter]:
    """Return a method's hyper-parameters: both values, whether the text states them, and a note."""
    raw = protocol(scenario)
    base, _, projection = method.partition("+")
    if projection and projection not in PROJECTIONS:
        raise ConfigError(unknown("addition to a method", projection, PROJECTIONS))
    found = {**raw["common"], **_section(raw, memory, base)}
    if projection:
        names = ["projection_weight"] if projection == "fd" else list(raw["projection"])
        found.update({name: raw["projection"][name] for name in names})
    return {name: _hyperparameter(name, value) for name, value in found.items()}


def protocol(scenario: str) -> Mapping[str, Any]:
    """Return a scenario's hyper-parameter file: tasks, classes_per_task, common, memory, ..."""
    if scenario not in SCENARIOS:
        raise ConfigError(unknown("scenario of the paper", scenario, SCENARIOS))
    return read(f"hyperparameters/{scenario}.toml")


@cache
def read(path: str) -> Mapping[str, Any]:
    """Return the contents of a TOML file beside this module."""
    text = files("linsep.paper").joinpath(*path.split("/")).read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


def _block(block: Mapping[str, Any]) -> Iterator[tuple[Place, Cell]]:
    columns: list[str] = block["columns"]
    gammas: list[float | None] = block.get("gamma", [None] * len(columns))
    bold: list[list[str]] = block.get("bold", [[]] * len(columns))
    for method, row in block["cells"].items():
        for column, gamma, marked, numbers in zip(columns, gammas, bold, row, strict=True):
            scenario, _, memory = column.partition("/")
            size = int(memory) if memory else None
            place = Place(scenario, size, method, block["metric"], block["setting"], gamma)
            yield place, replace(Cell(*numbers), bold=method in marked)


def _section(raw: Mapping[str, Any], memory: int | None, base: str) -> Mapping[str, Any]:
    """Return the part of a scenario's file for one method at one memory size."""
    scenario = raw["scenario"]
    without: dict[str, dict[str, Any]] = raw.get("no_memory", {})
    by_size: dict[str, dict[str, dict[str, Any]]] = raw["memory"]
    section = without if memory is None else by_size.get(str(memory), {})
    if base in section:
        return section[base]
    methods = {name for section in (without, *by_size.values()) for name in section}
    if base not in methods:
        raise ConfigError(unknown(f"method in the paper's {scenario} runs", base, methods))
    if base in without:
        raise ConfigError(f"{base} has no memory in the paper: ask for memory None, not {memory}")
    raise ConfigError(unknown(f"memory size of {base} on {scenario} in the paper", memory, by_size))


def _hyperparameter(name: str, raw: Any) -> Hyperparameter:
    given = raw if isinstance(raw, dict) else {"text": raw}
    text = _frozen(given.get("text"))
    program = _frozen(given["program"]) if "program" in given else text
    return Hyperparameter(name, text, program, given.get("stated", True), given.get("note", ""))


def _frozen(value: Any) -> Value | None:
    return tuple(value) if isinstance(value, list) else value


def _why_absent(sought: Place) -> str:
    """Say which of the place's names is the wrong one, trying them from left to right."""
    places = [place for name in TABLES for place in table(name).cells]
    for field in ("scenario", "method", "memory", "setting", "metric", "gamma"):
        wanted = getattr(sought, field)
        allowed = {getattr(place, field) for place in places}
        if wanted not in allowed:
            what = f"{field} in the paper's tables, at {sought}:"
            return unknown(what, wanted, {str(name).lower() for name in allowed})
        places = [place for place in places if getattr(place, field) == wanted]
    raise AssertionError(f"{sought} is in a table")
