"""Runs sorted into arms of an experiment, and the arms compared seed by seed.

Runs that differ in nothing but the seed form an `Arm`. Arms whose shared settings (scenario,
memory, training ...) are equal stand in one block, where they are compared. Options of a method's
own parts, such as bfp.weight, make two arms of one method in one block. What differs only between
methods, like a learning rate that each brings along, goes with the method and is reported.

Knows facts as the store gives them. Knows nothing of how they came about, or of tables.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError, unknown
from ..learning.metrics import METRICS, REPORTED, SETTINGS
from ..settings.names import NO_NUMBERS
from ..storage.store import Record, Value
from .statistics import EXACT_UP_TO, Paired, Summary, paired, summarise

IL = tuple(SETTINGS)
SECTIONS = ("scenario", "net", "training", "memory", "evaluation", "compute", "data")
# What may differ between runs that are the same but for the seed: no number depends on it.
NO_SETTING = {"name", "key", "status", "progress", "seed", "method"} | NO_NUMBERS

Settings = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Arm:
    """One method with one set of options, over its seeds."""

    block: Settings  # what differs between blocks
    method: str
    options: Settings  # of the method's parts, where they differ between arms
    runs: Mapping[int, Record]  # by seed

    @property
    def label(self) -> str:
        return f"{self.method} ({spelled(self.options)})" if self.options else self.method

    def values(self, setting: str, metric: str) -> dict[int, float]:
        found = {seed: run.facts.get(f"{setting}.{metric}") for seed, run in self.runs.items()}
        return {seed: float(v) for seed, v in found.items() if v is not None}


@dataclass(frozen=True)
class Figure:
    """One metric of one arm, and its pairs with another arm, if there is one to compare with."""

    arm: Arm
    setting: str  # class_il | task_il
    metric: str
    summary: Summary | None  # None: the metric is undefined, like FF of joint training
    against: Arm | None = None
    pairs: Paired | None = None  # of this arm's values minus the other's

    @property
    def score(self) -> tuple[int, int, int] | None:
        """Seeds where the arm is better, worse, alike: less forgetting is better."""
        if self.pairs is None:
            return None
        higher, lower = self.pairs.wins, self.pairs.losses
        better, worse = (higher, lower)
        if METRICS[self.metric].better == "min":
            better, worse = worse, better
        return better, worse, self.pairs.ties


@dataclass(frozen=True)
class Comparison:
    arms: Sequence[Arm]
    figures: Sequence[Sequence[Figure]]  # of each arm
    common: Mapping[str, Value]  # settings that all runs share
    differing: Sequence[str]  # settings that make blocks
    by_method: Mapping[str, Mapping[str, Value]]  # settings that differ between methods only
    left_out: Sequence[str]  # runs without results
    doubled: Sequence[str]  # runs of an arm and a seed that another run stands for


def compare(records: Iterable[Record], against: str | None = None) -> Comparison:
    """Sort finished runs into arms and pair each with `against`, a method's name.

    Without a name, a method with added terms (derpp+bfp) is paired with the method alone (derpp).
    """
    given = list({record.folder: record for record in records}.values())
    done = [record for record in given if record.finished]
    if not done:
        raise ConfigError("there is nothing to compare: no finished run among those asked for")
    methods = list(dict.fromkeys(str(record["method"]) for record in done))
    if against is not None and against not in methods:
        raise ConfigError(unknown("method among these runs", against, methods))
    common, differing, options, by_method = _settings(done)
    arms = _arms(done, differing, options)
    kept = {run.folder for arm in arms for run in arm.runs.values()}
    keys = {run["key"] for arm in arms for run in arm.runs.values()}
    doubled = [r.name for r in done if r.folder not in kept and r["key"] not in keys]
    blocks: dict[Settings, list[Arm]] = {}
    for arm in arms:
        blocks.setdefault(arm.block, []).append(arm)
    figures = [_figures(arm, _rival(arm, blocks[arm.block], against)) for arm in arms]
    left_out = [record.name for record in given if not record.finished]
    return Comparison(arms, figures, common, differing, by_method, left_out, doubled)


def spelled(settings: Settings) -> str:
    """'memory=200, bfp.weight=3'."""
    usual = {"memory.rows": "memory", "scenario.name": "", "net.name": "net"}
    parts = []
    for name, value in settings:
        short = usual.get(name, name)
        parts.append(f"{short}={shown(value)}" if short else shown(value))
    return ", ".join(parts)


def shown(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "-" if value is None else str(value)


def _settings(
    done: Sequence[Record],
) -> tuple[dict[str, Value], list[str], list[str], dict[str, dict[str, Value]]]:
    """What all share, what makes blocks, what makes arms, and what goes with the method."""
    seen: dict[str, dict[str, set[Value]]] = {}  # field -> method -> values
    groups: dict[str, list[Record]] = {}
    for record in done:
        groups.setdefault(str(record.facts["method"]), []).append(record)
    methods = list(groups)
    for name in dict.fromkeys(name for record in done for name in record.facts):
        if name not in NO_SETTING and name.partition(".")[0] not in IL:
            seen[name] = {m: {r.facts.get(name) for r in group} for m, group in groups.items()}
    common, by_method = {}, {}
    blocks: list[str] = []
    options: list[str] = []
    for name, by in seen.items():
        shared = name.partition(".")[0] in SECTIONS
        if any(len(values) > 1 for values in by.values()):
            (blocks if shared else options).append(name)
        elif len(set().union(*by.values())) == 1:
            common[name] = next(iter(by[methods[0]]))
        elif shared:
            by_method[name] = {method: next(iter(values)) for method, values in by.items()}
    return common, blocks, options, by_method


def _arms(done: Sequence[Record], differing: list[str], options: list[str]) -> list[Arm]:
    """In the order of scenarios, memories ... and, within a block, of methods' names."""
    found: dict[tuple[Settings, str, Settings], dict[int, Record]] = {}
    for record in done:
        block = tuple((name, record.facts.get(name)) for name in differing)
        own = tuple((n, record.facts[n]) for n in options if record.facts.get(n) is not None)
        runs = found.setdefault((block, str(record.facts["method"]), own), {})
        seed = record.facts["seed"]
        assert isinstance(seed, int)
        runs.setdefault(seed, record)  # the same run, given twice from two places
    arms = [Arm(block, method, own, runs) for (block, method, own), runs in found.items()]
    return sorted(
        arms,
        key=lambda arm: (
            [_rank(value) for _, value in arm.block],
            arm.method.split("+"),
            [(name, _rank(value)) for name, value in arm.options],
        ),
    )


