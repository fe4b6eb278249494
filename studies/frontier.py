"""Accuracy against cost on the protocol `small`: every sum of parts, on five paired seeds.

A sum is a method of the protocol with the settings of its part. It is compared with a rival seed by
seed: on this page with DER++ + BFP, the paper's best; a way to normalise with the same method as
it is; a head fitted anew with the trained one; a cheaper form of BFP with the whole. Holm's
correction is over all of these tests.

The best sum for the compute of DER++ + BFP was searched for on held-out training images, with the
seeds that chose the protocol. It is the part `chosen` of the protocol, and is compared here on the
test images.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from linsep.compare import tradeoffs
from linsep.compare.naming import is_bound, title
from linsep.compare.statistics import Paired, Summary, holm, paired, summarise
from linsep.settings.layers import flat
from linsep.storage.folder import RunFolder
from linsep.storage.store import Record

from .evidence import SEEDS, Runs

RIVAL, CHOSEN = "derpp+bfp", "chosen"
FRESH, LATER = "shared draw recalibrated", (7, 8, 9, 10, 11)  # a form, and seeds to confirm it
CHEAP_HEAD, FRESH_HEAD = "er+refit", ("refit", "refit, fresh seeds")
BEST, FRESH_BEST = "derpp+fd+ser+refit", ("chosen refit", "chosen refit, fresh seeds")
CHEAP = 0.6  # of the rival's compute, at most, for a form that gets a preset
NORMS = {
    "stream": "BatchNorm by the stream", "recalibrated": "BatchNorm recalibrated",
    "group norm": "GroupNorm", "continual norm": "continual normalisation",
}  # fmt: skip
REFIT = "+refit"
# Parts with a head fitted anew, and those with the same nets and the head that they trained.
HEADS = {
    "refit": "main", "refit recalibrated": "recalibrated", "refit, one draw": "shared draw",
    "refit, fast": "shared draw recalibrated", "refit, group norm": "group norm",
    "refit, sums": "sums", "chosen refit": CHOSEN,
}  # fmt: skip
# On a second data set, which is not on the frontier: parts that are compared, and with which.
ELSEWHERE, WHERE = "cifar100", ", Split CIFAR-100"
ELSEWHERE_NORM, ELSEWHERE_HEAD = "cifar100 recalibrated", "cifar100 refit"
FORMS = {
    "shared draw": "one draw",
    "shared draw recalibrated": "one draw, BatchNorm recalibrated (fast)",
    "every second step": "every second step", "rows": "on {bfp.on} rows only",
    "stored features": "stored features",
}  # fmt: skip
# The parts of the protocol whose runs can be compared here, and what sets them apart.
PARTS = {
    "main": "", "control": " at weight 0", "ablation": "", "without memory": "", "sums": "",
    "aligned": "", CHOSEN: "", "transport": "", "transport, fd": " at weight 3",
    "transport, bfp2": " at weight 3", "transport, more": "",
    **{part: f", {words}" for part, words in (NORMS | FORMS).items()},
}  # fmt: skip
PARTS |= {part: PARTS[trained] for part, trained in HEADS.items()}
# Parts of the protocol, and what sets their sums apart: those of the search, and trained heads
# beside those that are fitted anew, on the same held-out images.
SEARCH = {"search": "", "search recalibrated": ", BatchNorm recalibrated"}
HELD_OUT = {"held-out heads": "", "held-out heads, one draw": ", one draw"}


@dataclass(frozen=True)
class Sum:
    """A method of a part of the protocol and its finished runs, by seed."""

    part: str
    method: str
    words: str  # what sets it apart from the same method in the main comparison
    runs: Mapping[int, Record]

    @property
    def title(self) -> str:
        return title(self.method) + self.words

    @property
    def complete(self) -> bool:
        return set(self.runs) == set(SEEDS)

    @property
    def compute(self) -> float:
        """As a multiple of fine-tuning's."""
        return fmean(self.values("cost.compute").values())

    @property
    def images(self) -> int:
        """That are stored."""
        return int(next(iter(self.runs.values())).facts.get("memory.size") or 0)

    @property
    def kept(self) -> float:
        return fmean(self.values("cost.bytes").values())

    @property
    def newest(self) -> float:
        """Share of the test images that are taken for classes of the last task."""
        return fmean(map(newest, self.runs.values()))

    def values(self, fact: str) -> dict[int, float]:
        return {seed: float(run.facts[fact] or 0.0) for seed, run in self.runs.items()}

    def summary(self, fact: str) -> Summary:
        return summarise(list(self.values(fact).values()))


