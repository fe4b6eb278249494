"""Accuracy against cost: every arm at its passes, and the frontier of those that nothing beats.

Knows arms and their recorded costs. Knows nothing of files, or of how costs are counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..compare.budgets import frontier
from ..compare.statistics import Summary
from ..compare.tables import Table, Value
from ..compare.titles import is_bound
from ..learning.metrics import COSTS, SETTINGS
from . import style
from .canvas import Axes, Canvas, Figure
from .draw_lines import gid_of, legend
from .gather import ArmRuns, Block, Gathered

WIDE = 8.0  # times the smallest cost: beyond it the axis is logarithmic
NEAR, APART = 0.005, 0.02  # costs that are almost equal, and how far apart they are drawn
CAPTION = (
    "Each method at the images that it passes through the nets, as a multiple of fine-tuning's: up "
    "and to the left is better. The line is the frontier: the best mean accuracy that can be had "
    "for so many passes, bounds left out. Methods of equal cost are drawn side by side."
)


@dataclass(frozen=True)
class Dot:
    """One arm in one panel."""

    arm: ArmRuns
    cost: float
    faa: Summary
    leads: bool = False  # whether it is on the frontier


def figures(gathered: Gathered) -> list[Figure]:
    """One for every block with at least two arms whose cost is on record."""
    drawn = [_figure(block) for block in gathered.blocks]
    return [figure for figure in drawn if figure is not None]


def table(gathered: Gathered) -> Table | None:
    """What every arm cost: passes, images of a step, bytes, parameters, seconds."""
    known = [name for name in COSTS if any(arm.arm.values("cost", name) for arm in gathered.arms)]
    place = ["setting"] if len(gathered.blocks) > 1 else []
    rows: list[list[Value]] = []
    for block in gathered.blocks:
        for arm in block.arms:
            cells = [_cell(arm, name) for name in known]
            rows.append([*[block.title] * len(place), arm.label, *cells])
    columns = [*place, "method", *(name.rpartition(".")[2] for name in known)]
    return Table(columns, rows, group=place[0] if place else None) if known else None


def _cell(arm: ArmRuns, name: str) -> Value:
    found = arm.arm.summary("cost", name)
    if found is None:
        return None
    return found.mean if name in ("passes", "seconds") else round(found.mean)


def _figure(block: Block) -> Figure | None:
    found = {shown: _dots(block, setting) for setting, shown in SETTINGS.items()}
    panels = {shown: dots for shown, dots in found.items() if dots}
    if len({dot.arm.arm.label for dots in panels.values() for dot in dots}) < 2:
        return None
    rows: list[list[Value]] = [
        [shown, dot.arm.label, dot.cost, dot.faa.mean, dot.faa.std, dot.faa.n,
         "yes" if dot.leads else "no"]
        for shown, dots in panels.items()
        for dot in dots
    ]  # fmt: skip
    data = Table(["setting", "method", "passes", "FAA", "std", "n", "frontier"], rows)
    caption = CAPTION
    if any(dot.faa.n > 1 for dots in panels.values() for dot in dots):
        caption += " Bars are one standard deviation over seeds."

    def draw() -> Canvas:
        canvas = Canvas("whole", 3.6 + 0.2 * (len(block.arms) // 4))
        row = canvas.panels(panels)
        for axes, dots in zip(row, panels.values(), strict=True):
            _draw(canvas, axes, dots)
        row[0].set_ylabel("FAA, %")
        legend(canvas, row)
        return canvas

    return Figure(
        block.named("cost"), block.titled("Accuracy against cost"), caption, draw, data, "whole"
    )


def _dots(block: Block, setting: str) -> list[Dot]:
    found = []
    for arm in block.arms:
        cost, faa = arm.arm.summary("cost", "passes"), arm.arm.summary(setting, "faa")
        if cost is not None and faa is not None:
            found.append(Dot(arm, cost.mean, faa))
    rivals = [dot for dot in found if not is_bound(dot.arm.arm.method)]
    leading = frontier([(dot.cost, dot.faa.mean) for dot in rivals])
    leads = {id(rivals[i]) for i in leading}
    return [Dot(dot.arm, dot.cost, dot.faa, id(dot) in leads) for dot in found]


def _draw(canvas: Canvas, axes: Axes, dots: Sequence[Dot]) -> None:
    costs = [dot.cost for dot in dots]
    if max(costs) > WIDE * min(costs):
        style.log_scale(axes)
    axes.margins(x=0.12, y=0.12)
    for dot, x in zip(dots, _side_by_side(costs), strict=True):
        look, gid = dot.arm.look, gid_of("arm", dot.arm.look)
        place = {"color": look.colour, "gid": gid}
        if dot.faa.std:
            ends = [dot.faa.mean - dot.faa.std, dot.faa.mean + dot.faa.std]
            axes.plot([x, x], ends, linewidth=1.2, alpha=0.6, **place)
        axes.plot(
            [x], [dot.faa.mean], look.marker, markersize=7, label=dot.arm.label,
            markeredgewidth=0, **place,
        )  # fmt: skip
        spread = f" ± {dot.faa.std:.2f}" if dot.faa.std is not None else ""
        leads = ", on the frontier" if dot.leads else ""
        said = f"{dot.arm.label}: {dot.faa.mean:.2f}{spread} % at {dot.cost:.2f} passes{leads}"
        canvas.spot(axes, x, dot.faa.mean, said, arm=look.arm)
    _frontier(axes, [dot for dot in dots if dot.leads])
    axes.set_xlabel("passes, as a multiple of fine-tuning's")


def _side_by_side(costs: Sequence[float]) -> list[float]:
    """Costs as they are drawn: those that are almost equal a little apart."""
    found = list(costs)
    logarithmic = max(costs) > WIDE * min(costs)
    room = max(costs) - min(costs) or max(costs)
    near = [[j for j, b in enumerate(costs) if abs(a - b) <= NEAR * a] for a in costs]
    for i, (cost, same) in enumerate(zip(costs, near, strict=True)):
        aside = APART * (same.index(i) - (len(same) - 1) / 2)
        found[i] = cost * (1 + 3 * aside) if logarithmic else cost + aside * room
    return found


def _frontier(axes: Axes, leading: Sequence[Dot]) -> None:
    """Steps from dot to dot: what can be reached by spending no more than this."""
    points = sorted((dot.cost, dot.faa.mean) for dot in leading)
    if not points:
        return
    low, high = axes.get_xlim()
    xs, ys = [x for x, _ in points], [y for _, y in points]
    axes.plot(
        [*xs, high], [*ys, ys[-1]], drawstyle="steps-post", color=style.DIM, linewidth=1.2,
        linestyle=(0, (4, 2)), zorder=1.5, label="frontier",
    )  # fmt: skip
    axes.set_xlim(low, high)
