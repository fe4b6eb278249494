"""Accuracy against cost on the protocol `small`: every combination, on five paired seeds.

A combination is a method with its add-ons, with the settings of its part of the protocol. It is
compared with a rival seed by seed: with DER++ + BFP, the paper's best; a way to normalise with the
same method as it is; a re-trained head with the trained one; a cheaper form of BFP with the whole.
These comparisons describe. What they suggested was then tested on seeds on which it had not been
run (`CONFIRMED`), and Holm's correction is over those tests.

The best combination for the compute of DER++ + BFP was searched for on held-out training images,
with the seeds that chose the protocol. It is the part `chosen` of the protocol, and is compared
here on the test images.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from linsep.compare import tradeoffs
from linsep.compare.statistics import Summary, holm, paired, summarise
from linsep.compare.variants import is_bound, title
from linsep.errors import ConfigError
from linsep.settings.layers import flat
from linsep.storage.folder import RunFolder
from linsep.storage.store import Record

from .evidence import SEEDS, Runs

RIVAL, CHOSEN, FAST = "derpp+bfp", "chosen", "shared batch recalibrated"
CHEAP = 0.6  # of the rival's compute, at most, for a form that gets a preset
LATER = (7, 8, 9, 10, 11)  # seeds on which what is tested had not been run
# What is tested on them: a method and the parts with its runs, and another.
CONFIRMED = (
    (("er+refit", ("refit", "refit, fresh seeds")), ("er", ("main",))),
    (("er+refit", ("refit", "refit, fresh seeds")), (RIVAL, ("main",))),
    (("derpp+fd+ser+refit", ("chosen refit", "chosen refit, fresh seeds")), (RIVAL, ("main",))),
    ((RIVAL, (FAST,)), (RIVAL, ("main",))),
)
NORMS = {
    "stream": "BatchNorm by the current task", "recalibrated": "BatchNorm recalibrated",
    "group norm": "GroupNorm", "continual norm": "continual normalisation",
}  # fmt: skip
REFIT = "+refit"
# Parts with a re-trained head, and those with the same nets and the head that they trained.
HEADS = {
    "refit": "main", "refit recalibrated": "recalibrated", "refit, one batch": "shared batch",
    "refit, fast": FAST, "refit, group norm": "group norm", "refit, sums": "sums",
    "chosen refit": CHOSEN,
}  # fmt: skip
# On a second data set, which is not on the frontier: parts that are compared, and with which.
ELSEWHERE, WHERE = "cifar100", ", Split CIFAR-100"
FORMS = {
    "shared batch": "one replay batch",
    FAST: "one replay batch, BatchNorm recalibrated (fast)",
    "every second step": "every second step", "rows": "on {bfp.on} samples only",
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
# On held-out images: the candidates of the search, and trained beside re-trained heads.
SEARCH = {"search": "", "search recalibrated": ", BatchNorm recalibrated"}
HELD_OUT = {"held-out heads": "", "held-out heads, one batch": ", one replay batch"}


@dataclass(frozen=True, eq=False)
class Combination:
    """A method of a part of the protocol and its finished runs, by seed."""

    part: str
    method: str
    words: str  # what sets it apart from the same method in the main comparison
    runs: Mapping[int, Record]

    @property
    def label(self) -> str:
        return title(self.method)

    @property
    def title(self) -> str:
        return self.label + self.words

    @property
    def base(self) -> str:
        return self.method.partition("+")[0]

    @property
    def head(self) -> str:
        """The add-on that replaces the trained head, if one does."""
        last = self.method.rpartition("+")[2]
        return last if last in ("refit", "transport") else ""

    @cached_property
    def faa(self) -> Summary:
        return self.summary("class_il.faa")

    @cached_property
    def compute(self) -> float:
        """As a multiple of fine-tuning's."""
        return self.summary("cost.compute").mean

    @property
    def images(self) -> int:
        """That are stored."""
        return int(next(iter(self.runs.values())).facts.get("memory.size") or 0)

    @cached_property
    def newest(self) -> float:
        """Share of the test images that are taken for classes of the last task."""
        return fmean(map(newest, self.runs.values()))

    def values(self, fact: str) -> dict[int, float]:
        return {seed: float(run.facts[fact] or 0.0) for seed, run in self.runs.items()}

    def summary(self, fact: str) -> Summary:
        return summarise(list(self.values(fact).values()))


