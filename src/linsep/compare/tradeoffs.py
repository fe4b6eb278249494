"""What is traded for what: accuracy for cost, and stability for plasticity.

    at_equal(comparison, "compute")               groups within 5 % of the dearest variant of each
    at_equal(comparison, "compute", "derpp+bfp")  what costs no more than DER++ + BFP
    tradeoff(comparison)                         metrics over the weight of an added term

Training settings may differ within a group of equal cost, since epochs are a way to spend; so may
the memory's size where bytes are the measure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import ConfigError, unknown
from ..learning.metrics import COSTS, METRICS, PROTOCOLS, REPORTED
from ..settings.catalogue import method_name
from . import variants
from .statistics import mean
from .summaries import BEST, BUDGETS, caption, counted, interval, located, remarks, spread
from .tables import Best, Interval, Table, Value
from .variants import (
    Comparison,
    Fields,
    Variant,
    gained,
    matching,
    ranks,
    setting_words,
    telling,
)

EQUAL = 0.05  # costs that differ by no more than this share count as equal
WITHIN = (
    "listed is what costs at most 5 % more than the budget; difference: Class-IL FAA minus that of "
    "the method of the budget, seed by seed, with its 95 % interval"
)
SHOWN = {"Class-IL FAA": ("class_il", "faa"), "Task-IL FAA": ("task_il", "faa")}


class Spender(NamedTuple):
    """A variant and what it costs; of a variant with several seeds, on average."""

    variant: Variant
    cost: float
    words: str  # the settings it spends by, where they differ: "epochs=20"

    @property
    def title(self) -> str:
        return ", ".join(filter(None, [self.variant.title, self.words]))


class Group(NamedTuple):
    """Variants of equal cost, or within the cost of a rival; the dearest cost is the budget."""

    place: str  # what tells its data, net and memory from those of other groups
    budget: float
    spenders: Sequence[Spender]
    rival: Spender | None = None


def at_equal(
    comparison: Comparison, measure: str, against: str | None = None
) -> tuple[Table, list[str]]:
    """The table, and what a reader should know beside it."""
    if measure not in BUDGETS:
        raise ConfigError(f"--at-equal: {unknown('measure', measure, BUDGETS)}")
    against = against and method_name(against, {v.method for v in comparison.variants})
    blocks = list(_comparable(comparison, measure))
    known = {spender.variant.label for _, spenders in blocks for spender in spenders}
    groups = [g for b in blocks for g in (_within(*b, against) if against else _alike(*b))]
    if not groups:
        who = f"{against} has" if against and known else "these runs have"
        counted = "it is counted in training, so run them again in another folder"
        remedy = "they are measured while a run trains" if measure == "seconds" else counted
        raise ConfigError(f"--at-equal {measure}: {who} no {measure} on record; {remedy}")
    said = [f"{measure}: {COSTS[measure]}; {WITHIN if against else 'a group spans at most 5 %'}"]
    said += remarks(comparison)
    missing = [variant.title for variant in comparison.variants if variant.label not in known]
    said += [f"no {measure} on record, left out: {', '.join(missing)}"] if missing else []
    return _table(comparison, groups, measure), said


def frontier(points: Sequence[tuple[float, float]]) -> list[int]:
    """Which of the points (cost, accuracy) are beaten by none, from the cheapest.

    A point is beaten by one that costs no more and is more accurate, or is as accurate and cheaper.
    """
    order = sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1]))
    found = list[int]()
    for i in order:
        if not found or points[i][1] > points[found[-1]][1] or points[i] == points[found[-1]]:
            found.append(i)
    return found


def _comparable(comparison: Comparison, measure: str) -> Iterator[tuple[str, list[Spender]]]:
    """Variants that share all but what they spend by, with their costs."""
    blocks: dict[Fields, list[Variant]] = {}
    for variant in comparison.variants:
        if variant.summary("cost", measure) is not None:
            fixed = tuple(pair for pair in variant.block if not _spent_by(pair[0], measure))
            blocks.setdefault(fixed, []).append(variant)
    told = telling(map(dict, blocks))
    for fixed, members in sorted(blocks.items(), key=lambda item: ranks(item[0])):
        rows = [{n: v for n, v in a.block if _spent_by(n, measure)} for a in members]
        words = [setting_words(row, telling(rows)) for row in rows]
        spenders = map(Spender, members, _costs(members, measure), words)
        yield setting_words(dict(fixed), told), list(spenders)


def _spent_by(field: str, measure: str) -> bool:
    return field.startswith("training.") or (measure == "bytes" and field == variants.MEMORY)


def _costs(members: Sequence[Variant], measure: str) -> list[float]:
    """What the variants cost; compute relative to fine-tuning with the cheapest training."""
    costs = [mean(list(variant.values("cost", measure).values())) for variant in members]
    if measure != "compute":
        return costs
    images = [float(variant.fact("cost.images") or 0.0) for variant in members]
    unit = min(all_ / times for all_, times in zip(images, costs, strict=True))
    return [all_ / unit for all_ in images]


def _alike(place: str, spenders: Sequence[Spender]) -> list[Group]:
    """From the cheapest; a variant belongs to a group if it costs at least 95 % of the dearest."""
    found: list[list[Spender]] = []
    for one in sorted(spenders, key=lambda spender: -spender.cost):
        if found and one.cost >= (1 - EQUAL) * found[-1][0].cost:
            found[-1].append(one)
        else:
            found.append([one])
    return [Group(place, same[0].cost, same) for same in reversed(found)]


def _within(place: str, spenders: Sequence[Spender], against: str) -> list[Group]:
    """For each variant of a method, what costs no more; of several forms, the dearest."""
    found = []
    for rival in (spender for spender in spenders if spender.variant.method == against):
        dearest = {rival.variant.label: rival}
        for one in sorted(spenders, key=lambda spender: -spender.cost):
            if one.cost <= (1 + EQUAL) * rival.cost:
                dearest.setdefault(one.variant.label, one)
        found.append(Group(place, rival.cost, list(dearest.values()), rival))
    return found


def _table(comparison: Comparison, groups: Sequence[Group], measure: str) -> Table:
    runs, rivals = counted(comparison.variants), any(group.rival for group in groups)
    rows, bounds = list[list[Value]](), list[int]()
    for group in groups:
        for one in sorted(
            group.spenders, key=lambda s: -float(s.variant.fact("class_il.faa") or 0.0)
        ):
            bounds += [len(rows)] if variants.is_bound(one.variant.method) else []
            cost = round(one.cost) if measure == "bytes" else one.cost
            found = [spread(one.variant.summary(*metric)) for metric in SHOWN.values()]
            head: list[Value] = [_budget(group, measure), one.title, len(one.variant.runs), cost]
            rows.append([*head, *found, *([_gap(one, group.rival)] if rivals else [])])
    columns = ["budget", "method", runs, measure, *SHOWN, *["difference"] * rivals]
    spare = [["budget"], [runs], ["Task-IL FAA"]]
    best: dict[str, Best] = dict.fromkeys(SHOWN, "max")
    return Table(columns, rows, caption(comparison), best, "budget", unranked=bounds, spare=spare)


def _accuracy(spender: Spender) -> float:
    return float(spender.variant.fact("class_il.faa") or 0.0)


def _budget(group: Group, measure: str) -> str:
    """'memory=200, up to 4.61 compute'."""
    rival = f" ({group.rival.title})" if group.rival else ""
    amount = f"{group.budget:,.0f}" if measure == "bytes" else f"{group.budget:.2f}"
    return ", ".join(filter(None, [group.place, f"up to {amount} {measure}{rival}"]))


def _gap(one: Spender, rival: Spender | None) -> Interval | None:
    """Class-IL FAA minus the rival's, seed by seed."""
    if rival is None or one is rival:
        return None
    gain = gained(one.variant, rival.variant, "class_il", "faa")
    return interval(gain.mean) if gain else None


