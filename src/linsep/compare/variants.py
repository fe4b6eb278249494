"""Runs sorted into variants of an experiment, and the variants compared pair by pair.

Runs that differ in nothing but the seed, or the seed of a shuffled class order, form a `Variant`.
Variants whose shared fields (scenario, memory, training ...) are equal form a block, in which they
are compared. Options of a method or an add-on, such as bfp.weight, make two variants in one block.
A field that differs only between methods, like a learning rate that each suggests, goes with the
method and is reported.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from ..errors import ConfigError, unknown
from ..learning.metrics import METRICS, PROTOCOLS, REPORTED
from ..settings.layers import NO_NUMBERS, decides
from ..storage.store import Record, Value
from .naming import DATA, data_title, setting_words, telling, variant_titles
from .naming import Fields as Fields
from .naming import shown as shown
from .statistics import Paired, Summary, mean, paired, summarise

SECTIONS = ("scenario", "net", "training", "memory", "evaluation", "compute", "data")
# Fields that never tell variants apart: no number depends on them, or they identify a run within.
IGNORED = NO_NUMBERS | {
    "name", "key", "status", "progress", "origin", "seed", "method", "scenario.order_seed",
    "scenario.subset_seed",
}  # fmt: skip

MEASURED = {*PROTOCOLS, "cost"}  # sections of what a run gave and cost, not of its settings

Values = dict[str, Value]


class Member(NamedTuple):
    """A run within its variant, and its counterpart in another: class order, seed and images."""

    order: int | None  # the seed of a shuffled class order; None for the natural one
    seed: int
    subset: int = 0  # the seed that chose the images, where not all are used

    def __str__(self) -> str:
        order = [] if self.order is None else [f"order {self.order}"]
        subset = [f"images {self.subset}"] if self.subset not in (0, self.seed) else []
        more = [*order, *subset]
        return f"{self.seed} ({', '.join(more)})" if more else str(self.seed)


@dataclass(frozen=True)
class Variant:
    """One method with one set of options, over its seeds and class orders."""

    block: Fields  # that differ between blocks
    method: str
    options: Fields  # of the method's parts, where they differ between variants
    runs: Mapping[Member, Record]
    title: str = ""  # for people: "DER++ + BFP, γ=0.5", or the name that its runs were given
    place: str = ""  # what tells its block from the others: "memory=200"

    @property
    def label(self) -> str:
        """'derpp+bfp (bfp.weight=0.5)', as it is typed."""
        return f"{self.method} ({spelled(self.options)})" if self.options else self.method

    @property
    def by_name(self) -> bool:
        """Whether the title is the name that the user gave, which may not name the method."""
        return {run.given_name for run in self.runs.values()} == {self.title}

    @property
    def data(self) -> Fields:
        """What identifies the data set."""
        facts = next(iter(self.runs.values())).facts
        return tuple((name, facts.get(name)) for name in ("scenario.name", "data"))

    def values(self, protocol: str, metric: str) -> dict[Member, float]:
        found = {member: run.facts.get(f"{protocol}.{metric}") for member, run in self.runs.items()}
        return {member: float(v) for member, v in found.items() if v is not None}

    def mean(self, protocol: str, metric: str) -> float:
        """Of a metric that is known."""
        return mean(list(self.values(protocol, metric).values()))

    def summary(self, protocol: str, metric: str) -> Summary | None:
        """None where the metric is undefined, like FF of joint training."""
        values = self.values(protocol, metric)
        return summarise(list(values.values())) if values else None


@dataclass(frozen=True)
class Estimate:
    """One metric of one variant, and its pairs with the variant it is compared with, if any."""

    variant: Variant
    protocol: str  # class_il | task_il
    metric: str
    summary: Summary | None  # None: the metric is undefined
    against: Variant | None = None
    pairs: Paired | None = None  # of this variant's values minus the other's

    @property
    def score(self) -> tuple[int, int, int] | None:
        """Pairs in which the variant is better, worse, equal: less forgetting is better."""
        if self.pairs is None:
            return None
        higher, lower, same = self.pairs.wins, self.pairs.losses, self.pairs.ties
        less_is_better = METRICS[self.metric].better == "min"
        return (lower, higher, same) if less_is_better else (higher, lower, same)


@dataclass(frozen=True)
class Comparison:
    variants: Sequence[Variant]
    estimates: Sequence[Sequence[Estimate]]  # of each variant
    common: Values  # fields that all runs share
    differing: Sequence[str]  # fields that make blocks
    by_method: Mapping[str, Values]  # fields that differ between methods only
    left_out: Sequence[str]  # runs without results
    repeated: Sequence[str]  # runs that are in their variant already


def compare(records: Iterable[Record], against: str | None = None) -> Comparison:
    """Sort finished runs into variants and pair each with `against`, a method's name.

    Without a name, a method with added terms (derpp+bfp) is paired with the method alone (derpp).
    """
    given = list({record.folder: record for record in records}.values())
    done = [record for record in given if record.finished]
    if not done:
        raise ConfigError("there is nothing to compare: no finished run among those asked for")
    methods = list(dict.fromkeys(str(record["method"]) for record in done))
    if against is not None and against not in methods:
        raise ConfigError(unknown("method among these runs", against, methods))
    common, differing, options, by_method = _sorted_fields(done)
    variants = named(_variants(done, differing, options))
    estimates = [_estimates(variant, _rival(variant, variants, against)) for variant in variants]
    left_out = [record.name for record in given if not record.finished]
    counted = {record.folder for variant in variants for record in variant.runs.values()}
    repeated = [record.name for record in done if record.folder not in counted]
    return Comparison(variants, estimates, common, differing, by_method, left_out, repeated)


def named(variants: Sequence[Variant], by_data: bool = True) -> list[Variant]:
    """The variants with titles and places that tell them from each other, perhaps by their data."""
    called = data_names(variants)
    blocks = {
        variant.block: dict(variant.block) | ({DATA: called[variant.data]} if by_data else {})
        for variant in variants
    }
    rows = list(blocks.values())
    told = telling(rows, (name for row in rows for name in row))
    titles = variant_titles(
        [(variant.method, variant.options, _given_name(variant)) for variant in variants]
    )
    return [
        replace(variant, title=title, place=setting_words(blocks[variant.block], told))
        for variant, title in zip(variants, titles, strict=True)
    ]


def data_names(variants: Sequence[Variant]) -> dict[Fields, str]:
    """The title of each data set, from the first of its runs that has a name for it."""
    runs = [(variant.data, run.facts) for variant in variants for run in variant.runs.values()]
    runs.sort(key=lambda pair: not pair[1].get("scenario.data_name"))
    return {data: data_title(facts) for data, facts in reversed(runs)}


def _given_name(variant: Variant) -> str | None:
    """The name that the user gave all runs of the variant."""
    names = {run.given_name for run in variant.runs.values()}
    return names.pop() if len(names) == 1 else None


def pooled(variants: Iterable[Variant]) -> bool:
    """Whether a variant spans several class orders."""
    return any(len({member.order for member in variant.runs}) > 1 for variant in variants)


def matching(
    variants: Iterable[Variant], block: Fields, method: str, options: Fields
) -> Variant | None:
    """The variant of a method that agrees with the options both have, if there is exactly one."""
    mine = dict(options)
    alike = [variant for variant in variants if variant.method == method and variant.block == block]
    found = [
        variant for variant in alike if all(mine.get(name, v) == v for name, v in variant.options)
    ]
    return found[0] if len(found) == 1 else None


def spelled(fields: Fields) -> str:
    """'memory=200, bfp.weight=3'."""
    usual = {"memory.size": "memory=", "scenario.name": "", "net.name": "net="}
    return ", ".join(usual.get(name, f"{name}=") + shown(value) for name, value in fields)


def _sorted_fields(done: list[Record]) -> tuple[Values, list[str], list[str], dict[str, Values]]:
    """Fields that all runs share, that make blocks or variants, and that go with the method."""
    methods: dict[str, list[Record]] = {}
    for record in done:
        methods.setdefault(str(record.facts["method"]), []).append(record)
    common, by_method = Values(), dict[str, Values]()
    blocks, options = list[str](), list[str]()
    for name in _telling_fields(done):
        values = {m: {record.facts.get(name) for record in runs} for m, runs in methods.items()}
        shared = name.partition(".")[0] in SECTIONS
        if any(len(several) > 1 for several in values.values()):
            (blocks if shared else options).append(name)
        elif len(one := set().union(*values.values())) == 1:
            common[name] = one.pop()
        elif shared:
            by_method[name] = {method: only.pop() for method, only in values.items()}
    return common, blocks, options, by_method


def _telling_fields(done: list[Record]) -> Iterator[str]:
    """Settings that decide a run's numbers, and may tell its variant from others."""
    for name in dict.fromkeys(name for record in done for name in record.facts):
        section = name.partition(".")[0]
        if name in IGNORED or not decides(name) or section in MEASURED:
            continue
        versions = {record.facts.get(name) for record in done} - {None}
        if section != "custom" or len(versions) > 1:  # else the method's or the net's name tells
            yield name


