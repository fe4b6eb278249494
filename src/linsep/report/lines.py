"""Lines and dots, the same in all figures: means over seeds, one standard deviation around them,
and single seeds as dots where there is room. Drawing and table come from the same numbers.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..compare import statistics
from ..compare.tables import Table, Value
from .canvas import DIM, Axes, Canvas, Figure, Look, Share, whisker
from .gather import Block, VariantRuns

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
Text = Callable[[Point], str]


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
    drawn = (series(v.label, v.look, points(v), each=each) for v in block.variants)
    return [line for line in drawn if line]


def worded(where: Callable[[float], str], unit: str = "", digits: int = 2) -> Text:
    """The text of a point, 'task 3: 58.07 ± 2.92 %'; `where` names its place."""

    def text(p: Point) -> str:
        spread = f" ± {p.std:.{digits}f}" if p.std is not None else ""
        return f"{where(p.x)}: {p.mean:.{digits}f}{spread}{unit}"

    return text


def plot(
    canvas: Canvas,
    axes: Axes,
    lines: Sequence[Series],
    text: Text,
    *,
    beside: float = BESIDE,
    spots: int = SPOTS,
) -> None:
    """Draw lines into axes, with bands, single values, and a text at each point."""
    faint = 0.18 if len(lines) <= FEW else 0.08
    most = min(spots, max(5, ALL_SPOTS // max(1, len(lines))))
    for line in lines:
        xs, means = [p.x for p in line.points], [p.mean for p in line.points]
        stds, look = [p.std or 0.0 for p in line.points], line.look
        marker = look.marker if len(xs) <= SPOTS else ""
        axes.plot(xs, means, linestyle=look.dash, label=line.label, marker=marker, **look.plain)
        if len(xs) == 1:
            whisker(axes, (xs[0], means[0]), look, stds[0])
        elif any(stds):
            low, high = ([m + s * std for m, std in zip(means, stds, strict=True)] for s in (-1, 1))
            axes.fill_between(xs, low, high, alpha=faint, linewidth=0, **look.plain)
        for p in line.points[:: math.ceil(len(xs) / most)]:
            canvas.spot(axes, (p.x, p.mean), f"{line.label}, {text(p)}", look)
    small = {"alpha": 0.55, "markersize": 3.2, "markeredgewidth": 0, "zorder": 1.8}
    for line, aside in _aside(lines, beside) if dotted(lines) else ():
        dots = [(p.x + aside, value) for p in line.points if p.n > 1 for value in p.values]
        if dots:
            axes.plot(*zip(*dots, strict=True), "o", **line.look.plain, **small)


def marks(canvas: Canvas, axes: Axes, lines: Sequence[Series], text: Text) -> None:
    """Means side by side with one standard deviation, for places that no line should join."""
    for line, aside in _aside(lines, 0.36):
        for p in line.points:
            place = p.x + aside, p.mean
            canvas.mark(axes, place, line.look, line.label, p.std)
            canvas.spot(axes, place, f"{line.label}, {text(p)}", line.look)


def _aside(lines: Sequence[Series], share: float) -> list[tuple[Series, float]]:
    """How far each line's dots are moved, as a share of the smallest step on the x axis."""
    places = sorted({p.x for line in lines for p in line.points})
    step = share * min((b - a for a, b in pairwise(places)), default=1.0)
    return [(line, step * ((2 * i + 1) / len(lines) - 1)) for i, line in enumerate(lines)]


def dotted(lines: Sequence[Series]) -> bool:
    """Whether single values are drawn beside the means: there are some, and not too many."""
    points = [p for line in lines for p in line.points]
    several = any(p.n > 1 and p.values for p in points)
    return several and sum(len(p.values) for p in points) <= DOTS


def spread_note(panels: Iterable[Sequence[Series]], over: str = "seeds", drawn: str = "") -> str:
    """The sentence of a caption about what is `drawn` around means; '' if all are single values."""
    known = list(panels)
    if not any(p.n > 1 for lines in known for line in lines for p in line.points):
        return ""
    if drawn:
        return f" {drawn} are one standard deviation over {over}."
    single = "seeds" if over == "seeds" else "values"
    each = f"; dots are single {single}" if any(map(dotted, known)) else ""
    return f" The band is one standard deviation over {over}{each}."


def table(panels: Panels, *, panel: str, x: str, y: str, line: str = "method") -> Table:
    """Every point that is drawn, a row each, and the single values if they are drawn too."""
    rows: list[list[Value]] = [
        [name, one.label, float(p.x), p.mean, p.std, p.n, " ".join(map(repr, p.values))]
        for name, lines in panels.items()
        for one in lines
        for p in one.points
    ]
    whole = Table([panel, line, x, y, "std", "n", "values"], rows)
    return whole if any(map(dotted, panels.values())) else whole.without("values")


def lines_figure(
    block: Block,
    about: tuple[str, str, str],  # the kind of figure, its title, its caption
    panels: Panels,
    *,
    panel: str,
    x: str,
    y: str,
    unit: str = "",
    digits: int = 2,
    share: Share = "",
    joined: bool = True,
) -> Figure | None:
    """Lines over tasks, a panel for each name; `panel` is what the names are called in the data.

    If they are not `joined`, means are dots with a standard deviation as whiskers.
    """
    known = {shown: lines for shown, lines in panels.items() if lines}
    if not known:
        return None
    kind, title, caption = about
    text = worded(f"{x} {{:g}}".format, unit, digits)

    def draw(canvas: Canvas) -> None:
        row = canvas.panels(known, share=share)
        for axes, lines in zip(row, known.values(), strict=True):
            (plot if joined else marks)(canvas, axes, lines, text)
            if not joined:
                axes.axhline(0, color=DIM, linewidth=0.9)
            axes.set_xlabel(x)
            axes.xaxis.get_major_locator().set_params(integer=True)
        row[0].set_ylabel(f"{y},{unit}" if unit else y)
        legend(canvas, row)

    data = table(known, panel=panel, x=x, y=f"{y}{unit}")
    caption += spread_note(known.values(), drawn="" if joined else "Whiskers")
    return Figure(*block.about(kind, title), caption, draw, data, height=block.height)


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


def log_scale(axes: Axes) -> None:
    """A logarithmic x axis with plain numbers, which matplotlib would write as powers."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, place: f"{value:g}")
    axes.minorticks_off()


def thinned(n: int, most: int = 28) -> list[int]:
    """Indices of at most about `most` of n places, closer at the start, the last one included."""
    if n <= most:
        return list(range(n))
    return sorted({0, *(round((n - 1) ** (i / (most - 1))) for i in range(most))})
