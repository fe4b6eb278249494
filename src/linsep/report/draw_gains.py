"""What an added term gains: each method minus the one it extends, seed by seed, with intervals.

Knows a comparison's estimates. Knows nothing of files, or of how the intervals are found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, product

from ..compare.arms import Estimate
from ..compare.statistics import Summary
from ..compare.tables import Table, Value
from ..learning.metrics import METRICS, REPORTED, SETTINGS
from . import style
from .canvas import Axes, Canvas, Figure
from .draw_lines import gid_of
from .gather import ArmRuns, Block, Gathered
from .words import called

LABEL = 40  # letters
TOO_FEW = 2  # pairs: their interval is so wide that others could not be seen beside it


@dataclass(frozen=True)
class Gain:
    """One arm's metric minus that of the arm it extends."""

    label: str
    against: str
    look: style.Look
    found: Summary
    each: Sequence[float]  # seed by seed


Gains = dict[tuple[str, str], list[Gain]]  # by setting and metric


def figures(gathered: Gathered) -> list[Figure]:
    """One for every block in which a method with an added term and the one without were run."""
    every = list(chain(*gathered.comparison.estimates))
    drawn = [_figure(block, every) for block in gathered.blocks]
    return [figure for figure in drawn if figure is not None]


def _figure(block: Block, estimates: Sequence[Estimate]) -> Figure | None:
    gains: Gains = {}
    for arm, estimate in product(block.arms, estimates):
        if estimate.arm is arm.arm and (gain := _gain(arm, estimate)):
            gains.setdefault((estimate.setting, estimate.metric), []).append(gain)
    if not gains:
        return None
    rows: list[list[Value]] = [
        [SETTINGS[setting], METRICS[metric].title, gain.label, gain.against, gain.found.mean,
         gain.found.low, gain.found.high, gain.found.n, " ".join(map(repr, gain.each))]
        for (setting, metric), many in gains.items()
        for gain in many
    ]  # fmt: skip
    columns = ["setting", "metric", "method", "against", "difference", "low", "high", "pairs"]
    data = Table([*columns, "values"], rows)
    title = block.titled("Gain over the method without the term")
    named, caption = block.named("gains"), _caption([g for many in gains.values() for g in many])
    return Figure(named, title, caption, lambda: _draw(gains), data, "whole")


def _caption(gains: Sequence[Gain]) -> str:
    said = ["Difference to the same method without the added term, in points, seed by seed."]
    pairs = {gain.found.n for gain in gains}
    if max(pairs) > 1:
        said.append(
            "The line is the 95 % interval of the mean difference: where it does not reach 0, "
            "these seeds tell the two apart. Dots are single seeds."
        )
    else:
        said.append("One seed is too few for an interval.")
    if TOO_FEW in pairs and max(pairs) > TOO_FEW:
        said.append("An arrow at the end of a line means that it is longer.")
    return " ".join([*said, "The shaded side is the better one."])


def _gain(arm: ArmRuns, estimate: Estimate) -> Gain | None:
    pairs, against = estimate.pairs, estimate.against
    if pairs is None or against is None:
        return None
    place = estimate.setting, estimate.metric
    mine, theirs = (one.values(*place) for one in (estimate.arm, against))
    each = [mine[key] - theirs[key] for key in pairs.keys]
    return Gain(arm.label, called(against), arm.look, pairs.difference, each)


def _draw(gains: Gains) -> Canvas:
    """A row of panels for each setting, a column for each metric, a line for each arm."""
    settings = [s for s in SETTINGS if any(s == setting for setting, _ in gains)]
    most = max(map(len, gains.values()))
    canvas = Canvas("whole", len(settings) * (1.0 + 0.32 * most))
    places = list(product(settings, REPORTED))
    grid = canvas.panels(["" for _ in places], len(REPORTED))
    for axes, (setting, metric) in zip(grid, places, strict=True):
        many, about = gains.get((setting, metric), []), METRICS[metric]
        axes.set_title(f"{about.meaning} ({about.title})")
        higher = about.better == "max"
        axes.set_xlabel("points, higher is better →" if higher else "points, ← lower is better")
        _frame(axes, many, higher)
        for place, gain in enumerate(many):
            _line(canvas, axes, place, gain)
        if metric == REPORTED[0]:
            axes.set_ylabel(SETTINGS[setting])
            _names(axes, many)
    return canvas


def _frame(axes: Axes, many: Sequence[Gain], higher: bool) -> None:
    """A line at 0, the better side shaded, and room for all dots and intervals.

    An interval of too few pairs ends in an arrow at the edge, unless there are no others.
    """
    ends = [value for gain in many for value in (0.0, *gain.each)]
    most = max((gain.found.n for gain in many), default=0)
    for gain in many:
        if gain.found.n > TOO_FEW or most <= TOO_FEW:
            ends += [end for end in (gain.found.low, gain.found.high) if end is not None]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    room = 0.07 * (high - low) or 1.0
    low, high = low - room, high + room
    axes.set_xlim(low, high)
    axes.axvspan(*((0, high) if higher else (low, 0)), color=style.DIM, alpha=0.1, linewidth=0)
    axes.axvline(0, color=style.INK, linewidth=0.9)
    axes.set_ylim(max(len(many), 1) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.locator_params(axis="x", nbins=6)
    axes.tick_params(axis="y", length=0, labelleft=False)


def _line(canvas: Canvas, axes: Axes, place: int, gain: Gain) -> None:
    look, found, gid = gain.look, gain.found, gid_of("arm", gain.look)
    plain = {"color": look.colour, "gid": gid, "markeredgewidth": 0}
    if found.n > 1:
        dots = [place + 0.24] * len(gain.each)
        axes.plot(gain.each, dots, "o", alpha=0.45, markersize=3.6, **plain)
    spread = ", one seed"
    if found.low is not None and found.high is not None:
        low, high = axes.get_xlim()
        seen = max(found.low, low), min(found.high, high)
        axes.plot(seen, [place, place], linewidth=2.2, solid_capstyle="butt", **plain)
        for end, cut, arrow in zip(seen, (found.low < low, found.high > high), "<>", strict=True):
            if cut:
                axes.plot([end], [place], arrow, markersize=7, clip_on=False, **plain)
        spread = f", 95 % {found.low:z.2f} to {found.high:z.2f}, {found.n} pairs"
    axes.plot([found.mean], [place], look.marker, markersize=6.5, **plain)
    said = f"{gain.label} − {gain.against}: {found.mean:+z.2f} points{spread}"
    canvas.spot(axes, found.mean, place, said, arm=look.arm)


def _names(axes: Axes, many: Sequence[Gain]) -> None:
    names = [style.clean(f"{gain.label} − {gain.against}", LABEL) for gain in many]
    axes.set_yticks(range(len(many)), names)
    axes.tick_params(axis="y", labelleft=True, pad=6)
    for text, gain in zip(axes.get_yticklabels(), many, strict=True):
        text.set_gid(gid_of("arm", gain.look))
