"""The paper's tables and hyper-parameters, and an audit of the numbers that cannot be right.

A hyper-parameter may have two values: the text's, and that of the authors' program where the two
differ. Where the text is silent the program's value completes it, marked `stated = False`.

Each check of the audit states a relation that printed numbers must obey, and finds the places where
they do not. For T tasks and a matrix of accuracies:
- FAA + (T-1)/T FF is the mean of each task's peak accuracy, so it is at most 100.
- A Class-IL prediction that is right is also right in Task-IL, so no Class-IL FAA or mean peak is
  above the Task-IL one.
- std(X + Y) >= |std(X) - std(Y)|, so the spreads of FAA and FF bound that of the mean peak below.
- A printed delta is the difference of two printed means; a bold number is the best of its column.
- Peaks are at least the accuracies right after learning, so FAA >= ALA - (T-1)/T FF; equal if each
  task peaks right after it was learned.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

from ..errors import ConfigError, unknown

TABLES = ("faa", "ablation_derpp", "ablation_er", "ff", "imagenet100", "gamma")  # in print order
PROJECTIONS = ("fd", "bfp", "bfp2")
Source = Literal["text", "program"]
SCENARIOS = ("split-cifar10", "split-cifar100", "split-tinyimagenet", "split-imagenet100")
ROUNDING = 0.01  # a difference of two numbers printed to two digits may be off by this
SPREAD = 5.0  # points: no method's mean peak moves this much from seed to seed


@dataclass(frozen=True)
class Place:
    """Where a number stands. `memory` is None without one; `gamma` is set only where it varies."""

    scenario: str
    memory: int | None
    method: str
    metric: str = "faa"  # faa | ff | ala
    protocol: str = "class_il"  # class_il | task_il
    gamma: float | None = None

    def __str__(self) -> str:
        where = self.scenario if self.memory is None else f"{self.scenario}/{self.memory}"
        gamma = "" if self.gamma is None else f" gamma={self.gamma:g}"
        return f"{where}/{self.method} {self.protocol} {self.metric}{gamma}"


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


@cache
def table(name: str) -> PaperTable:
    """Return a table of the paper by its name here, such as "faa"."""
    raw = read(f"{name}.toml")
    cells = {place: cell for block in raw["block"] for place, cell in _block(block)}
    number, label, caption = raw["number"], raw["label"], raw["caption"]
    return PaperTable(name, number, label, caption, raw.get("runs"), MappingProxyType(cells))


def at(sought: Place) -> Cell:
    """Return the printed number at a place, from the first table that has it."""
    for name in TABLES:
        if (found := table(name).cells.get(sought)) is not None:
            return found
    raise ConfigError(f"{sought} is not printed in the paper")


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


def hyperparameters(
    scenario: str, memory: int | None, method: str, source: Source = "text"
) -> dict[str, Any]:
    """Return a method's values in the paper: {"lr": 0.03, "replay_logits": 0.2, ...}.

    `source="program"` takes the program's value where it differs from the text. What neither gives
    is left out. `+fd`, `+bfp`, `+bfp2` add the projection's values to any base.
    """
    raw = protocol(scenario)
    base, _, projection = method.partition("+")
    if projection and projection not in PROJECTIONS:
        raise ConfigError(unknown("addition to a method", projection, PROJECTIONS))
    found = {**raw["common"], **_section(raw, memory, base)}
    if projection:
        names = ["projection_weight"] if projection == "fd" else list(raw["projection"])
        found |= {name: raw["projection"][name] for name in names}
    both = {n: given if isinstance(given, dict) else {"text": given} for n, given in found.items()}
    values = {n: given.get(source, given.get("text")) for n, given in both.items()}
    return {name: value for name, value in values.items() if value is not None}


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


@dataclass(frozen=True)
class Scale:
    name: str
    line: str
    comparable: bool
    seeds: Sequence[int]
    settings: Mapping[str, Any]
    scenarios: Mapping[str, Mapping[str, Any]]
    absent: Mapping[str, str] = field(default_factory=dict)  # scenarios it leaves out, and why

    def memory(self, scenario: str, rows: int | None) -> int | None:
        """Return the memory size that replaces one of the paper's."""
        sizes = self.scenarios.get(scenario, {}).get("memory", {})
        return rows if rows is None else sizes.get(str(rows), rows)


def scale(name: str) -> Scale:
    known = read("scales.toml")
    if name not in known:
        raise ConfigError(unknown("scale", name, known))
    return Scale(name=name, **known[name])


def _block(block: Mapping[str, Any]) -> Iterator[tuple[Place, Cell]]:
    columns: list[str] = block["columns"]
    gammas: list[float | None] = block.get("gamma", [None] * len(columns))
    bold: list[list[str]] = block.get("bold", [[]] * len(columns))
    for method, row in block["cells"].items():
        for column, gamma, marked, numbers in zip(columns, gammas, bold, row, strict=True):
            scenario, _, memory = column.partition("/")
            size = int(memory) if memory else None
            place = Place(scenario, size, method, block["metric"], block["protocol"], gamma)
            yield place, replace(Cell(*numbers), bold=method in marked)


# --- the audit -----------------------------------------------------------------------------------


def audit() -> list[tuple[str, str]]:
    """Return what every check finds in every table, in a fixed order: its name and a sentence."""
    return [(name, text) for name, check in CHECKS.items() for text in check()]


