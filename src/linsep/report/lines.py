"""Lines with bands, the same in all figures: means over seeds, one standard deviation around them,
and the single seeds as dots where there is room for them.

What is drawn and the table beside it come from the same numbers.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..compare import statistics
from ..compare.tables import Table, Value
from .canvas import Axes, Canvas, Figure, Share
from .gather import Block, VariantRuns
from .style import DIM, Look

SPOTS = 30  # of one line, at most
FEW = 4  # lines whose bands can be told apart
ALL_SPOTS = 300  # of one panel, about
DOTS = 400  # single values in one panel, at most
BESIDE = 0.2  # of the smallest step between places: how far dots are moved, variant by variant
Points = Iterable[tuple[float, float]]  # (x, value), of all seeds


@dataclass(frozen=True)
class Point:
    x: float
    mean: float
    std: float | None
    n: int  # how many values it is the mean of
    values: tuple[float, ...] = ()  # these, where each is worth showing


@dataclass(frozen=True)
class Series:
    label: str
    look: Look
    points: Sequence[Point]


Panels = Mapping[str, Sequence[Series]]


def series(label: str, look: Look, found: Points, *, each: bool = True) -> Series | None:
    """A line over x; None without any value. Only finite values count.

    Single values are kept to be drawn too, unless `each` is False.
    """
    values: dict[float, list[float]] = {}
    for x, value in found:
        if math.isfinite(value):
            values.setdefault(x, []).append(value)
    points = [
        Point(x, statistics.mean(v), statistics.std(v), len(v), tuple(v) if each else ())
        for x, v in sorted(values.items())
    ]
    return Series(label, look, points) if points else None


def by_variant(
    block: Block, points: Callable[[VariantRuns], Points], *, each: bool = True
) -> list[Series]:
    """A line for each variant that has any points."""
    drawn = (
        series(variant.label, variant.look, points(variant), each=each)
        for variant in block.variants
    )
    return [line for line in drawn if line]


def plot(
    canvas: Canvas,
    axes: Axes,
    lines: Sequence[Series],
    where: Callable[[float], str],
    *,
    unit: str = "",
    digits: int = 2,
    beside: float = BESIDE,
) -> None:
    """Draw lines into axes; `where` names a place on the x axis in a spot's text: 'task 3'."""
    faint = 0.18 if len(lines) <= FEW else 0.08
    most = max(5, min(SPOTS, ALL_SPOTS // max(1, len(lines))))
    for line in lines:
        xs, means = [p.x for p in line.points], [p.mean for p in line.points]
        stds, look = [p.std or 0.0 for p in line.points], line.look
        marker = look.marker if len(xs) <= SPOTS else ""
        plain = {"color": look.colour, "gid": look.gid}
        axes.plot(xs, means, linestyle=look.dash, label=line.label, marker=marker, **plain)
        if any(stds):
            low, high = ([m + s * std for m, std in zip(means, stds, strict=True)] for s in (-1, 1))
            axes.fill_between(xs, low, high, alpha=faint, linewidth=0, **plain)
        if len(xs) == 1 and stds[0]:
            bars = axes.errorbar(xs, means, yerr=stds[0], color=look.colour, capsize=2)
            for part in bars.get_children():
                part.set_gid(look.gid)
        for p in line.points[:: math.ceil(len(xs) / most)]:
            spread = f" ± {p.std:.{digits}f}" if p.std is not None else ""
            said = f"{line.label}, {where(p.x)}: {p.mean:.{digits}f}{spread}{unit}"
            canvas.spot(axes, p.x, p.mean, said, variant=look.variant)
    if dotted(lines):
        _dots(axes, lines, beside)


def dotted(lines: Sequence[Series]) -> bool:
    """Whether single values are drawn beside the means: there are some, and not too many."""
    points = [p for line in lines for p in line.points]
    several = any(p.n > 1 and p.values for p in points)
    return several and sum(len(p.values) for p in points) <= DOTS


def spread_note(panels: Iterable[Sequence[Series]], over: str = "seeds") -> str:
    """The sentence of a caption about bands and dots; '' if every point is a single value."""
    known = list(panels)
    if not any(p.n > 1 for lines in known for line in lines for p in line.points):
        return ""
    single = "seeds" if over == "seeds" else "values"
    dots = f"; dots are single {single}" if any(map(dotted, known)) else ""
    return f" The band is one standard deviation over {over}{dots}."


def _dots(axes: Axes, lines: Sequence[Series], beside: float) -> None:
    """Single values, each variant's a little beside its means so that they cover no other's."""
    places = sorted({p.x for line in lines for p in line.points})
    step = min((b - a for a, b in pairwise(places)), default=1.0)
    for number, line in enumerate(lines):
        aside = beside * step * ((2 * number + 1) / len(lines) - 1)
        dots = [(p.x + aside, value) for p in line.points if p.n > 1 for value in p.values]
        small = {"alpha": 0.55, "markersize": 3.2, "markeredgewidth": 0, "zorder": 1.8}
        if dots:
            plain = {"color": line.look.colour, "gid": line.look.gid}
            axes.plot(*zip(*dots, strict=True), "o", **plain, **small)


def table(panels: Panels, *, panel: str, x: str, y: str) -> Table:
    """Every point that is drawn, a row each, and the single values if they are drawn too."""
    each = any(map(dotted, panels.values()))
    rows: list[list[Value]] = [
        [name, line.label, float(p.x), p.mean, p.std, p.n,
         *([" ".join(map(repr, p.values))] if each else [])]
        for name, lines in panels.items()
        for line in lines
        for p in line.points
    ]  # fmt: skip
    return Table([panel, "method", x, y, "std", "n", *(["values"] if each else [])], rows)


def lines_figure(
    block: Block,
    kind: str,
    title: str,
    caption: str,
    panels: Panels,
    *,
    panel: str,
    x: str,
    y: str,
    unit: str = "",
    digits: int = 2,
    share: Share = "",
) -> Figure | None:
    """Lines over tasks, a panel for each name; `panel` is what the names are called in the data."""
    known = {shown: lines for shown, lines in panels.items() if lines}
    if not known:
        return None

    def draw() -> Canvas:
        canvas = Canvas("whole", 3.6 + 0.2 * (max(map(len, known.values())) // 4))
        row = canvas.panels(known, share=share)
        for axes, lines in zip(row, known.values(), strict=True):
            plot(canvas, axes, lines, f"{x} {{:g}}".format, unit=unit, digits=digits)
            axes.set_xlabel(x)
            axes.xaxis.get_major_locator().set_params(integer=True)
        row[0].set_ylabel(f"{y},{unit}" if unit else y)
        legend(canvas, row)
        return canvas

    data = table(known, panel=panel, x=x, y=f"{y}{unit}")
    caption += spread_note(known.values())
    return Figure(block.named(kind), block.titled(title), caption, draw, data, "whole")


def legend(canvas: Canvas, axes: Sequence[Axes], columns: int = 6) -> None:
    """Below all panels, each label once."""
    found: dict[str, Any] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    room = int(13 * canvas.drawing.get_figwidth())  # characters of the legend's size
    columns = max(1, min(columns, len(found), room // (max(map(len, found), default=0) + 8)))
    place = {"loc": "outside lower center", "ncols": columns, "handlelength": 2.8}
    made = canvas.drawing.legend(list(found.values()), list(found), **place)
    for drawn, *parts in zip(found.values(), made.get_texts(), made.legend_handles, strict=True):
        if (gid := drawn.get_gid()) is not None:  # a script finds it, and what it stands for
            for part in parts:
                part.set_gid(gid.replace("variant-", "key-"))


def borders(axes: Axes, places: Iterable[float]) -> None:
    """Dashed lines between tasks."""
    for place in places:
        axes.axvline(place, color=DIM, linewidth=0.7, linestyle=(0, (2, 2)), zorder=0.5)


def six(value: float) -> float:
    """To six digits: more cannot be seen, and thousands of them would be long."""
    return float(f"{value:.6g}")


def thinned(n: int, most: int = 40) -> list[int]:
    """Indices of at most about `most` of n places, closer at the start, the last one included."""
    if n <= most:
        return list(range(n))
    return sorted({0, *(round((n - 1) ** (i / (most - 1))) for i in range(most))})
