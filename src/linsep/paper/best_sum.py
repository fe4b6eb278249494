"""The search for the best sum that costs no more than DER++ w/ BFP.

Candidates are judged on held-out training images, with the seeds that chose the protocol. The best
one is the part `chosen` of the protocol, and the frontier compares it on the test images.

Knows the protocol and stored runs. Draws nothing and writes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from ..compare.titles import title
from ..storage.store import Record
from .evidence import Runs

# Parts of the protocol, and what sets their sums apart: those of the search, and trained heads
# beside those that are fitted anew, on the same held-out images.
SEARCH = {"search": "", "search re-estimated": ", BatchNorm re-estimated"}
HELD_OUT = {"held-out heads": "", "held-out heads, one draw": ", one draw"}


@dataclass(frozen=True)
class Candidate:
    """A sum and its accuracies on held-out images, by seed."""

    title: str
    faa: Mapping[int, float]
    passes: float

    @property
    def mean(self) -> float:
        return fmean(self.faa.values())


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
            passes = fmean(_number(record, "cost.passes") for record in done.values())
            made.append(Candidate(name, faa, passes))
    return sorted(made, key=lambda one: -one.mean)


def _number(record: Record, fact: str) -> float:
    return float(record.facts[fact] or 0.0)


def complete(runs: Runs) -> bool:
    """Whether every candidate has been judged."""
    return all(runs.run(settings) is not None for part in SEARCH for settings in runs.parts[part])