@dataclass(frozen=True)
class Compared:
    """A combination beside its rival, and the paired differences in Class-IL FAA."""

    one: Combination
    rival: Combination

    @cached_property
    def gap(self) -> Summary:
        one, rival = (side.values("class_il.faa") for side in (self.one, self.rival))
        return paired(one, rival).difference

    @property
    def share(self) -> float:
        """Of the rival's compute."""
        return self.one.compute / self.rival.compute


@dataclass(frozen=True)
class Confirmed:
    """Two methods on fresh seeds, with p after Holm's correction, and on all seeds."""

    title: str
    later: Summary
    chance: float
    every: Summary


@dataclass(frozen=True)
class Candidate:
    """A combination and its accuracies on held-out images, by seed."""

    title: str
    faa: Mapping[int, float]
    compute: float

    @property
    def mean(self) -> float:
        return fmean(self.faa.values())


@dataclass(frozen=True)
class Frontier:
    """All combinations whose five seeds are there, the most accurate first, and comparisons."""

    combinations: Sequence[Combination]
    missing: Sequence[Combination]
    leading: Sequence[Combination]  # on the frontier, from the cheapest
    against_rival: Sequence[Compared]
    norms: Sequence[Compared]
    heads: Sequence[Compared]
    forms: Sequence[Compared]
    confirmed: Sequence[Confirmed]
    candidates: Sequence[Candidate]  # of the search, the best first
    held_out: Sequence[Candidate]  # heads on held-out images, the best first

    def find(self, part: str, method: str) -> Combination:
        for one in self.combinations:
            if (one.part, one.method) == (part, method):
                return one
        raise ConfigError(f"{method} has not been run on all seeds of the part {part!r}")


def frontier(records: Iterable[Record]) -> Frontier:
    runs = Runs(records)
    every = [one for part, words in PARTS.items() for one in _combinations(part, words, runs)]
    ranked = sorted((c for c in every if len(c.runs) == len(SEEDS)), key=lambda c: -c.faa.mean)
    rivals = [one for one in ranked if not is_bound(one.method)]
    # A pass of the memory at each task's end is too little to be dearer: costs as they are shown.
    points = [(round(one.compute, 2), one.faa.mean) for one in rivals]
    main = {one.method: one for one in ranked if one.part == "main"}
    best = main.get(RIVAL)
    norms = [(one, main.get(one.method)) for one in ranked if one.part in NORMS]
    recalibrated = f", {NORMS['recalibrated']}{WHERE}"
    return Frontier(
        combinations=ranked,
        missing=[one for one in every if one not in ranked],
        leading=[rivals[i] for i in tradeoffs.frontier(points)],
        against_rival=_compared([(one, best) for one in ranked if one is not best]),
        norms=_compared([*norms, *_elsewhere("cifar100 recalibrated", recalibrated, runs)]),
        heads=_compared([*_heads(ranked), *_elsewhere("cifar100 refit", WHERE, runs)]),
        forms=_compared([(one, best) for one in ranked if one.part in FORMS]),
        confirmed=_confirmed(runs),
        candidates=_candidates(runs, SEARCH),
        held_out=_candidates(runs, HELD_OUT),
    )


def newest(record: Record) -> float:
    """Share of a run's test images that are taken for classes of its last task."""
    results = RunFolder(record.folder).results()
    counts = results["confusion"]  # by class, and by the class that was predicted
    last = sum(row[c] for row in counts for c in results["groups"][-1])
    return float(last / sum(map(sum, counts)))


