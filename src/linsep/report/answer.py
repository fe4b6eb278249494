"""What the page says first: the question, four tiles, what the numbers support, and the results.

Bounds, such as joint training, are compared with and never ranked. Fewer than three seeds give no
interval, and that of an accuracy ends at 0 and 100.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ..compare.statistics import EXACT_UP_TO, Summary, paired
from ..compare.variants import Estimate, Variant, is_bound, title
from ..learning.metrics import METRICS, REPORTED
from ..settings.catalogue import NETS, SCENARIOS
from .canvas import clean
from .gather import Block, Key, LoadedRuns, VariantRuns, called

METRIC = "final average accuracy (FAA) in Class-IL"
ENOUGH = 3  # seeds, below which an interval says nothing
MOST_PAIRS = 6  # that are spelled out; the table has them all
MEANS = {
    "class_il": "A test image is classified among all classes seen so far.",
    "task_il": "A test image is classified among the classes of its own task, which is given.",
}
Ranked = Sequence[tuple[Variant, Summary]]


def interval(found: Summary, *, share: bool = False) -> tuple[float, float] | None:
    """The 95 % interval of a mean, if there are enough seeds; of a `share` within 0 and 100."""
    if found.low is None or found.high is None or found.n < ENOUGH:
        return None
    least, most = (min(0.0, found.mean), 100.0) if share else (-math.inf, math.inf)
    return max(least, found.low), min(most, found.high)


def spread(found: Summary) -> str:
    return f"{found.mean:z.2f}" + (f" ± {found.std:.2f}" if found.std is not None else "")


def points(value: float) -> str:
    """'+0.67 points', with a minus that is as wide as the plus."""
    return f"{value:+z.2f} points".replace("-", "−")


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
    shared = loaded.comparison.common
    name, data, said = str(shared.get("scenario.name")), loaded.scenarios, []
    if name in SCENARIOS and name not in ("folder", "table", "arrays", "huggingface", "code"):
        said.append(f"{data} is {SCENARIOS[name].line}.")
    if images := shared.get("scenario.per_class"):
        said.append(f"Reduced scale: only {images} training images of each class are used.")
    scale = []
    if net := shared.get("net.name"):
        width = f" of width {shared['net.width']}" if "net.width" in shared else ""
        scale.append(f"{NETS[str(net)].title if net in NETS else net}{width}")
    if epochs := shared.get("training.epochs"):
        scale.append(f"{epochs} epoch{'s' if epochs != 1 else ''} per task")
    sizes = {run.record.facts.get("memory.size") for run in loaded.runs} - {0, None}
    if len(sizes) == 1:
        scale.append(f"a memory of {sizes.pop()} samples")
    if scale:
        each = "All runs" if len(loaded.runs) > 1 else "The run"
        said.append(f"{each}: {clean(', '.join(scale), 200)}.")
    if any(len(variant.runs) > 1 for variant in loaded.variants):
        said.append(
            "± is the standard deviation over seeds; an interval is Student's 95 % interval of the "
            f"mean, given from {ENOUGH} seeds on."
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
    every = [e for e in chain(*loaded.comparison.estimates) if e.variant.block == block.settings]
    faa = [e for e in every if (e.protocol, e.metric) == ("class_il", "faa")]
    known = [(e.variant, e.summary) for e in faa if e.summary is not None]
    rivals = [(variant, s) for variant, s in known if not is_bound(variant.method)]
    ranked = sorted(rivals or known, key=lambda pair: -pair[1].mean)
    bounds = [(variant, s) for variant, s in known if is_bound(variant.method)] if rivals else []
    pairs = [e for e in faa if e.pairs is not None]
    said = [
        f"{called(variant)}, trained on all data at once, reaches {spread(s)} %."
        for variant, s in bounds
    ]
    against = [{id(e.variant), id(e.against)} for e in pairs]
    first = [variant for variant, _ in ranked[:2]]
    if len(first) > 1 and set(map(id, first)) not in against and (gap := _gap(*first)):
        rank = " The two were chosen by rank, which the interval does not account for."
        said.append(_said(first[0], first[1], gap) + (rank if interval(gap) else ""))
    gains = [
        _said(e.variant, e.against, e.pairs.difference) for e in pairs if e.against and e.pairs
    ]
    said += gains[:MOST_PAIRS]
    if len(gains) > MOST_PAIRS:
        said.append(f"The table of paired differences has {len(gains) - MOST_PAIRS} more.")
    tiles = list(_tiles(ranked, bounds, pairs))[:4] if ranked else []
    return Answer(block.title, " ".join(_ahead(ranked)), tiles, said)


def _tiles(ranked: Ranked, bounds: Ranked, pairs: Sequence[Estimate]) -> Iterator[Tile]:
    (best, top), *rest = ranked
    head = "Best method" if rest else "Final average accuracy"
    value, more = (called(best), f"{spread(top)} % FAA") if rest else (f"{spread(top)} %", "")
    about = "final average accuracy in Class-IL, " if not more else "in Class-IL, "
    yield Tile(head, value, f"{more} {about}{seeds(top.n)}".strip())
    for bound, s in bounds[:1]:
        text = f"{called(bound)} sees all data at once and reaches {s.mean:.2f} %"
        yield Tile("Gap to joint training", points(top.mean - s.mean), text)
    if pairs:
        yield _effect(pairs)
    if cost := best.summary("cost", "compute"):
        text = f"the compute of fine-tuning, for {called(best)}"
        yield Tile("Compute", f"{cost.mean:.2f} ×", text)
    falls = [(v, found) for v, _ in ranked if (found := v.summary("class_il", "ff"))]
    if falls:
        least, fall = min(falls, key=lambda pair: pair[1].mean)
        text = f"{spread(fall)} points of final forgetting (FF)"
        if rest:
            yield Tile("Least forgetting", called(least), text)
        else:
            yield Tile("Final forgetting (FF)", f"{spread(fall)} points", seeds(fall.n))


def _effect(pairs: Sequence[Estimate]) -> Tile:
    """What an add-on gains: BFP, if it was run, on the method with which it ends highest."""

    def added(estimate: Estimate) -> str:
        rival = estimate.against.method if estimate.against else ""
        return estimate.variant.method.removeprefix(rival).lstrip("+")

    def rank(estimate: Estimate) -> tuple[bool, float]:
        return added(estimate) == "bfp", estimate.summary.mean if estimate.summary else 0.0

    best = max(pairs, key=rank)
    assert best.pairs is not None
    assert best.against is not None
    gap = best.pairs.difference
    ends, versus = interval(gap), f"{called(best.variant)} against {called(best.against)}"
    if ends is None:
        text = f"{versus}; {seeds(gap.n)}, too few for an interval"
    else:
        sure = "within noise" if ends[0] <= 0 <= ends[1] else "beyond noise"
        text = f"{versus}; 95 % interval {ends[0]:z.2f} to {ends[1]:z.2f}: {sure}"
    effect = " + ".join(map(title, added(best).split("+")))
    return Tile(f"Effect of {effect}", points(gap.mean), text)


def _ahead(ranked: Ranked) -> Iterator[str]:
    if not ranked:
        return
    (best, top), *rest = ranked
    found = f"{spread(top)} % ({seeds(top.n)})"
    if not rest:
        yield f"{called(best)} reaches a {METRIC} of {found}."
        return
    mean = "mean " if max(s.n for _, s in ranked) > 1 else ""
    gap = _gap(best, rest[0][0])
    ends = interval(gap) if gap else None
    unsure = ", which these seeds do not tell apart from it" if ends and ends[0] <= 0 else ""
    yield (
        f"{called(best)} has the highest {mean}{METRIC} of {len(ranked)} methods: {found}; "
        f"next is {called(rest[0][0])} with {spread(rest[0][1])} %{unsure}."
    )
    falls = [(s.mean, v) for v, _ in ranked if (s := v.summary("class_il", "ff"))]
    if len(falls) > 1:
        fall, least = min(falls, key=lambda pair: pair[0])
        who = "It also" if least is best else called(least)
        yield f"{who} forgets least: {fall:.2f} points (FF)."


def _gap(best: Variant, second: Variant) -> Summary | None:
    """The difference of two variants over the seeds that both have."""
    mine, theirs = (variant.values("class_il", "faa") for variant in (best, second))
    if mine.keys() & theirs.keys() and len(mine) <= EXACT_UP_TO:
        return paired(mine, theirs).difference
    return None


def _said(variant: Variant, against: Variant, gap: Summary) -> str:
    start = f"{called(variant)} against {called(against)}: {gap.mean:+z.2f} points"
    ends = interval(gap)
    if ends is None:
        return f"{start} on {seeds(gap.n)}, too few for an interval."
    start += f", 95 % interval {ends[0]:z.2f} to {ends[1]:z.2f} ({gap.n} seeds)"
    if ends[0] <= 0 <= ends[1]:
        return f"{start}: it includes 0, so these seeds do not tell the two apart."
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
        return round(100 * (value - low) / (high - low), 1)


def columns(loaded: LoadedRuns, protocol: str) -> list[Column]:
    return [_column(loaded, protocol, metric) for metric in REPORTED]


def _column(loaded: LoadedRuns, protocol: str, metric: str) -> Column:
    about, found, best = METRICS[metric], dict[Key, Summary](), set[Key]()
    for block in loaded.blocks:
        each = [(v.key, v.variant, v.variant.summary(protocol, metric)) for v in block.variants]
        found |= {key: s for key, _, s in each if s}
        rivals = {key: round(s.mean, 2) for key, v, s in each if s and not is_bound(v.method)}
        top = (max if about.better == "max" else min)(rivals.values(), default=None)
        best |= {key for key, mean in rivals.items() if mean == top and len(rivals) > 1}
    ends = [e for s in found.values() for e in (s.mean, *(interval(s, share=True) or ()))]
    low, high = (
        10 * math.floor(min(ends, default=0) / 10),
        10 * math.ceil(max(ends, default=1) / 10),
    )
    better = "higher" if about.better == "max" else "lower"
    title = f"{about.meaning.capitalize()} ({about.title})"
    return Column(title, (low, max(high, low + 10)), better, found, best)


def in_order(block: Block, protocol: str) -> list[VariantRuns]:
    """The variants of a block, the highest accuracy first."""
    found = [(variant.variant.summary(protocol, "faa"), variant) for variant in block.variants]
    return [v for _, v in sorted(found, key=lambda pair: -pair[0].mean if pair[0] else math.inf)]
