"""Variants side by side: what an add-on gains, accuracy against cost, stability against plasticity
over the weight of an add-on, and what analyses found of each task."""

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from itertools import chain, product
from operator import getitem
from typing import NamedTuple

from ..compare.statistics import FEWEST, Summary
from ..compare.tables import Table, Value
from ..compare.tradeoffs import Curve, curve_table, frontier
from ..compare.variants import Gain, is_bound, spelled
from ..learning.metrics import METRICS, PROTOCOLS, REPORTED
from .answer import seeds as counted
from .canvas import DIM, INK, PALETTE, Axes, Canvas, Figure, Look, Share, clean, slug
from .gather import Block, LoadedRuns, VariantRuns, called
from .lines import (
    Series,
    by_variant,
    legend,
    lines_figure,
    log_scale,
    plot,
    series,
    spread_note,
    worded,
)

# --- gains: each method minus the one it extends, seed by seed -----------------------------------

LABEL = 40  # characters


Gains = Mapping[tuple[str, str], Sequence[tuple[VariantRuns, Gain]]]  # by protocol and metric


def gains(loaded: LoadedRuns) -> list[Figure]:
    """One for every block in which a method with an add-on and the one without were run."""
    drawn = (_gains(block, loaded.comparison.gains) for block in loaded.blocks)
    return [figure for figure in drawn if figure is not None]


def _gains(block: Block, every: Sequence[Gain]) -> Figure | None:
    found: dict[tuple[str, str], list[tuple[VariantRuns, Gain]]] = {}
    for variant, gain in product(block.variants, every):
        if gain.variant is variant.variant:
            found.setdefault((gain.protocol, gain.metric), []).append((variant, gain))
    if not found:
        return None
    rows: list[list[Value]] = [
        [PROTOCOLS[gain.protocol], METRICS[gain.metric].title, variant.label, called(gain.against),
         gain.mean.mean, gain.mean.low, gain.mean.high, gain.mean.n,
         " ".join(map(repr, gain.pairs.gaps))]
        for variant, gain in chain(*found.values())
    ]  # fmt: skip
    columns = (
        "protocol", "metric", "method", "against", "difference", "low", "high", "seeds", "values",
    )  # fmt: skip
    caption = (
        "Difference to the same method without the add-on, in points, seed by seed; the shaded "
        "side is the better one."
    )
    seeds = [gain.mean.n for _, gain in chain(*found.values())]
    if max(seeds) > 1:
        caption += " Dots are single seeds."
    if max(seeds) >= FEWEST:
        caption += (
            " The line is the 95 % interval of the mean difference: where it excludes 0, the "
            "difference is beyond noise."
        )
    if min(seeds) < FEWEST:
        caption += f" Fewer than {FEWEST} seeds are too few for an interval."
    height = len({protocol for protocol, _ in found}) * (1.0 + 0.3 * max(map(len, found.values())))
    about = block.about("gains", "Gain over the method without the add-on")
    draw = partial(_draw_gains, gains=found)
    return Figure(*about, caption, draw, Table(columns, rows), height=height)


def _draw_gains(canvas: Canvas, gains: Gains) -> None:
    """A row of panels for each protocol, a column for each metric, a line for each variant."""
    protocols = [s for s in PROTOCOLS if any(s == protocol for protocol, _ in gains)]
    places = list(product(protocols, REPORTED))
    grid = canvas.panels(["" for _ in places], len(REPORTED))
    for axes, (protocol, metric) in zip(grid, places, strict=True):
        many, about = gains.get((protocol, metric), []), METRICS[metric]
        axes.set_title(f"{PROTOCOLS[protocol]}: {about.title}")
        higher = about.better == "max"
        axes.set_xlabel("points, higher is better →" if higher else "points, ← lower is better")
        _frame(axes, [gain for _, gain in many], higher)
        for place, (variant, gain) in enumerate(many):
            _line(canvas, axes, place, variant.look, gain)
        if metric == REPORTED[0]:
            _names(axes, many)


