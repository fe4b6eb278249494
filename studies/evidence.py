"""What finished runs say about each claim: paired differences, intervals and a verdict.

A run belongs to the protocol if its key is that of the protocol's settings with the data it
was made on, so nothing that was made with other settings, data or code can slip in.

A test whose 95 % interval excludes an effect of one percentage point in the claimed direction
counts against its claim, or supports it in part if it also excludes zero. Otherwise a test supports
its claim if the difference has the claimed sign and is significant: p below 0.05 after Holm's
correction over its family, or, for tests that only describe, an interval on one side of zero. "Not
higher" is supported if the interval excludes a gain of a point. Where every method is at the floor,
a test is inconclusive whatever it gives.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

from linsep.analysis.analyse import stored
from linsep.compare.statistics import Paired, holm, paired
from linsep.errors import ConfigError
from linsep.grids.plan import expand, in_parts
from linsep.paper.tables import at
from linsep.prepare import key
from linsep.resolve import resolve
from linsep.settings.config import from_settings
from linsep.settings.layers import flat, read
from linsep.storage.store import Record

from .claims import POINT, Claim, Contrast, Family, Side

Verdict = Literal["supported", "partly supported", "not supported", "inconclusive", "not tested"]
SIGNIFICANT = 0.05
FEWEST = 3  # pairs below which nothing is decided
PROTOCOL = Path(__file__).with_name("small.toml")
RESULTS = Path(__file__).parents[1] / "results"
SEEDS = (2, 3, 4, 5, 6)  # those that every method of the protocol has
Pair = tuple[int, int]  # what two runs that belong together share: seed and class order


@dataclass(frozen=True)
class Outcome:
    """A test and what the runs gave. `pairs` is None where no two runs belong together."""

    contrast: Contrast
    expected: int  # pairs that the protocol asks for
    pairs: Paired | None
    chance: float | None  # p of the paired t-test after Holm's correction
    printed: float | None  # the paper's own difference, from its printed means
    verdict: Verdict

    @property
    def decided(self) -> bool:
        """Whether all of its pairs are there."""
        return self.pairs is not None and self.pairs.difference.n >= max(FEWEST, self.expected)


@dataclass(frozen=True)
class Finding:
    claim: Claim
    outcomes: tuple[Outcome, ...]

    @property
    def verdict(self) -> Verdict:
        """That of all tests; "partly supported" if only some of them support the claim."""
        verdicts = {outcome.verdict for outcome in self.outcomes}
        if len(verdicts) == 1:
            return verdicts.pop()
        if verdicts & {"supported", "partly supported"}:
            return "partly supported"
        return "not supported" if "not supported" in verdicts else "inconclusive"


def findings(claims: Sequence[Claim], records: Iterable[Record]) -> list[Finding]:
    """Decide every claim by the runs there are."""
    runs = Runs(records)
    contrasts = [contrast for claim in claims for contrast in claim.contrasts]
    sides = [runs.sides(contrast) for contrast in contrasts]
    there = [i for i, (a, b) in enumerate(sides) if a.keys() & b.keys()]
    pairs = {i: paired(*sides[i]) for i in there}
    claim_of = [claim for claim in claims for _ in claim.contrasts]
    chances: dict[int, float] = {}
    for family in get_args(Family):
        tested = [i for i in there if claim_of[i].family == family and pairs[i].p is not None]
        chances |= zip(tested, holm([float(pairs[i].p or 0.0) for i in tested]), strict=True)
    outcomes = iter(
        _outcome(claim_of[i], contrast, runs.expected(contrast), pairs.get(i), chances.get(i))
        for i, contrast in enumerate(contrasts)
    )
    return [Finding(claim, tuple(next(outcomes) for _ in claim.contrasts)) for claim in claims]


class Runs:
    """The finished runs that belong to the protocol, and what the protocol asks for."""

    def __init__(self, records: Iterable[Record], file: Path = PROTOCOL) -> None:
        self._by_key = {str(r.facts["key"]): r for r in records if r.finished}
        self._data = {str(record.facts["data"]) for record in self._by_key.values()}
        self.parts = {name: expand(grid) for name, grid in protocol(file).items()}

    def wanted(self, side: Side) -> list[dict[str, Any]]:
        """The settings of every run that the protocol has on this side."""
        own = {"method": side.method, **side.fields}
        found = []
        for settings in self.parts[side.part]:
            known = flat(settings) | flat(settings.get("options", {}))
            if all(known.get(name) == value for name, value in own.items()):
                found.append(settings)
        if not found:
            raise ConfigError(f"the protocol has no run of {side.method} in {side.part!r}")
        return found

    def expected(self, contrast: Contrast) -> int:
        """The number of pairs that the protocol has for a test."""
        sides = (self.wanted(contrast.variant), self.wanted(contrast.against))
        pairs = set.intersection(*({_pair(settings) for settings in side} for side in sides))
        return len([pair for pair in pairs if pair[0] not in contrast.without])

    def sides(self, contrast: Contrast) -> tuple[dict[Pair, float], dict[Pair, float]]:
        """What was measured on either side of a test."""
        variant, against = (
            {pair: v for pair, v in found.items() if pair[0] not in contrast.without}
            for found in (
                self.values(contrast.variant, contrast.measure),
                self.values(contrast.against, contrast.measure),
            )
        )
        return variant, against

    def run(self, settings: Mapping[str, Any]) -> Record | None:
        """The finished run with these settings, on whichever data it was made."""
        config = resolve(from_settings(settings), lenient=True, here=False)
        keys = (key(config, data) for data in self._data)
        return next((self._by_key[one] for one in keys if one in self._by_key), None)

    def values(self, side: Side, measure: str) -> dict[Pair, float]:
        found = {}
        for settings in self.wanted(side):
            record = self.run(settings)
            value = None if record is None else measured(record, measure)
            if value is not None:
                found[_pair(settings)] = value
        return found

    def counts(self) -> dict[str, tuple[int, int]]:
        """How many runs of each part there are, and how many the protocol asks for."""
        return {
            name: (sum(self.run(settings) is not None for settings in every), len(every))
            for name, every in self.parts.items()
        }


def protocol(file: Path = PROTOCOL) -> dict[str, dict[str, Any]]:
    """The parts of the protocol, by name, as settings of a grid."""
    content = read(file)
    names = [str(part["part"]) for part in content["parts"]]
    return dict(zip(names, in_parts(content), strict=True))


def measured(record: Record, measure: str) -> float | None:
    """A metric of a run or a value of one of its stored analyses; None if it has none."""
    kind, _, what = measure.partition(".")
    if kind not in ("probe", "cka"):
        value = record.facts.get(measure)
        return None if value is None else float(value)
    content = stored(record.folder, kind)
    if content is None:
        return None
    if kind == "probe":
        return fmean(100 * one["accuracy"] for one in content["final"] if one["portion"] == 1)
    return fmean(100 * task[what]["centred"] for task in content["tasks"])


def _pair(settings: Mapping[str, Any]) -> Pair:
    return settings["seed"], settings.get("scenario", {}).get("order_seed", 0)


def _outcome(
    claim: Claim, contrast: Contrast, expected: int, pairs: Paired | None, chance: float | None
) -> Outcome:
    verdict = verdict_on(contrast, expected, pairs, chance, described=claim.family is None)
    if claim.floor and verdict != "not tested":
        verdict = "inconclusive"
    return Outcome(contrast, expected, pairs, chance, _printed(contrast), verdict)


def _printed(contrast: Contrast) -> float | None:
    if contrast.printed is None:
        return None
    try:
        variant, against = (at(place).mean for place in contrast.printed)
    except ConfigError:  # the paper does not print one of them
        return None
    return variant - against


def verdict_on(
    contrast: Contrast,
    expected: int,
    pairs: Paired | None,
    chance: float | None,
    *,
    described: bool = False,
) -> Verdict:
    """Judge one test. Before all of its pairs are there, nothing is decided."""
    if pairs is None:
        return "not tested"
    gap = pairs.difference
    if gap.n < max(FEWEST, expected) or gap.low is None or gap.high is None:
        return "inconclusive"
    apart = gap.low > 0 or gap.high < 0
    significant = apart if described else chance is not None and chance < SIGNIFICANT
    if contrast.wanted == "not higher":
        if gap.high < POINT:
            return "supported"
        return "not supported" if gap.low > 0 and significant else "inconclusive"
    worst, best = (gap.low, gap.high) if contrast.wanted == "higher" else (-gap.high, -gap.low)
    if best < POINT:
        return "partly supported" if worst > 0 else "not supported"
    return "supported" if worst + best > 0 and significant else "inconclusive"
