"""Variants side by side: what an add-on gains, accuracy against cost, and stability against
plasticity over the weight of an add-on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, product

from ..compare.statistics import Summary
from ..compare.tables import Table, Value
from ..compare.tradeoffs import Curve, curve_table, frontier
from ..compare.variants import Estimate, is_bound, spelled
from ..learning.metrics import METRICS, PROTOCOLS, REPORTED
from .answer import ENOUGH, interval, spread
from .canvas import DIM, INK, PALETTE, Axes, Canvas, Figure, Look, Spot, clean, slug
from .gather import Block, LoadedRuns, VariantRuns, called
from .lines import Series, legend, log_scale, plot, series, spread_note

# --- gains: each method minus the one it extends, seed by seed -----------------------------------

LABEL = 40  # characters


@dataclass(frozen=True)
class Gain:
    """One variant's metric minus that of the variant it extends."""

    label: str
    against: str
    look: Look
    found: Summary
    each: Sequence[float]  # seed by seed


Gains = dict[tuple[str, str], list[Gain]]  # by protocol and metric


def gains(loaded: LoadedRuns) -> list[Figure]:
    """One for every block in which a method with an add-on and the one without were run."""
    every = list(chain(*loaded.comparison.estimates))
    drawn = [_gains(block, every) for block in loaded.blocks]
    return [figure for figure in drawn if figure is not None]


def _gains(block: Block, estimates: Sequence[Estimate]) -> Figure | None:
    found: Gains = {}
    for variant, estimate in product(block.variants, estimates):
        if estimate.variant is variant.variant and (gain := _gain(variant, estimate)):
            found.setdefault((estimate.protocol, estimate.metric), []).append(gain)
    if not found:
        return None
    rows: list[list[Value]] = [
        [PROTOCOLS[protocol], METRICS[metric].title, gain.label, gain.against, gain.found.mean,
         *(interval(gain.found) or (None, None)), gain.found.n, " ".join(map(repr, gain.each))]
        for (protocol, metric), many in found.items()
        for gain in many
    ]  # fmt: skip
    columns = (
        "protocol", "metric", "method", "against", "difference", "low", "high", "seeds", "values",
    )  # fmt: skip
    caption = (
        "Difference to the same method without the add-on, in points, seed by seed; the shaded "
        "side is the better one."
    )
    seeds = [gain.found.n for gain in chain(*found.values())]
    if max(seeds) > 1:
        caption += " Dots are single seeds."
    if max(seeds) >= ENOUGH:
        caption += (
            " The line is the 95 % interval of the mean difference: where it does not reach 0, "
            "these seeds tell the two apart."
        )
    if min(seeds) < ENOUGH:
        caption += f" Fewer than {ENOUGH} seeds are too few for an interval."
    height = len({protocol for protocol, _ in found}) * (1.0 + 0.3 * max(map(len, found.values())))
    title = "Gain over the method without the add-on"
    return block.figure(
        "gains", title, caption, lambda canvas: _draw_gains(canvas, found), Table(columns, rows),
        height,
    )  # fmt: skip


def _gain(variant: VariantRuns, estimate: Estimate) -> Gain | None:
    pairs, against = estimate.pairs, estimate.against
    if pairs is None or against is None:
        return None
    place = estimate.protocol, estimate.metric
    mine, theirs = (one.values(*place) for one in (estimate.variant, against))
    each = [mine[key] - theirs[key] for key in pairs.keys]
    return Gain(variant.label, called(against), variant.look, pairs.difference, each)


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
        _frame(axes, many, higher)
        for place, gain in enumerate(many):
            _line(canvas, axes, place, gain)
        if metric == REPORTED[0]:
            _names(axes, many)


def _frame(axes: Axes, many: Sequence[Gain], higher: bool) -> None:
    """A line at 0, the better side shaded, and room for all dots and intervals."""
    ends = [value for gain in many for value in (0.0, *gain.each, *(interval(gain.found) or ()))]
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


def _line(canvas: Canvas, axes: Axes, place: int, gain: Gain) -> None:
    look, found = gain.look, gain.found
    plain = look.plain | {"markeredgewidth": 0}
    if found.n > 1:
        dots = [place + 0.24] * len(gain.each)
        axes.plot(gain.each, dots, "o", alpha=0.45, markersize=3.6, **plain)
    ends = interval(found)
    if ends:
        axes.plot(ends, [place, place], linewidth=2.2, solid_capstyle="butt", **plain)
    axes.plot([found.mean], [place], look.marker, markersize=6.5, **plain)
    seeds = f"{found.n} seeds" if found.n > 1 else "one seed"
    sure = f", 95 % {ends[0]:z.2f} to {ends[1]:z.2f}" if ends else ""
    said = f"{gain.label} − {gain.against}: {found.mean:+z.2f} points{sure}, {seeds}"
    canvas.spots.append(Spot(axes, (found.mean, place), said, variant=look.variant))