def _frame(axes: Axes, many: Sequence[Gain], higher: bool) -> None:
    """A line at 0, the better side shaded, and room for all dots and intervals."""
    ends = [
        value for gain in many for value in (0.0, *gain.pairs.gaps, *(gain.mean.interval or ()))
    ]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    room = 0.07 * (high - low) or 1.0
    low, high = low - room, high + room
    axes.set_xlim(low, high)
    axes.axvspan(*((0, high) if higher else (low, 0)), color=DIM, alpha=0.1, linewidth=0)
    axes.axvline(0, color=INK, linewidth=0.9)
    axes.set_ylim(max(len(many), 1) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.locator_params(axis="x", nbins=4)
    axes.tick_params(axis="y", labelleft=False)


def _line(canvas: Canvas, axes: Axes, place: int, look: Look, gain: Gain) -> None:
    mean, ends, plain = gain.mean, gain.mean.interval, look.plain | {"markeredgewidth": 0}
    if mean.n > 1:
        dots = [place + 0.24] * mean.n
        axes.plot(gain.pairs.gaps, dots, "o", alpha=0.45, markersize=3.6, **plain)
    if ends:
        axes.plot(ends, [place, place], linewidth=2.2, solid_capstyle="butt", **plain)
    axes.plot([mean.mean], [place], look.marker, markersize=6.5, **plain)
    sure = f", 95 % {ends[0]:z.2f} to {ends[1]:z.2f}" if ends else ""
    said = f"{minus(gain)}: {mean.mean:+z.2f} points{sure}, {counted(mean.n)}"
    canvas.spot(axes, (mean.mean, place), said, look)


def minus(gain: Gain) -> str:
    return f"{called(gain.variant)} − {called(gain.against)}"


def _names(axes: Axes, many: Sequence[tuple[VariantRuns, Gain]]) -> None:
    axes.set_yticks(range(len(many)), [clean(minus(gain), LABEL) for _, gain in many])
    axes.tick_params(axis="y", labelleft=True, pad=6)
    for text, (variant, _) in zip(axes.get_yticklabels(), many, strict=True):
        text.set_gid(variant.look.gid)


# --- accuracy against cost: every variant at its compute, and the frontier of those nothing beats -

WIDE = 8.0  # times the smallest cost: beyond it the axis is logarithmic
CAPTION = (
    "Each method at its relative compute, the images that pass the networks as a multiple of "
    "fine-tuning's: up and to the left is better. The line is the frontier: the best mean accuracy "
    "for at most that much compute, bounds left out."
)


class Dot(NamedTuple):
    """One variant in one panel."""

    variant: VariantRuns
    cost: float
    faa: Summary


def cost(block: Block) -> Figure | None:
    """None unless the cost of at least two variants is on record."""
    panels = {shown: dots for name, shown in PROTOCOLS.items() if (dots := _dots(block, name))}
    every = list(chain(*panels.values()))
    if len({dot.variant.label for dot in every}) < 2:
        return None
    rows: list[list[Value]] = [
        [shown, dot.variant.label, dot.cost, dot.faa.mean, dot.faa.std, dot.faa.n,
         "yes" if dot in leading else "no"]
        for shown, dots in panels.items()
        for leading in [_leading(dots)]
        for dot in dots
    ]  # fmt: skip
    data = Table(["protocol", "method", "compute", "FAA", "std", "n", "frontier"], rows)
    several = any(dot.faa.n > 1 for dot in every)
    caption = CAPTION + (" Whiskers are one standard deviation over seeds." if several else "")

    def draw(canvas: Canvas) -> None:
        row = canvas.panels(panels)
        for axes, dots in zip(row, panels.values(), strict=True):
            _draw_dots(canvas, axes, dots)
        row[0].set_ylabel("FAA, %")
        legend(canvas, row)

    about = block.about("cost", "Accuracy against cost")
    return Figure(*about, caption, draw, data, height=block.height)


def _dots(block: Block, protocol: str) -> list[Dot]:
    found = ((v, v.variant.summary("cost", "compute"), v.variant.summary(protocol, "faa"))
             for v in block.variants)  # fmt: skip
    return [Dot(v, cost.mean, faa) for v, cost, faa in found if cost and faa]


def _leading(dots: Sequence[Dot]) -> list[Dot]:
    """The dots on the frontier, from the cheapest."""
    rivals = [dot for dot in dots if not is_bound(dot.variant.variant.method)]
    return [rivals[i] for i in frontier([(dot.cost, dot.faa.mean) for dot in rivals])]


def _draw_dots(canvas: Canvas, axes: Axes, dots: Sequence[Dot]) -> None:
    costs, leading = [dot.cost for dot in dots], _leading(dots)
    if max(costs) > WIDE * min(costs):
        log_scale(axes)
    axes.margins(x=0.12, y=0.12)
    for dot in dots:
        variant, cost, faa = dot
        canvas.mark(axes, (cost, faa.mean), variant.look, variant.label, faa.std)
        leads = ", on the frontier" if dot in leading else ""
        said = f"{variant.label}: {faa} % at {cost:.2f} times the compute of fine-tuning{leads}"
        canvas.spot(axes, (cost, faa.mean), said, variant.look)
    if leading:  # steps from dot to dot: what can be reached by spending no more than this
        low, high = axes.get_xlim()
        xs, ys = [*(dot.cost for dot in leading), high], [dot.faa.mean for dot in leading]
        axes.plot(
            xs, [*ys, ys[-1]], drawstyle="steps-post", color=DIM, linewidth=1.2,
            linestyle=(0, (4, 2)), zorder=1.5, label="frontier",
        )  # fmt: skip
        axes.set_xlim(low, high)
    axes.set_xlabel("compute, relative to fine-tuning")


# --- stability against plasticity ----------------------------------------------------------------

LOOKS = {
    "faa": Look(PALETTE["blue"], "o", "-"),
    "ff": Look(PALETTE["red"], "s", "--"),
    "ala": Look(PALETTE["green"], "^", "-."),
}


def tradeoff(curve: Curve) -> Figure:
    weight, place = clean(curve.weight), clean(curve.place)
    weights = [f"{point.weight:g}" for point in curve.points]
    panels = {shown: _lines(curve, protocol) for protocol, shown in PROTOCOLS.items()}

    def draw(canvas: Canvas) -> None:
        row = canvas.panels(panels)
        for axes, lines in zip(row, panels.values(), strict=True):
            plot(canvas, axes, lines, worded(lambda i: f"{weight} = {weights[int(i)]}"))
            axes.set_xticks(range(len(weights)), weights)
            axes.set_xlabel(weight)
        row[0].set_ylabel("%")
        legend(canvas, row[:1])

    name = slug("tradeoff", spelled(curve.block), curve.label, curve.field)
    title = f"{clean(curve.title)} over {weight}{f' ({place})' if place else ''}"
    caption = (
        "FAA and ALA in %, higher is better; FF in %, lower is better. Weight 0 is the method "
        f"without the add-on. Weights are not to scale.{spread_note(panels.values())}"
    )
    return Figure(name, title, "", caption, draw, curve_table([curve]))


def _lines(curve: Curve, protocol: str) -> list[Series]:
    """A line over the weights for each metric."""
    found = []
    for metric in REPORTED:
        variants = [point.variant.values(protocol, metric) for point in curve.points]
        values = [(float(i), v) for i, variant in enumerate(variants) for v in variant.values()]
        found.append(series(METRICS[metric].title, LOOKS[metric], values))
    return [line for line in found if line]


# --- over tasks: similarity (figure 5 of the paper), drift, forward transfer ---------------------


class OverTasks(NamedTuple):
    """A figure of lines over tasks, a panel for each number that an analysis found of a task."""

    title: str
    caption: str
    y: str
    panels: Mapping[str, Sequence[str | int]]  # the path to the number
    unit: str = ""  # " %" of shares
    digits: int = 2
    share: Share = ""


OVER_TASKS = {
    "cka": OverTasks(
        "Similarity of features before and after each task",
        "Linear CKA (centred) of test images' features before and after learning a task: of "
        "classes seen in earlier tasks, and of the task's own, unseen before it.",
        "CKA",
        {"classes of earlier tasks": ("seen", "centred"),
         "the task's own classes": ("unseen", "centred")},
        digits=3, share="y",
    ),
    "drift": OverTasks(
        "What a linear map from old to new features misses",
        "Variance of features after a task that a linear map of those before it misses, on test "
        "images of earlier classes; the map is fitted to the task's own. Lower: drift is linear.",
        "variance missed", {"classes of earlier tasks": ("layers", -1, "old")},  # of the features
    ),
    "transfer": OverTasks(
        "Forward transfer to each task",
        "Accuracy of a linear probe of the task's classes on the features from before the task, "
        "minus that on the features of a network with random weights.",
        "forward transfer", {"the task's own classes": ("transfer",)}, " %", 1,
    ),
}  # fmt: skip


def over_tasks(name: str, loaded: LoadedRuns) -> list[Figure | None]:
    return [_over_tasks(name, block) for block in loaded.blocks]


def _over_tasks(name: str, block: Block) -> Figure | None:
    kind, times = OVER_TASKS[name], 100.0 if OVER_TASKS[name].unit else 1.0

    def points(path: Sequence[str | int]) -> list[Series]:
        return by_variant(block, lambda variant: (
            (task["task"] + 1, times * reduce(getitem, path, task))
            for one in variant.analyses(name) for task in one["tasks"]
        ))  # fmt: skip

    panels = {shown: points(path) for shown, path in kind.panels.items()}
    return lines_figure(
        block, (name, kind.title, kind.caption), panels, panel="data", x="task", y=kind.y,
        unit=kind.unit, digits=kind.digits, share=kind.share,
    )  # fmt: skip
