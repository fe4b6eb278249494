"""Stability against plasticity: metrics over the weight of an added term.

    curves = tradeoff(compare(records))
    table(curves).to_markdown()

A curve is one method with added terms, over the weights of one of them; the method without that
term is its weight 0. Knows arms and their labels. Knows nothing of files, or of drawing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..learning.metrics import METRICS, REPORTED, SETTINGS
from .arms import Arm, Comparison, Fields, matching, spelled
from .naming import option_name, option_words
from .summaries import BEST, counted, located, spread
from .tables import Table, Value
from .titles import title


class Point(NamedTuple):
    """One weight, and the arm that was run with it."""

    weight: float
    arm: Arm


@dataclass(frozen=True)
class Curve:
    """A method over the weights of one of its terms, in ascending order."""

    block: Fields
    method: str  # with the term: "derpp+bfp"
    field: str  # that holds the weight: "bfp.weight"
    options: Fields  # others that tell this curve from the next
    points: Sequence[Point]

    @property
    def label(self) -> str:
        return f"{self.method} ({spelled(self.options)})" if self.options else self.method

    @property
    def title(self) -> str:
        """'ER w/ BFP, BFP init=identity', for people."""
        words = option_words(self.method, dict(self.options), [name for name, _ in self.options])
        return ", ".join(filter(None, [title(self.method), words]))

    @property
    def weight(self) -> str:
        """What the weight is called: γ."""
        return option_name(self.method, self.field)

    @property
    def place(self) -> str:
        return self.points[0].arm.place


def tradeoff(comparison: Comparison) -> list[Curve]:
    """One curve for each method that was run with several weights of an added term."""
    groups: dict[tuple[Fields, str, str, Fields], list[Point]] = {}
    for arm in comparison.arms:
        weights = [f"{term}.weight" for term in arm.method.split("+")[1:]]
        for field, weight in arm.options:
            if field in weights and isinstance(weight, int | float):
                others = tuple(pair for pair in arm.options if pair[0] != field)
                points = groups.setdefault((arm.block, arm.method, field, others), [])
                points.append(Point(float(weight), arm))
    curves = []
    for (block, method, field, others), points in groups.items():
        if len(points) < 2:
            continue
        base, *terms = method.split("+")
        without = "+".join([base, *(term for term in terms if f"{term}.weight" != field)])
        plain = matching(comparison.arms, block, without, others)
        if plain is not None and all(point.weight for point in points):
            points.append(Point(0.0, plain))
        points.sort(key=lambda point: point.weight)
        curves.append(Curve(block, method, field, others, points))
    return curves


def table(curves: Sequence[Curve]) -> Table:
    """Mean ± std of every weight, Class-IL first."""
    rows: list[list[Value]] = []
    for setting in SETTINGS:
        for curve in curves:
            place = f"{located(setting, curve.place)}, {curve.title} over {curve.weight}"
            for point in curve.points:
                cells = [spread(point.arm.summary(setting, metric)) for metric in REPORTED]
                rows.append([place, f"{point.weight:g}", len(point.arm.runs), *cells])
    runs = counted([point.arm for curve in curves for point in curve.points])
    columns = ["setting", "weight", runs, *(METRICS[metric].title for metric in REPORTED)]
    caption = "Stability and plasticity over the weight of the added term"
    return Table(columns, rows, caption=caption, best=BEST, group="setting")