# --- over the weight of an added term ------------------------------------------------------------


class Point(NamedTuple):
    """One weight, and the variant that was run with it."""

    weight: float
    variant: Variant


@dataclass(frozen=True)
class Curve:
    """A method over the weights of one of its added terms, in ascending order; the method without
    that term is its weight 0.
    """

    block: Fields
    method: str  # with the term: "derpp+bfp"
    field: str  # that holds the weight: "bfp.weight"
    options: Fields  # others that tell this curve from the next
    points: Sequence[Point]

    @property
    def label(self) -> str:
        return f"{self.method} ({variants.spelled(self.options)})" if self.options else self.method

    @property
    def title(self) -> str:
        """'ER + BFP, BFP init=identity', for people."""
        return variants.option_title(
            self.method, dict(self.options), [name for name, _ in self.options]
        )

    @property
    def weight(self) -> str:
        """The symbol or name of the weight: γ."""
        return variants.option_name(self.method, self.field)

    @property
    def place(self) -> str:
        return self.points[0].variant.place


def tradeoff(comparison: Comparison) -> list[Curve]:
    """One curve for each method that was run with several weights of an added term."""
    groups: dict[tuple[Fields, str, str, Fields], list[Point]] = {}
    for variant in comparison.variants:
        weights = [f"{term}.weight" for term in variant.method.split("+")[1:]]
        for field, weight in variant.options:
            if field in weights and isinstance(weight, int | float):
                others = tuple(pair for pair in variant.options if pair[0] != field)
                points = groups.setdefault((variant.block, variant.method, field, others), [])
                points.append(Point(float(weight), variant))
    curves = []
    for (block, method, field, others), points in groups.items():
        if len(points) < 2:
            continue
        base, *terms = method.split("+")
        without = "+".join([base, *(term for term in terms if f"{term}.weight" != field)])
        plain = matching(comparison.variants, block, without, others)
        if plain is not None and all(point.weight for point in points):
            points.append(Point(0.0, plain))
        points.sort(key=lambda point: point.weight)
        curves.append(Curve(block, method, field, others, points))
    return curves


def curve_table(curves: Sequence[Curve]) -> Table:
    """Mean ± std of every weight, Class-IL first."""
    rows: list[list[Value]] = []
    for protocol in PROTOCOLS:
        for curve in curves:
            place = (
                f"{located(protocol, curve.points[0].variant)}, {curve.title} over {curve.weight}"
            )
            for point in curve.points:
                cells = [spread(point.variant.summary(protocol, metric)) for metric in REPORTED]
                rows.append([place, f"{point.weight:g}", len(point.variant.runs), *cells])
    runs = counted([point.variant for curve in curves for point in curve.points])
    columns = ["protocol", "weight", runs, *(METRICS[metric].title for metric in REPORTED)]
    caption = "Stability and plasticity over the weight of the added term"
    return Table(columns, rows, caption=caption, best=BEST, group="protocol")
