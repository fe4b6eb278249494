"""What the page says first: the question, four tiles, what the numbers support, and the results.

Bounds, such as joint training, are compared with and never ranked.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..compare.statistics import EXACT_UP_TO, FEWEST, Summary
from ..compare.summaries import reduced, scale
from ..compare.variants import Gain, Variant, gained, is_bound, title
from ..learning.metrics import METRICS
from ..settings.catalogue import SCENARIOS
from .canvas import clean
from .gather import Block, Key, LoadedRuns, VariantRuns, called

METRIC = "final average accuracy (FAA) in Class-IL"
MOST_PAIRS = 6  # that are spelled out; the table has them all
MEANS = {
    "class_il": "A test image is classified among all classes seen so far.",
    "task_il": "A test image is classified among the classes of its own task, which is given.",
}
Ranked = Sequence[tuple[Variant, Summary]]


def points(value: float) -> str:
    """'+0.67 points', with a minus that is as wide as the plus."""
    return f"{value:+z.2f} points".replace("-", "−")


def versus(gain: Gain) -> str:
    return f"{called(gain.variant)} against {called(gain.against)}"


def seeds(n: int) -> str:
    return f"{n} seeds" if n > 1 else "one seed"


# --- the question and its terms ------------------------------------------------------------------


def question(loaded: LoadedRuns) -> str:
    """'Which method forgets least on fashion-mini?'"""
    variants = loaded.variants
    rivals = [v for v in variants if not is_bound(v.variant.method)] or variants
    methods = {v.variant.method for v in rivals}
    if len({v.label for v in rivals}) == 1:
        asked = f"How much does {rivals[0].label} forget"
    elif len(methods) == 1:
        asked = f"Which setting of {title(methods.pop())} forgets least"
    else:
        asked = "Which method forgets least"
    return clean(f"{asked} on {loaded.scenarios}", 160) + "?"


def byline(loaded: LoadedRuns) -> str:
    """'15 runs, 5 methods, 3 seeds each'."""
    runs, labels = loaded.runs, {variant.label for variant in loaded.variants}
    if len(runs) == 1:
        return f"One run of {loaded.variants[0].label}, seed {runs[0].seed}"
    counts = sorted({len(variant.runs) for variant in loaded.variants})
    each = seeds(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    methods = f"{len(labels)} methods" if len(labels) > 1 else loaded.variants[0].label
    return f"{len(runs)} runs, {methods}, {each} each"


def terms(loaded: LoadedRuns) -> str:
    """At which scale the runs were made, and what the numbers mean."""
    name, said = str(loaded.comparison.common.get("scenario.name")), list[str]()
    if name in SCENARIOS and name not in ("folder", "table", "arrays", "huggingface", "code"):
        said.append(f"{loaded.scenarios} is {SCENARIOS[name].line}.")
    if images := reduced(loaded.comparison):
        said.append(f"Reduced scale: only {images} are used.")
    if parts := scale(loaded.comparison):
        each = "All runs" if len(loaded.runs) > 1 else "The run"
        said.append(f"{each}: {clean(', '.join(parts), 200)}.")
    if any(len(variant.runs) > 1 for variant in loaded.variants):
        said.append(
            "± is the standard deviation over seeds; an interval is Student's 95 % interval of the "
            f"mean, given from {FEWEST} seeds on."
        )
    return " ".join(said)


# --- tiles and sentences -------------------------------------------------------------------------


@dataclass(frozen=True)
class Tile:
    head: str
    value: str
    text: str


@dataclass(frozen=True)
class Answer:
    """The answer about one block: which method is ahead, and what each add-on gains."""

    place: str
    text: str
    tiles: Sequence[Tile]
    points: Sequence[str]  # what else the numbers support


def answers(loaded: LoadedRuns) -> list[Answer]:
    """An answer for each of the first blocks: the highest mean, and what paired tests support."""
    found = [_about(loaded, block) for block in loaded.blocks[:4]]
    return [answer for answer in found if answer.text]


def _about(loaded: LoadedRuns, block: Block) -> Answer:
    known = [(v.variant, s) for v in block.variants if (s := v.variant.summary("class_il", "faa"))]
    rivals = [(variant, s) for variant, s in known if not is_bound(variant.method)]
    ranked = sorted(rivals or known, key=lambda pair: -pair[1].mean)
    bounds = [pair for pair in known if pair not in ranked]
    place = block.settings, "class_il", "faa"
    gains = [
        gain
        for gain in loaded.comparison.gains
        if (gain.variant.block, gain.protocol, gain.metric) == place
    ]
    said = [
        f"{called(variant)}, trained on all data at once, reaches {s} %." for variant, s in bounds
    ]
    among = [{id(gain.variant), id(gain.against)} for gain in gains]
    if (first := _lead(ranked)) and {id(first.variant), id(first.against)} not in among:
        rank = " The two were chosen by rank, which the interval does not account for."
        said.append(_said(first) + (rank if first.mean.interval else ""))
    said += map(_said, gains[:MOST_PAIRS])
    if len(gains) > MOST_PAIRS:
        said.append(f"The table of paired differences has {len(gains) - MOST_PAIRS} more.")
    tiles = list(_tiles(ranked, bounds, gains))[:4] if ranked else []
    return Answer(block.title, " ".join(_ahead(ranked)), tiles, said)


def _tiles(ranked: Ranked, bounds: Ranked, gains: Sequence[Gain]) -> Iterator[Tile]:
    (best, top), *rest = ranked
    head = "Best method" if rest else "Final average accuracy"
    value, more = (called(best), f"{top} % FAA") if rest else (f"{top} %", "")
    about = "final average accuracy in Class-IL, " if not more else "in Class-IL, "
    yield Tile(head, value, f"{more} {about}{seeds(top.n)}".strip())
    for bound, s in bounds[:1]:
        text = f"{called(bound)} sees all data at once and reaches {s.mean:.2f} %"
        yield Tile("Gap to joint training", points(top.mean - s.mean), text)
    if gains:
        yield _effect(gains)
    if cost := best.summary("cost", "compute"):
        text = f"the compute of fine-tuning, for {called(best)}"
        yield Tile("Compute", f"{cost.mean:.2f} ×", text)
    falls = [(v, found) for v, _ in ranked if (found := v.summary("class_il", "ff"))]
    if falls:
        least, fall = min(falls, key=lambda pair: pair[1].mean)
        text = f"{fall} points of final forgetting (FF)"
        if rest:
            yield Tile("Least forgetting", called(least), text)
        else:
            yield Tile("Final forgetting (FF)", f"{fall} points", seeds(fall.n))


def _effect(gains: Sequence[Gain]) -> Tile:
    """What an add-on gains: BFP, if it was run, on the method with which it ends highest."""

    def rank(gain: Gain) -> tuple[bool, float]:
        final = gain.variant.summary("class_il", "faa")
        return gain.added == "bfp", final.mean if final else 0.0

    best = max(gains, key=rank)
    ends, text = best.mean.interval, versus(best)
    if ends is None:
        text += f"; {seeds(best.mean.n)}, too few for an interval"
    else:
        sure = "within noise" if ends[0] <= 0 <= ends[1] else "beyond noise"
        text += f"; 95 % interval {ends[0]:z.2f} to {ends[1]:z.2f}: {sure}"
    effect = " + ".join(map(title, best.added.split("+")))
    return Tile(f"Effect of {effect}", points(best.mean.mean), text)


def _ahead(ranked: Ranked) -> Iterator[str]:
    if not ranked:
        return
    (best, top), *rest = ranked
    found = f"{top} % ({seeds(top.n)})"
    if not rest:
        yield f"{called(best)} reaches a {METRIC} of {found}."
        return
    mean = "mean " if max(s.n for _, s in ranked) > 1 else ""
    gap = _lead(ranked)
    ends = gap.mean.interval if gap else None
    unsure = ", a difference within noise" if ends and ends[0] <= 0 else ""
    yield (
        f"{called(best)} has the highest {mean}{METRIC} of {len(ranked)} methods: {found}; "
        f"next is {called(rest[0][0])} with {rest[0][1]} %{unsure}."
    )
    falls = [(s.mean, v) for v, _ in ranked if (s := v.summary("class_il", "ff"))]
    if len(falls) > 1:
        fall, least = min(falls, key=lambda pair: pair[0])
        who = "It also" if least is best else called(least)
        yield f"{who} forgets least: {fall:.2f} points (FF)."


def _lead(ranked: Ranked) -> Gain | None:
    """The first minus the second, over the seeds that both have."""
    if len(ranked) < 2 or ranked[0][1].n > EXACT_UP_TO:
        return None
    return gained(ranked[0][0], ranked[1][0], "class_il", "faa")


def _said(gain: Gain) -> str:
    start, ends = f"{versus(gain)}: {gain.mean.mean:+z.2f} points", gain.mean.interval
    if ends is None:
        return f"{start} on {seeds(gain.mean.n)}, too few for an interval."
    start += f", 95 % interval {ends[0]:z.2f} to {ends[1]:z.2f} ({gain.mean.n} seeds)"
    if ends[0] <= 0 <= ends[1]:
        return f"{start}: it includes 0, so the difference is within noise."
    return f"{start}: it excludes 0."


# --- the table of results ------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A metric of all variants in one protocol, and the scale on which its cells are drawn."""

    title: str
    scale: tuple[float, float]  # tens that enclose every mean and interval
    better: str
    found: Mapping[Key, Summary]
    best: Collection[Key]  # at two digits; bounds are not ranked

    def at(self, value: float) -> float:
        """Where a value is on the scale, in percent of it."""
        low, high = self.scale
        return round(100 * (min(high, max(low, value)) - low) / (high - low), 1)