def _rank(value: Value) -> tuple[int, float, str]:
    if value is None:
        return 0, 0.0, ""
    return (2, 0.0, value) if isinstance(value, str) else (1, float(value), "")


def _rival(arm: Arm, block: Sequence[Arm], against: str | None) -> Arm | None:
    """The arm to pair with: of that method, and agreeing on the options both have."""
    base, plus, _ = arm.method.partition("+")
    method = against or (base if plus else None)
    if method is None:
        return None
    mine = dict(arm.options)
    rivals = [
        other
        for other in block
        if other.method == method
        and other is not arm
        and all(mine.get(name, value) == value for name, value in other.options)
    ]
    return rivals[0] if len(rivals) == 1 else None


def _figures(arm: Arm, rival: Arm | None) -> list[Figure]:
    found = []
    for setting in IL:
        for metric in REPORTED:
            mine = arm.values(setting, metric)
            if not mine:
                found.append(Figure(arm, setting, metric, None))
                continue
            summary = summarise(list(mine.values()))
            theirs = rival.values(setting, metric) if rival is not None else {}
            if rival is None or not mine.keys() & theirs.keys():
                found.append(Figure(arm, setting, metric, summary))
                continue
            many = len(mine) > EXACT_UP_TO  # then flips are sampled, the same ones each time
            pairs = paired(mine, theirs, np.random.default_rng(0) if many else None)
            found.append(Figure(arm, setting, metric, summary, rival, pairs))
    return found