def impossible_peaks() -> Iterator[str]:
    """A mean peak above 100 %."""
    for faa, ff in _forgetting_pairs():
        peak, forgotten = _mean_peak(faa, ff), at(ff).mean
        if peak <= 100 + 2 * ROUNDING:
            continue
        numbers = f"FAA {at(faa).mean:.2f} with FF {forgotten:.2f}"
        text = f"{faa}: {numbers} needs a mean peak of {peak:.1f} %"
        if faa.protocol == "class_il":
            bound = _mean_peak(_in_task_il(faa), _in_task_il(ff))
            text += (
                f"; the Task-IL cells give {bound:.1f}, so with this FF the FAA is at most "
                f"{bound - _share(faa) * forgotten:.1f}"
            )
        yield text


def class_above_task() -> Iterator[str]:
    """A Class-IL number above the Task-IL number of the same runs."""
    for found, place, cell in _printed():
        upper = found.cells.get(_in_task_il(place))
        if place.metric == "faa" and upper is not None and cell.mean > upper.mean:
            yield f"{place}: Class-IL FAA {cell.mean:.2f} > Task-IL {upper.mean:.2f}"
    for faa, ff in _forgetting_pairs():
        peak, bound = _mean_peak(faa, ff), _mean_peak(_in_task_il(faa), _in_task_il(ff))
        if peak > bound + 4 * ROUNDING:
            yield f"{faa}: mean peak {peak:.2f} in Class-IL > {bound:.2f} in Task-IL"


def unbelievable_spreads() -> Iterator[str]:
    """Spreads of FAA and FF that only a mean peak swinging by many points could join."""
    for faa, ff in _forgetting_pairs():
        narrow, wide = at(faa).std, at(ff).std
        if narrow is None or wide is None:
            continue
        least = abs(_share(faa) * wide - narrow)
        if least > SPREAD:
            yield (
                f"{faa}: FF {at(ff).mean:.2f} ± {wide:.2f} beside FAA "
                f"{at(faa).mean:.2f} ± {narrow:.2f} needs a mean peak with a std of at least "
                f"{least:.1f} points between seeds"
            )


def wrong_deltas() -> Iterator[str]:
    """A printed improvement that is not the difference of the printed means."""
    for _, place, cell in _printed():
        if cell.delta is None:
            continue
        base = replace(place, method=place.method.partition("+")[0])
        difference = cell.mean - at(base).mean
        if abs(cell.delta - difference) > ROUNDING + 1e-9:
            yield (
                f"{place}: printed as {cell.delta:+.2f}, but {cell.mean:.2f} - "
                f"{at(base).mean:.2f} is {difference:+.2f}"
            )


def wrong_bold() -> Iterator[str]:
    """A number marked best of its column that another one beats, or a best one left unmarked."""
    columns: dict[tuple[str, Place], dict[Place, Cell]] = {}  # what competes: all but the method
    for found, place, cell in _printed():
        columns.setdefault((found.name, replace(place, method="")), {})[place] = cell
    for (_, column), cells in columns.items():
        pick = min if column.metric == "ff" else max
        best = pick(cell.mean for cell in cells.values())
        marked = [place for place, cell in cells.items() if cell.bold]
        winners = [place for place, cell in cells.items() if cell.mean == best]
        if not marked or set(marked) == set(winners):
            continue
        shown, better = (
            ", ".join(f"{p.method} {cells[p].mean:.2f}" for p in places)
            for places in (marked, winners)
        )
        yield f"{marked[0]}: {shown} is printed in bold, the best is {better}"


def gamma_identity() -> Iterator[str]:
    """FAA = ALA - (T-1)/T FF, row by row of the gamma table."""
    cells = table("gamma").cells
    for place, faa in cells.items():
        if place.metric != "faa":
            continue
        ff, ala = (replace(place, metric=metric) for metric in ("ff", "ala"))
        expected = cells[ala].mean - _share(place) * cells[ff].mean
        if abs(faa.mean - expected) > 2 * ROUNDING:
            verdict = "later peaks could explain it" if faa.mean > expected else "which cannot be"
            yield (
                f"{place}: FAA {faa.mean:.2f}, but ALA {cells[ala].mean:.2f} - "
                f"{_share(place):g} x FF {cells[ff].mean:.2f} is {expected:.2f} ({verdict}; "
                "the other rows agree to 0.01)"
            )


def disagreeing_tables() -> Iterator[str]:
    """One experiment printed with two results. The main tables' gamma is 1."""
    for found, place, cell in _printed():
        if place.gamma not in (None, 1.0) or place.metric == "ala":
            continue
        here, elsewhere = cell.mean, at(replace(place, gamma=None)).mean
        if here != elsewhere:
            yield f"{place}: {here:.2f} in table {found.number}, {elsewhere:.2f} elsewhere"


CHECKS: Mapping[str, Callable[[], Iterator[str]]] = {
    "impossible peak": impossible_peaks,
    "class above task": class_above_task,
    "unbelievable spread": unbelievable_spreads,
    "wrong delta": wrong_deltas,
    "wrong bold": wrong_bold,
    "gamma identity": gamma_identity,
    "disagreeing tables": disagreeing_tables,
}


def _printed() -> Iterator[tuple[PaperTable, Place, Cell]]:
    """Every printed number with its place and its table."""
    for found in map(table, TABLES):
        for place, cell in found.cells.items():
            yield found, place, cell


def _forgetting_pairs() -> Iterator[tuple[Place, Place]]:
    """Places with both an accuracy and a forgetting from the main tables."""
    for ff in table("ff").cells:
        yield replace(ff, metric="faa"), ff


def _mean_peak(faa: Place, ff: Place) -> float:
    return at(faa).mean + _share(faa) * at(ff).mean


def _share(place: Place) -> float:
    """(T-1)/T: the share of tasks that can be forgotten."""
    tasks: int = protocol(place.scenario)["tasks"]
    return (tasks - 1) / tasks


def _in_task_il(place: Place) -> Place:
    return replace(place, protocol="task_il")
