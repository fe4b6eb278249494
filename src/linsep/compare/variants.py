"""Runs sorted into variants of an experiment, what these are called, and compared pair by pair.

Runs that differ in nothing but the seed, or the seed of a shuffled class order, form a `Variant`.
Variants whose shared fields (scenario, memory, training ...) are equal form a block, in which they
are compared. Options of a method or an add-on, such as bfp.weight, make two variants in one block.
A field that differs only between methods, like a learning rate that each suggests, makes no block
and is reported. A title ("DER++ + BFP, γ=0.5") says no more than is needed to tell it from others.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import PurePath
from typing import Any, NamedTuple

from ..errors import ConfigError, unknown
from ..learning.metrics import PROTOCOLS, REPORTED
from ..settings.catalogue import SCENARIOS, method_name
from ..settings.catalogue import title as title
from ..settings.layers import NO_NUMBERS, SHORT, decides
from ..storage.store import Record, Value, check_names, full_name
from .statistics import Paired, Summary, mean, paired, summarise

SECTIONS = ("scenario", "net", "training", "memory", "evaluation", "compute", "data")
# Fields that never tell variants apart: no number depends on them, or they identify a run within.
IDENTITY = ("scenario.order_seed", "seed", "scenario.subset_seed")  # of a run in its variant
IGNORED = NO_NUMBERS | {"name", "key", "status", "progress", "origin", "method", *IDENTITY}
MEASURED = {*PROTOCOLS, "cost"}  # sections of what a run gave and cost, not of its settings
OWN = ("folder", "table", "arrays", "huggingface", "code")  # scenarios that say nothing of the data
DATA, MEMORY = "scenario.name", "memory.size"  # DATA stands for the data set, by its title
# What a reader looks for first; the digest of the data only where nothing else tells.
FIRST = (DATA, MEMORY, "net.name", "net.width", "training.lr", "training.epochs")
SHORT_OF = {full: short for short, full in SHORT.items()}
SYMBOLS = {"ser": "β", "star": "λ"}  # of terms' weights, where a paper has not BFP's γ

Fields = tuple[tuple[str, Value], ...]
Values = dict[str, Value]


class Member(NamedTuple):
    """A run within its variant, and its counterpart in another: class order, seed and images."""

    order: int | None  # the seed of a shuffled class order; None for the natural one
    seed: int
    subset: int = 0  # the seed that chose the images, where not all are used

    def __str__(self) -> str:
        more = [] if self.order is None else [f"order {self.order}"]
        more += [f"images {self.subset}"] if self.subset not in (0, self.seed) else []
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
    def given_name(self) -> str | None:
        """The name that the user gave all its runs."""
        names = {run.given_name for run in self.runs.values()}
        return names.pop() if len(names) == 1 else None

    @property
    def data(self) -> Fields:
        return tuple((name, self.fact(name)) for name in (DATA, "data"))

    def fact(self, field: str) -> Value:
        """A setting, which all its runs share; the mean of what was measured."""
        section, _, metric = field.partition(".")
        values = list(self.values(section, metric).values() if section in MEASURED else ())
        return mean(values) if values else next(iter(self.runs.values())).facts.get(field)

    def values(self, protocol: str, metric: str) -> dict[Member, float]:
        found = {member: run.facts.get(f"{protocol}.{metric}") for member, run in self.runs.items()}
        return {member: float(v) for member, v in found.items() if v is not None}

    def summary(self, protocol: str, metric: str) -> Summary | None:
        """None where the metric is undefined, like FF of joint training."""
        values = self.values(protocol, metric)
        return summarise(list(values.values())) if values else None


class Gain(NamedTuple):
    """One metric of a variant minus that of another, pair by pair."""

    variant: Variant
    against: Variant
    protocol: str
    metric: str
    pairs: Paired

    @property
    def mean(self) -> Summary:
        return self.pairs.difference

    @property
    def added(self) -> str:
        """The add-ons of the variant that the other one has not."""
        return self.variant.method.removeprefix(self.against.method).lstrip("+")


@dataclass(frozen=True)
class Comparison:
    variants: Sequence[Variant]
    gains: Sequence[Gain]  # of each variant that is compared with another
    common: Values  # fields that all runs share
    differing: Sequence[str]  # fields that make blocks
    by_method: Mapping[str, Values]  # fields that differ between methods only
    left_out: Sequence[str]  # runs without results
    repeated: Sequence[str]  # runs that are in their variant already


def compare(
    records: Iterable[Record], against: str | None = None, sort: str | None = None
) -> Comparison:
    """Sort finished runs into variants and pair each with `against`, a method's name.

    Without a name, a method with added terms (derpp+bfp) is paired with the method alone (derpp).
    Within a block, variants are in the order of their methods, or of `sort`: '-faa'.
    """
    given = list({record.folder: record for record in records}.values())
    done = [record for record in given if record.finished]
    if not done:
        raise ConfigError("there is nothing to compare: no finished run among those asked for")
    methods = list(dict.fromkeys(str(record["method"]) for record in done))
    if against is not None and (against := method_name(against, methods)) not in methods:
        raise ConfigError(unknown("method among these runs", against, methods))
    common, differing, options, by_method = _sorted_fields(done)
    variants = named(_sorted(_variants(done, differing, options), sort, done))
    gains = list(_gains(variants, against))
    left_out = [record.name for record in given if not record.finished]
    counted = {record.folder for variant in variants for record in variant.runs.values()}
    repeated = [record.name for record in done if record.folder not in counted]
    return Comparison(variants, gains, common, differing, by_method, left_out, repeated)


def matching(
    variants: Iterable[Variant], block: Fields, method: str, options: Fields
) -> Variant | None:
    """The variant of a method that agrees with the options both have, if there is exactly one."""
    mine = dict(options)
    alike = [other for other in variants if (other.method, other.block) == (method, block)]
    found = [a for a in alike if all(mine.get(name, v) == v for name, v in a.options)]
    return found[0] if len(found) == 1 else None


def ranks(fields: Fields) -> list[Any]:
    """A sort key: numbers before text, and what is missing first."""
    return [(name, isinstance(v, str), -math.inf if v is None else v) for name, v in fields]


def _sorted_fields(done: list[Record]) -> tuple[Values, list[str], list[str], dict[str, Values]]:
    """Fields that all runs share, that make blocks or variants, and that differ by method."""
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
    found: dict[tuple[Fields, str, Fields], dict[Member, Record]] = {}
    for record in done:
        facts = record.facts
        block = tuple((name, facts.get(name)) for name in differing)
        own = tuple((name, facts[name]) for name in options if facts.get(name) is not None)
        order, seed, subset = (int(str(facts.get(name) or 0)) for name in IDENTITY)
        shuffled = facts.get("scenario.order") == "shuffled"
        runs = found.setdefault((block, str(facts["method"]), own), {})
        runs.setdefault(Member(order if shuffled else None, seed, subset), record)
    return [Variant(block, method, own, runs) for (block, method, own), runs in found.items()]


def _sorted(variants: Sequence[Variant], sort: str | None, done: list[Record]) -> list[Variant]:
    """By block (scenario, memory ...) and, within a block, as asked for, or by method."""
    found = sorted(variants, key=lambda a: (a.method.split("+"), ranks(a.options)))
    for word in reversed(sort.split(",") if sort is not None else []):
        field = full_name(word.strip().removeprefix("-"))
        check_names([field], done)
        values = {id(a): ranks(((field, a.fact(field)),)) for a in found}
        found.sort(key=lambda a: values[id(a)], reverse=word.strip().startswith("-"))
    return sorted(found, key=lambda a: ranks(a.block))


def _gains(variants: Sequence[Variant], against: str | None) -> Iterator[Gain]:
    for variant in variants:
        base, plus, _ = variant.method.partition("+")
        if not (method := against or (base if plus else "")):
            continue
        others = [other for other in variants if other is not variant]
        rival = matching(others, variant.block, method, variant.options)
        for protocol, metric in product(PROTOCOLS, REPORTED):
            if rival and (gain := gained(variant, rival, protocol, metric)):
                yield gain


def gained(variant: Variant, rival: Variant, protocol: str, metric: str) -> Gain | None:
    """None without a pair of runs that have the metric."""
    mine, theirs = (side.values(protocol, metric) for side in (variant, rival))
    if not mine.keys() & theirs.keys():
        return None
    return Gain(variant, rival, protocol, metric, paired(mine, theirs))


# --- what they are called ------------------------------------------------------------------------


def is_bound(method: str) -> bool:
    """Whether it is trained on all data at once: an upper bound and no competitor."""
    return method.partition("+")[0] == "jt"


def named(variants: Sequence[Variant], by_data: bool = True) -> list[Variant]:
    """The variants with titles and places that tell them from each other, perhaps by their data."""
    data, methods = data_names(variants), dict[str, list[Values]]()
    blocks: dict[Fields, Values] = {}
    owners: dict[str | None, set[tuple[str, Fields]]] = {}
    for a in variants:
        methods.setdefault(a.method, []).append(dict(a.options))
        owners.setdefault(a.given_name, set()).add((a.method, a.options))
        blocks[a.block] = dict(a.block) | ({DATA: data[a.data]} if by_data else {})
    told, differ = telling(blocks.values()), {m: telling(rows) for m, rows in methods.items()}
    plain = [option_title(a.method, dict(a.options), differ[a.method]) for a in variants]
    own = {name for name, of in owners.items() if name and len(of) == 1 and name not in plain}
    places = {block: setting_words(row, told) for block, row in blocks.items()}
    return [
        replace(a, title=a.given_name if a.given_name in own else label, place=places[a.block])
        for a, label in zip(variants, plain, strict=True)
    ]


def data_names(variants: Sequence[Variant]) -> dict[Fields, str]:
    """The title of each data set, from the first of its runs that has a name for it."""
    runs = [(variant.data, run.facts) for variant in variants for run in variant.runs.values()]
    runs.sort(key=lambda pair: not pair[1].get("scenario.data_name"))
    return {data: data_title(facts) for data, facts in reversed(runs)}


def data_title(facts: Mapping[str, object], titled: bool = True) -> str:
    """The data's name, if the user gave it one, else that of own data's file or of the scenario."""
    name, place = facts.get(DATA), facts.get("scenario.data")
    if given := facts.get("scenario.data_name"):
        return str(given)
    if name in OWN and place:
        return PurePath(str(place)).name or str(name)
    return SCENARIOS[str(name)].title if titled and name in SCENARIOS else str(name or "")


def telling(rows: Iterable[Mapping[str, Value]]) -> list[str]:
    """As few of the fields as tell the rows apart as well as all of them do, the first first."""
    rows = list(rows)
    names = list(dict.fromkeys([*FIRST, *(name for row in rows for name in row if name != "data")]))

    def apart(some: Sequence[str]) -> int:
        return len({tuple(row.get(name) for name in some) for row in rows})

    kept: list[str] = []
    for name in (*names, "data"):
        if apart([*kept, name]) > apart(kept):
            kept.append(name)
    for name in reversed(kept[:-1]):
        fewer = [other for other in kept if other != name]
        kept = fewer if apart(fewer) == apart(kept) else kept
    return kept


def shown(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "-" if value is None else str(value)


def spelled(fields: Fields) -> str:
    """'memory=200, bfp.weight=3'."""
    usual = {MEMORY: "memory=", DATA: "", "net.name": "net="}
    return ", ".join(usual.get(name, f"{name}=") + shown(value) for name, value in fields)


def short_names(fields: Sequence[str]) -> dict[str, str]:
    """'training.lr' -> 'lr', 'training.schedule.milestones' -> 'milestones', if that is unique."""
    found = {field: SHORT_OF.get(field, field.rpartition(".")[2]) for field in fields}
    count = Counter(found.values())
    return {field: name if count[name] == 1 else field for field, name in found.items()}


def setting_words(row: Mapping[str, Value], told: Sequence[str]) -> str:
    """'Split CIFAR-10, memory=200'."""
    words = []
    for field, name in short_names(told).items():
        value = row.get(field)
        if field == "data":
            words.append(f"data {shown(value)[:6]}")
        elif field == MEMORY and value == 0:
            words.append("no memory")
        elif value is None:  # an option that not all of them have, or that is at its default
            words.append(f"default {name}")
        else:
            words.append(shown(value) if field in (DATA, "net.name") else f"{name}={shown(value)}")
    return ", ".join(words)


def option_title(method: str, row: Mapping[str, Value], told: Sequence[str]) -> str:
    """'DER++ + BFP, γ=0.5, BFP lr=0.1'."""
    known = [field for field in told if row.get(field) is not None]
    words = [f"{option_name(method, field)}={shown(row[field])}" for field in known]
    return ", ".join([title(method), *words])


def option_name(method: str, field: str) -> str:
    """The weight of a method's only added term is called as in its paper: γ."""
    part, _, option = field.partition(".")
    base, *terms = method.split("+")
    name = SYMBOLS.get(part, "γ") if option == "weight" and part != base else option
    own = part == base or (option == "weight" and len(terms) == 1)
    return name if own else f"{title(part)} {name}"