def _variants(done: Sequence[Record], differing: list[str], options: list[str]) -> list[Variant]:
    """The variants, ordered by block (scenario, memory ...) and, within a block, by method."""
    found: dict[tuple[Fields, str, Fields], dict[Member, Record]] = {}
    for record in done:
        block = tuple((name, record.facts.get(name)) for name in differing)
        own = tuple((n, record.facts[n]) for n in options if record.facts.get(n) is not None)
        runs = found.setdefault((block, str(record.facts["method"]), own), {})
        runs.setdefault(_member(record), record)
    variants = [Variant(block, method, own, runs) for (block, method, own), runs in found.items()]
    return sorted(variants, key=lambda a: (ranks(a.block), a.method.split("+"), ranks(a.options)))


def _member(record: Record) -> Member:
    order, seed = (int(str(record.facts.get(n) or 0)) for n in ("scenario.order_seed", "seed"))
    subset = int(record.facts.get("scenario.subset_seed") or 0)
    return Member(order if record.facts.get("scenario.order") == "shuffled" else None, seed, subset)


def ranks(fields: Fields) -> list[Any]:
    """A sort key: numbers before text, and what is missing first."""
    return [(name, isinstance(v, str), -math.inf if v is None else v) for name, v in fields]


def _rival(variant: Variant, variants: Sequence[Variant], against: str | None) -> Variant | None:
    base, plus, _ = variant.method.partition("+")
    method = against or (base if plus else None)
    others = [other for other in variants if other is not variant]
    return None if method is None else matching(others, variant.block, method, variant.options)


def _estimates(variant: Variant, rival: Variant | None) -> list[Estimate]:
    found = []
    for protocol, metric in product(PROTOCOLS, REPORTED):
        one = Estimate(variant, protocol, metric, variant.summary(protocol, metric))
        mine, theirs = (
            variant.values(protocol, metric),
            rival.values(protocol, metric) if rival else {},
        )
        if mine.keys() & theirs.keys():
            one = replace(one, against=rival, pairs=paired(mine, theirs))
        found.append(one)
    return found
