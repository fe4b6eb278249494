"""Does linsep, end to end, give what the authors' program gives? Two one-sided tests (TOST).

Both trained DER++ without and with BFP (equivalence.toml, authors.py). Equal seeds mean nothing
across programs, so accuracy and forgetting are compared by Welch's test. BFP's gain is paired by
seed within a program, and unpaired between the two.

Equivalence within a margin is shown if both one-sided tests reject a difference as large as the
margin: if the 90 % interval lies within it. Until all seeds are in, nothing is decided.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, variance

from linsep.compare.statistics import Summary, summarise
from linsep.learning.metrics import final_average, forgetting
from linsep.storage.store import Store

from .evidence import RESULTS, Runs, Verdict

PROTOCOL = Path(__file__).with_name("equivalence.toml")
FOLDER = RESULTS / "equivalence"  # authors/*.json and linsep/, run folders
MARGIN = 1.5  # percentage points
PLANNED = 8  # seeds of each method and program
LEVEL = 0.05  # of each one-sided test
PLAIN, WITH_BFP = "derpp", "derpp+bfp"
Values = Mapping[int, float]  # by seed


@dataclass(frozen=True)
class Welch:
    """A difference of means, its 90 % interval, and the larger p of the two one-sided tests."""

    mean: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Quantity:
    """What both programs measured, seed by seed."""

    title: str
    theirs: Values
    ours: Values

    @property
    def summaries(self) -> list[Summary | None]:
        both = (self.theirs, self.ours)
        return [summarise(list(values.values())) if values else None for values in both]

    @cached_property
    def difference(self) -> Welch | None:
        """linsep minus the authors' program; None with fewer than two seeds of either."""
        if min(len(self.ours), len(self.theirs)) < 2:
            return None
        return welch(list(self.ours.values()), list(self.theirs.values()))

    @property
    def verdict(self) -> Verdict:
        found = self.difference
        if not self.theirs or not self.ours:
            return "not tested"
        if found is None or min(len(self.ours), len(self.theirs)) < PLANNED:
            return "inconclusive"
        if found.low > -MARGIN and found.high < MARGIN:
            return "supported"
        apart = found.low > MARGIN or found.high < -MARGIN
        return "not supported" if apart else "inconclusive"


def welch(ours: Sequence[float], theirs: Sequence[float], margin: float = MARGIN) -> Welch:
    from scipy.stats import t

    parts = [(variance(side) / len(side), len(side) - 1) for side in (ours, theirs)]
    error = math.sqrt(sum(part for part, _ in parts))
    freedom = error**4 / sum(part**2 / n for part, n in parts)
    gap, half = fmean(ours) - fmean(theirs), t.ppf(1 - LEVEL, freedom) * error
    p = max(t.sf((gap + margin) / error, freedom), t.cdf((gap - margin) / error, freedom))
    return Welch(gap, float(gap - half), float(gap + half), float(p))


def quantities(folder: Path = FOLDER) -> list[Quantity]:
    """Accuracy and forgetting of each method in Class-IL, and the gain from BFP."""
    theirs, ours = authors(folder / "authors"), linsep(folder / "linsep")
    found = [
        Quantity(f"{name}, {metric}", theirs[method, metric], ours[method, metric])
        for method, name in ((PLAIN, "DER++"), (WITH_BFP, "DER++ + BFP"))
        for metric in ("FAA", "FF")
    ]
    return [*found, Quantity("gain from BFP, FAA", _gain(theirs), _gain(ours))]


def authors(folder: Path) -> dict[tuple[str, str], Values]:
    """What studies/authors.py wrote, by method and metric."""
    found: dict[tuple[str, str], dict[int, float]] = _empty()
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        rows = content["class_il"]
        matrix = [[v / 100 for v in row] + [math.nan] * (len(rows) - len(row)) for row in rows]
        for metric, value in (("FAA", final_average(matrix)), ("FF", forgetting(matrix))):
            found[content["method"], metric][content["seed"]] = float(value or 0.0)
    return dict(found)


def linsep(folder: Path) -> dict[tuple[str, str], Values]:
    """What the finished runs of equivalence.toml gave, by method and metric."""
    runs = Runs(Store(folder).records() if folder.exists() else (), PROTOCOL)
    found: dict[tuple[str, str], dict[int, float]] = _empty()
    for settings in runs.parts["programs"]:
        record = runs.run(settings)
        for metric in ("FAA", "FF") if record is not None else ():
            value = record.facts[f"class_il.{metric.lower()}"] if record else None
            found[settings["method"], metric][settings["seed"]] = float(value or 0.0)
    return dict(found)


def _empty() -> dict[tuple[str, str], dict[int, float]]:
    return {(method, metric): {} for method in (PLAIN, WITH_BFP) for metric in ("FAA", "FF")}


def _gain(values: Mapping[tuple[str, str], Values]) -> Values:
    plain, added = values[PLAIN, "FAA"], values[WITH_BFP, "FAA"]
    return {seed: added[seed] - plain[seed] for seed in sorted(plain.keys() & added.keys())}