def _names(axes: Axes, many: Sequence[Gain]) -> None:
    names = [clean(f"{gain.label} − {gain.against}", LABEL) for gain in many]
    axes.set_yticks(range(len(many)), names)
    axes.tick_params(axis="y", labelleft=True, pad=6)
    for text, gain in zip(axes.get_yticklabels(), many, strict=True):
        text.set_gid(gain.look.gid)


# --- accuracy against cost: every variant at its compute, and the frontier of those nothing beats -

WIDE = 8.0  # times the smallest cost: beyond it the axis is logarithmic
CAPTION = (
    "Each method at its relative compute, the images that pass the networks as a multiple of "
    "fine-tuning's: up and to the left is better. The line is the frontier: the best mean accuracy "
    "for at most that much compute, bounds left out."
)


@dataclass(frozen=True)
class Dot:
    """One variant in one panel."""

    variant: VariantRuns
    cost: float
    faa: Summary
    leads: bool = False  # whether it is on the frontier


def cost(block: Block) -> Figure | None:
    """None unless the cost of at least two variants is on record."""
    panels = {
        shown: dots for protocol, shown in PROTOCOLS.items() if (dots := _dots(block, protocol))
    }
    every = list(chain(*panels.values()))
    if len({dot.variant.variant.label for dot in every}) < 2:
        return None
    rows: list[list[Value]] = [
        [shown, dot.variant.label, dot.cost, dot.faa.mean, dot.faa.std, dot.faa.n,
         "yes" if dot.leads else "no"]
        for shown, dots in panels.items()
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

    return block.figure("cost", "Accuracy against cost", caption, draw, data)


def _dots(block: Block, protocol: str) -> list[Dot]:
    found = []
    for variant in block.variants:
        cost = variant.variant.summary("cost", "compute")
        faa = variant.variant.summary(protocol, "faa")
        if cost is not None and faa is not None:
            found.append(Dot(variant, cost.mean, faa))
    rivals = [i for i, dot in enumerate(found) if not is_bound(dot.variant.variant.method)]
    for i in frontier([(found[i].cost, found[i].faa.mean) for i in rivals]):
        found[rivals[i]] = replace(found[rivals[i]], leads=True)
    return found


def _draw_dots(canvas: Canvas, axes: Axes, dots: Sequence[Dot]) -> None:
    costs = [dot.cost for dot in dots]
    if max(costs) > WIDE * min(costs):
        log_scale(axes)
    axes.margins(x=0.12, y=0.12)
    for dot in dots:
        label, look, faa = dot.variant.label, dot.variant.look, dot.faa
        if faa.std:
            ends = [faa.mean - faa.std, faa.mean + faa.std]
            axes.plot([dot.cost] * 2, ends, linewidth=1.2, alpha=0.6, **look.plain)
        mark = {"markersize": 7, "markeredgewidth": 0, "label": label}
        axes.plot([dot.cost], [faa.mean], look.marker, **mark, **look.plain)
        leads = ", on the frontier" if dot.leads else ""
        said = f"{label}: {spread(faa)} % at {dot.cost:.2f} times the compute of fine-tuning{leads}"
        canvas.spots.append(Spot(axes, (dot.cost, faa.mean), said, variant=look.variant))
    _frontier(axes, [dot for dot in dots if dot.leads])
    axes.set_xlabel("compute, relative to fine-tuning")


def _frontier(axes: Axes, leading: Sequence[Dot]) -> None:
    """Steps from dot to dot: what can be reached by spending no more than this."""
    points = sorted((dot.cost, dot.faa.mean) for dot in leading)
    if not points:
        return
    low, high = axes.get_xlim()
    xs, ys = zip(*points, strict=True)
    axes.plot(
        [*xs, high], [*ys, ys[-1]], drawstyle="steps-post", color=DIM, linewidth=1.2,
        linestyle=(0, (4, 2)), zorder=1.5, label="frontier",
    )  # fmt: skip
    axes.set_xlim(low, high)


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
            plot(canvas, axes, lines, lambda i: f"{weight} = {weights[int(i)]}")
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
    return Figure(name, title, caption, draw, curve_table([curve]))


def _lines(curve: Curve, protocol: str) -> list[Series]:
    """A line over the weights for each metric."""
    found = []
    for metric in REPORTED:
        variants = [point.variant.values(protocol, metric) for point in curve.points]
        values = [(float(i), v) for i, variant in enumerate(variants) for v in variant.values()]
        found.append(series(METRICS[metric].title, LOOKS[metric], values))
    return [line for line in found if line]
