"""Singular values of the features and proj-acc(k): figure 2 of the paper."""

from collections.abc import Mapping

from ..compare import statistics
from ..compare.tables import Table, Value
from . import style
from .canvas import Canvas, Figure
from .draw_lines import legend, six, thinned
from .gather import ArmRuns, Gathered

TITLE = "Spectrum of the features"
Curves = dict[int, list[tuple[int, float]]]  # task -> (k, value)
KINDS = ("singular values", "proj-acc(k), newest task", "proj-acc(k), all seen")
PANELS = tuple(f"{kind}{scale}" for kind in KINDS for scale in ("", ", relative"))


def figures(gathered: Gathered) -> list[Figure]:
    """One for every arm; arms of a block have the same axes."""
    drawn = []
    for block in gathered.blocks:
        known = [(arm, panels) for arm in block.arms if (panels := _means(arm))]
        tops = {
            name: max(v for _, panels in known for curve in panels[name].values() for _, v in curve)
            for name in (PANELS if known else ())
        }
        drawn += [_figure(arm, panels, tops) for arm, panels in known]
    return drawn


def _means(arm: ArmRuns) -> dict[str, Curves]:
    """Means over seeds of each panel's curves; {} if there are none."""
    analyses = arm.analyses("spectrum")
    tasks = sorted({t["task"] for one in analyses for t in one["tasks"]})
    panels: dict[str, Curves] = {name: {} for name in PANELS}
    for task in tasks:
        here = [t for one in analyses for t in one["tasks"] if t["task"] == task]
        size = min(len(t["values"]) for t in here)
        if not size:
            continue
        for kind, many, scale in (
            (KINDS[0], [t["values"] for t in here], 1.0),
            (KINDS[1], [t["proj_acc"]["newest"][1:] for t in here], 100.0),
            (KINDS[2], [t["proj_acc"]["seen"][1:] for t in here], 100.0),
        ):
            means = [six(scale * statistics.mean([c[k] for c in many])) for k in range(size)]
            top = max(means) or 1.0
            kept = thinned(size, most=28)
            panels[kind][task] = [(k + 1, means[k]) for k in kept]
            panels[f"{kind}, relative"][task] = [(k + 1, six(means[k] / top)) for k in kept]
    return panels if any(panels.values()) else {}


def _figure(arm: ArmRuns, panels: dict[str, Curves], tops: Mapping[str, float]) -> Figure:
    rows: list[list[Value]] = [
        [name, task + 1, k, value]
        for name, curves in panels.items()
        for task, curve in curves.items()
        for k, value in curve
    ]

    def draw() -> Canvas:
        canvas = Canvas("half", 6.4)
        titles = [name + (", %" if name in KINDS[1:] else "") for name in PANELS]
        grid = canvas.panels(titles, columns=2, share="x")
        shades = style.ramp(max(panels[PANELS[0]]) + 1)
        for axes, name in zip(grid, PANELS, strict=True):
            for task, curve in panels[name].items():
                axes.plot(
                    *zip(*curve, strict=True), color=shades[task], label=f"after task {task + 1}"
                )
                # The right column says the same: spots there would only make the page larger.
                for k, value in curve[:: max(1, len(curve) // 4)] if name in KINDS else ():
                    canvas.spot(axes, k, value, f"task {task + 1}, k = {k}: {value:.4g}")
            style.log_scale(axes)
            axes.set_ylim(0, 1.05 * tops[name])
        for axes in grid[-2:]:
            axes.set_xlabel("principal direction k")
        legend(canvas, grid[:1])
        return canvas

    caption = (
        "Features of the training images seen so far, after each task; proj-acc(k) is the accuracy "
        "on test images, of the newest task and of all tasks seen, when features keep only their k "
        "largest principal directions. On the right, each curve as a share of its maximum."
    )
    caption += " Means over seeds." if arm.averaged else ""
    data = Table(["panel", "after task", "k", "value"], rows)
    named = arm.named("spectrum")
    return Figure(named, arm.title, caption, draw, data, "half", [arm.look.arm])