def column(loaded: LoadedRuns, protocol: str, metric: str) -> Column:
    about, found, best = METRICS[metric], dict[Key, Summary](), set[Key]()
    for block in loaded.blocks:
        each = [(v.key, v.variant, v.variant.summary(protocol, metric)) for v in block.variants]
        found |= {key: s for key, _, s in each if s}
        rivals = {key: round(s.mean, 2) for key, v, s in each if s and not is_bound(v.method)}
        top = (max if about.better == "max" else min)(rivals.values(), default=None)
        best |= {key for key, mean in rivals.items() if mean == top and len(rivals) > 1}
    ends = [end for s in found.values() for end in (s.mean, *(s.interval or ()))]
    least = min([0.0, *(s.mean for s in found.values())])  # an interval may leave 0 to 100
    low = 10 * math.floor(max(least, min(ends, default=0)) / 10)
    high = 10 * math.ceil(min(100, max(ends, default=1)) / 10)
    better = "higher" if about.better == "max" else "lower"
    title = f"{about.meaning.capitalize()} ({about.title})"
    return Column(title, (low, max(high, low + 10)), better, found, best)


def in_order(block: Block, protocol: str) -> list[VariantRuns]:
    """The variants of a block, the highest accuracy first."""
    found = [(variant.variant.summary(protocol, "faa"), variant) for variant in block.variants]
    return [v for _, v in sorted(found, key=lambda pair: -pair[0].mean if pair[0] else math.inf)]
