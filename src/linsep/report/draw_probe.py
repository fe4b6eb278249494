"""Linear probes of the features beside the head that the run predicts by: figure 4 of the paper."""

from collections.abc import Sequence
from typing import Any

from . import style
from .canvas import Canvas, Figure
from .draw_accuracy import heat_maps
from .draw_lines import Series, gid_of, legend, plot, series, spread_note, table
from .gather import ArmRuns, Block, Gathered, Matrix

TITLE = "Linear separability"


def figures(gathered: Gathered) -> list[Figure]:
    made = [*map(_portions, gathered.blocks), *map(_rounds, gathered.arms)]
    return [figure for figure in made if figure is not None]


def _portions(block: Block) -> Figure | None:
    """Linear probes of the final features over portions of the training images."""
    lines: list[Series] = []
    heads: list[Series] = []
    for arm in block.arms:
        analyses = arm.analyses("probe")
        fits = [fit for one in analyses for fit in one["final"]]
        probes = ((fit["portion"], 100 * fit["accuracy"]) for fit in fits)
        line = series(arm.label, arm.look, probes)
        head = series(arm.label, arm.look, ((1.0, 100 * one["head"]) for one in analyses))
        if line and head:
            lines.append(line)
            heads.append(head)
    if not lines:
        return None

    def draw() -> Canvas:
        canvas = Canvas("whole", 3.9 + 0.2 * (len(lines) // 4))
        axes = canvas.panels()[0]
        plot(canvas, axes, lines, "portion {:g}".format, unit=" %", digits=1, beside=0.0)
        for head in heads:
            point, look = head.points[0], head.look
            hollow = {"markerfacecolor": "none", "markersize": 8, "linestyle": "none"}
            gid = gid_of("arm", look)
            axes.plot([1.3], [point.mean], marker="*", color=look.colour, gid=gid, **hollow)
            said = f"{head.label}, the head it was trained with: {point.mean:.1f} %"
            canvas.spot(axes, 1.3, point.mean, said, arm=look.arm)
        style.log_scale(axes)
        axes.set_xlabel("portion of the training images")
        axes.set_ylabel("accuracy, %")
        legend(canvas, [axes])
        return canvas

    over = "draws and seeds" if block.arms[0].averaged else "draws"
    caption = (
        "A linear classifier trained on frozen features of a portion of all training images. "
        f"Stars: the head that the run trained.{spread_note([lines], over)}"
    )
    panels = {"linear probe": lines, "own head": heads}
    data = table(panels, panel="classifier", x="portion", y="accuracy %")
    title = block.titled("Linear probing of the final features")
    return Figure(block.named("probe"), title, caption, draw, data, "whole")


def _rounds(arm: ArmRuns) -> Figure | None:
    """After every task, on every task seen: a linear probe against the run's own head."""
    rounds = [one["rounds"] for one in arm.analyses("probe") if one["rounds"]]
    if not rounds:
        return None
    size = max(r["task"] for one in rounds for r in one) + 1

    def matrix(one: Sequence[dict[str, Any]], kind: str) -> Matrix:
        found: Matrix = [[None] * size for _ in range(size)]
        for r in one:
            found[r["task"]][: len(r[kind])] = r[kind]
        return found

    kinds = {"linear probe": "probe", "own head": "head"}
    found = {name: [matrix(one, kind) for one in rounds] for name, kind in kinds.items()}
    mean = ", mean over seeds" if arm.averaged else ""
    caption = (
        f"Accuracy in % on each task's test images, among the classes seen so far{mean}: what a "
        "linear classifier could still tell apart, and what the run's own head does."
    )
    return heat_maps(arm, "separability", caption, found)