def _compared(pairs: Iterable[tuple[Combination, Combination | None]]) -> list[Compared]:
    return [Compared(one, rival) for one, rival in pairs if rival is not None]


def _heads(done: Collection[Combination]) -> list[tuple[Combination, Combination | None]]:
    """A re-trained head beside the trained one; and, with both re-trained, less each part."""
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


def _elsewhere(part: str, words: str, runs: Runs) -> list[tuple[Combination, Combination | None]]:
    """A part on the second data set, beside the same methods as they are."""
    plain, mine = (
        [one for one in _combinations(name, said, runs) if len(one.runs) == len(SEEDS)]
        for name, said in ((ELSEWHERE, WHERE), (part, words))
    )
    known = {one.method: one for one in plain}
    return [(one, known.get(one.method.removesuffix(REFIT))) for one in mine]


def _confirmed(runs: Runs) -> list[Confirmed]:
    """The tests on fresh seeds whose runs are all there."""
    titles, later, every = [], [], []
    for sides in CONFIRMED:
        values = [_faa(runs, method, parts) for method, parts in sides]
        if all(set(LATER) <= side.keys() for side in values):
            one, other = (title(method) for method, _ in sides)
            titles.append(f"{one} − {other}" if one != other else f"preset fast − {other}")
            fresh = [{seed: side[seed] for seed in LATER} for side in values]
            later.append(paired(fresh[0], fresh[1]))
            every.append(paired(values[0], values[1]))
    chances = holm([float(pairs.p or 0.0) for pairs in later])
    found = zip(titles, later, chances, every, strict=True)
    return [Confirmed(name, a.difference, p, b.difference) for name, a, p, b in found]


def _faa(runs: Runs, method: str, parts: Collection[str]) -> dict[int, float]:
    wanted = [s for part in parts for s in runs.parts[part] if s["method"] == method]
    found = {settings["seed"]: runs.run(settings) for settings in wanted}
    return {seed: float(r.facts["class_il.faa"] or 0.0) for seed, r in found.items() if r}


def _combinations(part: str, words: str, runs: Runs) -> list[Combination]:
    """The combinations of a part of the protocol, in its order, with what was run of them."""
    found: dict[tuple[str, str], dict[int, Record]] = {}
    for settings in runs.parts[part]:
        if settings["seed"] not in SEEDS:
            continue
        mine = found.setdefault((settings["method"], _words(words, settings)), {})
        record = runs.run(settings)
        if record is not None and "cost.compute" in record.facts:
            mine[settings["seed"]] = record
    return [Combination(part, method, said, mine) for (method, said), mine in found.items()]


def _words(words: str, settings: Mapping[str, Any]) -> str:
    """'on {bfp.on} samples only' -> 'on stream samples only'."""
    for name, value in flat(settings.get("options", {})).items():
        words = words.replace(f"{{{name}}}", str(value))
    return words.replace("stream", "current-task")


def _candidates(runs: Runs, parts: Mapping[str, str]) -> list[Candidate]:
    """Those that were run with every seed, the best first; equal ones as the protocol has them."""
    found: dict[str, dict[int, Record | None]] = {}
    for part, words in parts.items():
        for settings in runs.parts[part]:
            mine = found.setdefault(title(settings["method"]) + words, {})
            mine[settings["seed"]] = runs.run(settings)
    made = []
    for name, by_seed in found.items():
        done = {seed: record.facts for seed, record in by_seed.items() if record is not None}
        if len(done) == len(by_seed):
            faa = {seed: float(facts["class_il.faa"] or 0.0) for seed, facts in done.items()}
            compute = fmean(float(facts["cost.compute"] or 0.0) for facts in done.values())
            made.append(Candidate(name, faa, compute))
    return sorted(made, key=lambda one: -one.mean)