Contest = tuple[Sum, Sum | None]  # a sum and its rival, if that has been run
Confirmed = tuple[Paired, Paired]  # on seeds that had not been seen, and on all


@dataclass(frozen=True)
class Compared:
    """A sum beside its rival: the paired differences in Class-IL FAA, and p after Holm."""

    one: Sum
    rival: Sum
    pairs: Paired
    chance: float

    @property
    def share(self) -> float:
        """Of the rival's compute."""
        return self.one.compute / self.rival.compute

    @property
    def loses(self) -> bool:
        """Whether its interval excludes that it is as good as the rival."""
        high = self.pairs.difference.high
        return high is not None and high < 0


@dataclass(frozen=True)
class Candidate:
    """A sum and its accuracies on held-out images, by seed."""

    title: str
    faa: Mapping[int, float]
    compute: float

    @property
    def mean(self) -> float:
        return fmean(self.faa.values())


@dataclass(frozen=True)
class Frontier:
    """All sums, those that are complete from the most accurate on, and how they compare."""

    sums: Sequence[Sum]
    missing: Sequence[Sum]
    leading: Sequence[Sum]  # on the frontier, from the cheapest
    against_rival: Sequence[Compared]
    norms: Sequence[Compared]
    heads: Sequence[Compared]
    forms: Sequence[Compared]
    candidates: Sequence[Candidate]  # of the search for the best sum, the best first
    searched: bool  # whether all of them have been judged
    held_out: Sequence[Candidate]  # heads on held-out images
    confirmed: Confirmed | None  # the form that was thought of late
    confirmed_head: Confirmed | None  # a head fitted anew, for ER
    confirmed_cheap: Confirmed | None  # ER with it, beside the rival
    confirmed_best: Confirmed | None  # the best sum with such a head, beside the rival


def frontier(records: Iterable[Record]) -> Frontier:
    runs = Runs(records)
    every = [one for part, words in PARTS.items() for one in _sums(part, words, runs)]
    done = {(one.part, one.method, one.words): one for one in every if one.complete}
    ranked = sorted(done.values(), key=lambda one: -one.summary("class_il.faa").mean)
    rivals = [one for one in ranked if not is_bound(one.method)]
    # A pass of the memory at each task's end is too little to be dearer: costs as they are shown.
    points = [(round(one.compute, 2), one.summary("class_il.faa").mean) for one in rivals]
    main = {one.method: one for one in ranked if one.part == "main"}
    best = main.get(RIVAL)
    contrasts = [(one, best) for one in ranked if best not in (None, one)]
    norms = [(one, main.get(one.method)) for one in ranked if one.part in NORMS]
    norms += _elsewhere(ELSEWHERE_NORM, f", {NORMS['recalibrated']}{WHERE}", runs)
    heads = _heads(done.values()) + _elsewhere(ELSEWHERE_HEAD, WHERE, runs)
    forms = [(one, best) for one in ranked if one.part in FORMS]
    # A form of BFP stands against DER++ + BFP in the first list too: one test, counted once.
    tests = {(id(a), id(b)): (a, b) for a, b in [*contrasts, *norms, *heads] if b}
    found = dict(zip(tests, _compared(list(tests.values())), strict=True))

    def those(pairs: Sequence[Contest]) -> list[Compared]:
        return [found[id(a), id(b)] for a, b in pairs if b is not None]

    return Frontier(
        ranked,
        [one for one in every if not one.complete],
        [rivals[i] for i in tradeoffs.frontier(points)],
        those(contrasts), those(norms), those(heads), those(forms),
        candidates(runs, SEARCH), complete(runs), candidates(runs, HELD_OUT),
        _confirmed(runs, (RIVAL, [FRESH]), (RIVAL, ["main"])),
        _confirmed(runs, (CHEAP_HEAD, FRESH_HEAD), ("er", ["main"])),
        _confirmed(runs, (CHEAP_HEAD, FRESH_HEAD), (RIVAL, ["main"])),
        _confirmed(runs, (BEST, FRESH_BEST), (RIVAL, ["main"])),
    )  # fmt: skip


def newest(record: Record) -> float:
    """Share of a run's test images that are taken for classes of its last task."""
    results = RunFolder(record.folder).results()
    counts = results["confusion"]  # by class, and by the class that was predicted
    last = sum(row[c] for row in counts for c in results["groups"][-1])
    return float(last / sum(map(sum, counts)))


