"""Ways to keep learning from a pretrained network, compared: protocol pretrained.toml.

A way is a method and how much of the network learns. Each is compared with the frozen backbone and
streaming LDA, order of the classes by order. Parts of the protocol are called after their data set
and what learns; those that end with "held out" chose the settings.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from linsep.compare.statistics import Summary, paired, summarise
from linsep.compare.tables import Interval, Spread, Table, Value
from linsep.compare.variants import title
from linsep.resolve import resolve
from linsep.settings.config import from_settings
from linsep.settings.layers import flat, read
from linsep.storage.store import Record

from .evidence import RESULTS, Runs
from .pages import DIFFERENCE, gap, rendered
from .svg import WIDTH, Scale, axis, svg, text

PROTOCOL = Path(__file__).with_name("pretrained.toml")
FOLDER = RESULTS / "pretrained"
FAA = "class_il.faa"
SETS = {"grocery": "Grocery Store", "cifar100": "CIFAR-100, 50 images a class"}
LEARNS = {
    "frozen": "nothing", "adapted": "first lesson", "every lesson": "every lesson",
    "joint": "all at once",
}  # fmt: skip
FROZEN, LDA, JOINT = "frozen", "ft+transport", "joint"
HELD_OUT = "held out"
RESTING = {FROZEN: "frozen", "adapted": "FSA"}  # features, from the second lesson on
WORDS = {
    "training.epochs": "epochs", "training.lr": "rate", "fd.weight": "weight",
    "bfp.weight": "weight", "bfp.init": "map from", "bfp.lr": "its rate",
    "transport.ridge": "ridge",
}  # fmt: skip
Settings = Mapping[str, Any]
COLOURS = {"frozen": "#0072B2", "adapted": "#009E73", "every lesson": "#D55E00", "joint": "#7f7f7f"}


@dataclass(frozen=True)
class Way:
    """A method on a data set, what learns of the network, and its finished runs by seed."""

    data: str
    learns: str
    method: str
    asked: int  # seeds
    runs: Mapping[int, Record]

    @property
    def title(self) -> str:
        """The method; where features rest, transport has nothing to carry and is LDA."""
        if self.learns in RESTING:
            rule = self.method.rpartition("+")[2]
            words = "LDA" if rule == "transport" else title(f"ft+{rule}").removeprefix("FT + ")
            return f"{RESTING[self.learns]} + {words}"
        return title(self.method)

    def values(self, fact: str) -> dict[int, float]:
        found = {seed: run.facts[fact] for seed, run in self.runs.items()}
        return {seed: float(value) for seed, value in found.items() if value is not None}

    def summary(self, fact: str) -> Summary | None:
        values = list(self.values(fact).values())
        return summarise(values) if values else None

    @cached_property
    def faa(self) -> Summary | None:
        return self.summary(FAA)


@dataclass(frozen=True)
class Tried:
    """A run on held-out images; `own` are settings of its part of the protocol."""

    learns: str
    settings: Settings
    own: Settings
    record: Record | None
    chosen: bool  # for the comparison

    @property
    def faa(self) -> float | None:
        value = None if self.record is None else self.record.facts[FAA]
        return None if value is None else float(value)

    @property
    def words(self) -> str:
        return ", ".join(f"{w} {self.own[n]}" for n, w in WORDS.items() if n in self.own)


@dataclass(frozen=True)
class Study:
    """Every way that the protocol has, in its order, and what the settings were chosen by."""

    ways: Sequence[Way]
    tried: Sequence[Tried]

    def on(self, data: str) -> list[Way]:
        return [way for way in self.ways if way.data == data]

    def way(self, data: str, learns: str, method: str) -> Way:
        return next(w for w in self.on(data) if (w.learns, w.method) == (learns, method))

    def difference(self, one: Way, other: Way) -> Summary | None:
        """One minus the other in Class-IL FAA, over the seeds that both have."""
        a, b = one.values(FAA), other.values(FAA)
        return paired(a, b).difference if a.keys() & b.keys() else None

    def against_frozen(self, way: Way) -> Summary | None:
        return self.difference(way, self.way(way.data, FROZEN, LDA))

    def tried_with(self, method: str, words: str) -> Tried:
        return next(t for t in self.tried if (t.settings["method"], t.words) == (method, words))

    def begun(self, data: str) -> bool:
        return any(way.runs for way in self.on(data))

    @property
    def missing(self) -> list[Way]:
        return [way for way in self.ways if len(way.runs) < way.asked]


def study(records: Iterable[Record]) -> Study:
    """Sort finished runs into the ways of the protocol, and those that chose their settings."""
    runs = Runs(records, PROTOCOL)
    parts = {tuple(name.split(", ")): every for name, every in runs.parts.items()}
    reported = {name: every for name, every in parts.items() if name[-1] != HELD_OUT}
    ways: dict[tuple[str, str, str], list[Settings]] = {}
    for (data, learns, *_), every in reported.items():
        for settings in every:
            ways.setdefault((data, learns, settings["method"]), []).append(settings)
    chosen = [_comparable(settings) for every in reported.values() for settings in every]
    common = flat(read(PROTOCOL))
    tried = []
    for (_, learns, *more), every in parts.items():
        for settings in every if more[-1:] == [HELD_OUT] else ():
            known = flat(settings) | flat(settings.get("options", {}))
            own = {name: value for name, value in known.items() if common.get(name) != value}
            same = _comparable(settings) in chosen
            tried.append(Tried(learns, settings, own, runs.run(settings), same))
    return Study([Way(*place, len(s), _by_seed(runs, s)) for place, s in ways.items()], tried)


def _by_seed(runs: Runs, several: Sequence[Settings]) -> dict[int, Record]:
    found = {settings["seed"]: runs.run(settings) for settings in several}
    return {seed: record for seed, record in found.items() if record is not None}


def _comparable(settings: Settings) -> Settings:
    """What is computed, whatever the seed and the images."""
    config = resolve(from_settings(settings), lenient=True, here=False)
    apart = ("seed", "scenario.order_seed", "scenario.data")
    every = flat(config.model_dump(mode="json"))
    return {name: value for name, value in every.items() if name not in apart}


# --- the page ------------------------------------------------------------------------------------


def page(found: Study) -> str:
    return rendered(
        "pretrained.md",
        found=found,
        sets={data: name for data, name in SETS.items() if found.begun(data)},
        table=lambda data: table(found, data),
        tried=tried_table(found),
        compared=lambda data, *four: _compared(found, data, *four),
        missing=_missing(found),
        faa=lambda method, words: found.tried_with(method, words).faa,
    )


def _missing(found: Study) -> list[str]:
    """Ways that lack seeds, and data sets that lack every run."""
    none = [f"{name}: every run" for data, name in SETS.items() if not found.begun(data)]
    some = [way for way in found.missing if found.begun(way.data)]
    return [f"{SETS[w.data]}: {w.title}, {len(w.runs)} of {w.asked} seeds" for w in some] + none


def table(found: Study, data: str) -> Table:
    """A row for each way on a data set."""
    rows: list[list[Value]] = []
    for way in found.on(data):
        facts = (FAA, "class_il.ff", "class_il.ala", "task_il.faa")
        passes = way.summary("cost.images")
        apart = None if (way.learns, way.method) == (FROZEN, LDA) else found.against_frozen(way)
        rows.append([
            way.title, LEARNS[way.learns], *(_spread(way.summary(fact)) for fact in facts),
            None if apart is None else Interval(apart.mean, apart.low, apart.high),
            None if passes is None else round(passes.mean / 1000), len(way.runs),
        ])  # fmt: skip
    heads = ("way", "what learns", "Class-IL FAA", "FF", "ALA", "Task-IL FAA")
    return Table((*heads, DIFFERENCE, "passes (1000)", "seeds"), rows)


def _spread(found: Summary | None) -> Value:
    return None if found is None else Spread(found.mean, found.std)


def tried_table(found: Study) -> Table:
    """What the settings were chosen by."""
    rows: list[list[Value]] = [
        [
            title(one.settings["method"]), LEARNS[one.learns], one.words,
            one.faa,
            "yes" if one.chosen else "",
        ]
        for one in found.tried
    ]  # fmt: skip
    return Table(("method", "what learns", "tried", "Class-IL FAA", "chosen"), rows)


def _compared(found: Study, data: str, learns: str, method: str, to: str, other: str) -> str:
    one, rival = found.way(data, learns, method), found.way(data, to, other)
    return gap(found.difference(one, rival))


# --- the figure ----------------------------------------------------------------------------------

LABELS, TOP, ROW, HEADING, DOT = 176, 62, 22, 26, 4  # units


def picture(found: Study) -> str:
    """A row for each way: its runs, and their mean."""
    values = [v for way in found.ways for v in way.values(FAA).values()] or [0.0]
    x, marks = axis(values, LABELS, WIDTH - 20, 9)
    parts, y = list[str](), float(TOP)
    for data, name in SETS.items():
        there = [way for way in found.on(data) if way.runs]
        parts += [text(14, y + 17, name, "s h")] if there else []
        y += HEADING if there else 0
        for way in there:
            parts.append(_row(way, x, y + ROW / 2))
            y += ROW
    lines = []
    for mark in marks:
        lines.append(f'<path class="g" d="M{x(mark):.1f} {TOP}V{y:g}"/>')
        lines.append(text(x(mark), y + 17, f"{mark:g}", "s m"))
    heading = "Learning on from a pretrained network"
    below = "Final accuracy in percent, Class-IL: each run, and the mean"
    return svg(y + 58, f"{heading}. {below}", heading, below, [*lines, *parts, _legend(y + 44)])


def _row(way: Way, x: Scale, y: float) -> str:
    ink = COLOURS[way.learns]
    parts = [text(LABELS - 10, y + 4, way.title, "l e")]
    for value in way.values(FAA).values():
        place = f'cx="{x(value):.1f}" cy="{y:.1f}" r="{DOT}"'
        parts.append(f'<circle {place} fill="{ink}" fill-opacity=".45"/>')
    if way.faa is not None:
        at = x(way.faa.mean)
        parts.append(f'<path d="M{at:.1f} {y - 8:.1f}v16" stroke="{ink}" stroke-width="2.5"/>')
    return "".join(parts)


def _legend(y: float) -> str:
    parts, x = [text(14, y, "learns:", "s")], 62.0
    for learns, words in LEARNS.items():
        parts.append(f'<circle cx="{x:g}" cy="{y - 4:g}" r="{DOT}" fill="{COLOURS[learns]}"/>')
        parts.append(text(x + 8, y, words, "s"))
        x += 24 + 6.2 * len(words)
    return "".join(parts)