def _heads(done: Collection[Sum]) -> list[Contest]:
    """A head fitted anew beside the trained one; and, with such heads, a sum less each part."""
    trained = {(one.part, one.method): one for one in done}
    fitted = {(one.words, one.method): one for one in done if one.part in HEADS}
    return [
        *((a, trained.get((HEADS[a.part], a.method.removesuffix(REFIT)))) for a in fitted.values()),
        *((a, fitted.get((a.words, less))) for a in fitted.values() for less in _less(a.method)),
    ]


def _less(method: str) -> list[str]:
    """'derpp+bfp+ser+refit' -> ['derpp+ser+refit', 'derpp+bfp+refit']."""
    parts = method.removesuffix(REFIT).split("+")
    kept = (parts[:i] + parts[i + 1 :] for i in range(1, len(parts)))
    return ["+".join(some) + REFIT for some in kept]


def _elsewhere(part: str, words: str, runs: Runs) -> list[Contest]:
    """A part on the second data set, beside the same methods as they are."""
    plain = {one.method: one for one in _sums(ELSEWHERE, WHERE, runs) if one.complete}
    mine = [one for one in _sums(part, words, runs) if one.complete]
    return [(one, plain.get(one.method.removesuffix(REFIT))) for one in mine]


def _confirmed(runs: Runs, *sides: tuple[str, Collection[str]]) -> Confirmed | None:
    """Two methods, each with its parts, on the seeds of `LATER` and on all; None if one lacks."""
    values = []
    for method, parts in sides:
        mine = [s for part in parts for s in runs.parts[part] if s["method"] == method]
        found = {settings["seed"]: runs.run(settings) for settings in mine}
        if None in found.values():
            return None
        values.append({n: float(r.facts["class_il.faa"] or 0.0) for n, r in found.items() if r})
    later = [{seed: side[seed] for seed in LATER} for side in values]
    first, second = paired(later[0], later[1]), paired(values[0], values[1])
    return first, second


def _sums(part: str, words: str, runs: Runs) -> list[Sum]:
    """The sums of a part of the protocol, in its order, with what was run of them."""
    found: dict[tuple[str, str], dict[int, Record]] = {}
    for settings in runs.parts[part]:
        if settings["seed"] not in SEEDS:
            continue
        mine = found.setdefault((settings["method"], _words(words, settings)), {})
        record = runs.run(settings)
        if record is not None and "cost.compute" in record.facts:
            mine[settings["seed"]] = record
    return [Sum(part, method, said, mine) for (method, said), mine in found.items()]


def _words(words: str, settings: Mapping[str, Any]) -> str:
    """'on {bfp.on} rows only' -> 'on stream rows only'."""
    for name, value in flat(settings.get("options", {})).items():
        words = words.replace(f"{{{name}}}", str(value))
    return words


def _compared(tests: Sequence[tuple[Sum, Sum]]) -> list[Compared]:
    sides = [(a.values("class_il.faa"), b.values("class_il.faa")) for a, b in tests]
    pairs = [paired(*both) for both in sides]
    chances = holm([float(pair.p or 0.0) for pair in pairs])
    found = zip(tests, pairs, chances, strict=True)
    return [Compared(*test, pair, chance) for test, pair, chance in found]


def candidates(runs: Runs, parts: Mapping[str, str]) -> list[Candidate]:
    """Those that were run with every seed, the best first; equal ones as the protocol has them."""
    found: dict[str, dict[int, Record | None]] = {}
    for part, words in parts.items():
        for settings in runs.parts[part]:
            mine = found.setdefault(title(settings["method"]) + words, {})
            mine[settings["seed"]] = runs.run(settings)
    made = []
    for name, by_seed in found.items():
        done = {seed: record for seed, record in by_seed.items() if record is not None}
        if len(done) == len(by_seed):
            faa = {seed: _number(record, "class_il.faa") for seed, record in done.items()}
            compute = fmean(_number(record, "cost.compute") for record in done.values())
            made.append(Candidate(name, faa, compute))
    return sorted(made, key=lambda one: -one.mean)


def _number(record: Record, fact: str) -> float:
    return float(record.facts[fact] or 0.0)


def complete(runs: Runs) -> bool:
    """Whether every candidate has been judged."""
    return all(runs.run(settings) is not None for part in SEARCH for settings in runs.parts[part])
