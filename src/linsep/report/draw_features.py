"""What the paper asks of features: their spectrum, linear probes, how alike they stay.

Knows the contents of `analysis/*.json` as `analyse` makes them. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..compare import statistics
from ..compare.tables import Table, Value
from . import style
from .canvas import Canvas, Figure
from .draw_accuracy import pair_of_matrices
from .draw_lines import Series, legend, plot, series, six, table, thinned
from .gather import Block, Group, Matrix

# --- spectrum and proj-acc -----------------------------------------------------------------------

Curves = dict[int, list[tuple[int, float]]]  # task -> (k, value)
KINDS = ("singular values", "proj-acc(k), newest task", "proj-acc(k), all seen")
PANELS = (*KINDS, *(f"{kind}, relative" for kind in KINDS))


def spectra(block: Block) -> list[Figure]:
    """Figure 2 of the paper for every arm, on the same axes."""
    found = {group.label: (group, _spectrum(group)) for group in block.groups}
    known = {label: pair for label, pair in found.items() if pair[1]}
    tops = [
        max((v for _, panels in known.values() for _, v in _all(panels[name])), default=1.0)
        for name in PANELS
    ]
    return [_spectrum_figure(group, panels, tops, block.title) for group, panels in known.values()]


def _spectrum(group: Group) -> dict[str, Curves]:
    """Means over seeds of each panel's curves; {} if there are none."""
    analyses = group.analyses("spectrum")
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


def _spectrum_figure(
    group: Group, panels: dict[str, Curves], tops: Sequence[float], place: str
) -> Figure:
    rows: list[list[Value]] = [
        [name, task + 1, k, value]
        for name, curves in panels.items()
        for task, curve in curves.items()
        for k, value in curve
    ]

    def draw() -> Canvas:
        canvas = Canvas(7.4, 4.7)
        grid = [axes for row in canvas.panels(2, 3, sharex=True) for axes in row]
        shades = style.ramp(max(panels[PANELS[0]]) + 1)
        for axes, name, top in zip(grid, PANELS, tops, strict=True):
            for task, curve in panels[name].items():
                colour = shades[task]
                ks, values = zip(*curve, strict=True)
                axes.plot(ks, values, color=colour, label=f"after task {task + 1}")
                # The lower row says the same: spots there would only make the page larger.
                for k, value in curve[:: max(1, len(curve) // 4)] if name in KINDS else ():
                    said = f"task {task + 1}, k = {k}: {value:.4g}"
                    canvas.spot(axes, k, value, said)
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(style.plain_number)
            axes.minorticks_off()
            axes.set_ylim(0, 1.05 * top)
            axes.set_title(name + (", %" if name in KINDS[1:] else ""))
        for axes in grid[len(KINDS) :]:
            axes.set_xlabel("principal direction k")
        legend(canvas, grid[:1], columns=5)
        return canvas

    name = "-".join(filter(None, ["spectrum", style.slug(place), group.slug]))
    title = f"{group.label}{f' ({place})' if place else ''}"
    caption = (
        "Features of the training images seen so far, after each task; proj-acc(k) is the accuracy "
        "on test images, of the newest task and of all tasks seen, when features keep only their k "
        "largest principal directions. Below, each curve as a share of its maximum. Means over "
        "seeds."
    )
    data = Table(["panel", "after task", "k", "value"], rows)
    return Figure(name, title, caption, draw, data, wide=True)


def _all(curves: Curves) -> list[tuple[int, float]]:
    return [point for curve in curves.values() for point in curve]


# --- probing -------------------------------------------------------------------------------------


def probing(block: Block) -> Figure | None:
    """Linear probes of the final features over portions of the training images."""
    lines: list[Series] = []
    heads: list[Series] = []
    for group in block.groups:
        analyses = group.analyses("probe")
        values: dict[float, list[float]] = {}
        for one in analyses:
            for draw_ in one["final"]:
                values.setdefault(float(draw_["portion"]), []).append(100 * draw_["accuracy"])
        ordered = {portion: values[portion] for portion in sorted(values)}
        line = series(group.label, group.look, ordered)
        head = series(group.label, group.look, {1.0: [100 * one["head"] for one in analyses]})
        if line and head:
            lines.append(line)
            heads.append(head)
    if not lines:
        return None

    def draw() -> Canvas:
        canvas = Canvas(7.2, 3.3 + 0.18 * (len(lines) // 3))
        axes = canvas.panels(1, 1)[0][0]
        plot(canvas, axes, lines, x="portion", unit=" %", digits=1)
        for head in heads:
            point, look = head.points[0], head.look
            hollow = {"markerfacecolor": "none", "markersize": 8, "linestyle": "none"}
            axes.plot([1.3], [point.mean], marker="*", color=look.colour, **hollow)
            said = f"{head.label}, the head it was trained with: {point.mean:.1f} %"
            canvas.spot(axes, 1.3, point.mean, said)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(style.plain_number)
        axes.minorticks_off()
        axes.set_xlabel("portion of the training images")
        axes.set_ylabel("accuracy, %")
        legend(canvas, [axes], columns=3)
        return canvas

    name = f"probe-{block.slug}".strip("-")
    title = f"Linear probing of the final features{f' ({block.title})' if block.title else ''}"
    caption = (
        "A linear classifier trained on frozen features of a portion of all training images; the "
        "band is one standard deviation over draws and seeds. Stars: the head that the run trained."
    )
    panels = {"linear probe": lines, "trained head": heads}
    data = table(panels, panel="classifier", x="portion", y="accuracy %")
    return Figure(name, title, caption, draw, data, wide=True)


def separability(group: Group, place: str) -> Figure | None:
    """After every task, on every task seen: a linear probe against the trained head."""
    rounds = [one["rounds"] for one in group.analyses("probe") if one.get("rounds")]
    if not rounds:
        return None
    size = max(r["task"] for one in rounds for r in one) + 1

    def matrix(one: Sequence[dict[str, Any]], kind: str) -> Matrix:
        found: Matrix = [[None] * size for _ in range(size)]
        for r in one:
            for i, share in enumerate(r[kind]):
                found[r["task"]][i] = share
        return found

    kinds = {"linear probe": "probe", "trained head": "head"}
    found = {name: [matrix(one, kind) for one in rounds] for name, kind in kinds.items()}
    caption = (
        "Accuracy in % on each task's test images, among the classes seen so far, mean over seeds: "
        "what a linear classifier could still tell apart, and what the trained head does."
    )
    name = "-".join(filter(None, ["separability", style.slug(place), group.slug]))
    return pair_of_matrices(name, f"{group.label}{f' ({place})' if place else ''}", caption, found)


# --- similarity ----------------------------------------------------------------------------------


def similarity(block: Block) -> Figure | None:
    """CKA before and after each task, on data seen before it and on its own."""
    parts = ("seen", "unseen")
    lines = {
        part: [line for group in block.groups if (line := _cka(group, part))] for part in parts
    }
    if not any(lines.values()):
        return None

    def draw() -> Canvas:
        canvas = Canvas(7.2, 3.2 + 0.18 * (len(lines["seen"]) // 4))
        both = canvas.panels(1, 2, sharex=True, sharey=True)[0]
        for axes, (part, found) in zip(both, lines.items(), strict=True):
            plot(canvas, axes, found, x=f"{part} data, task", digits=3)
            axes.set_title({"seen": "classes of earlier tasks", "unseen": "the task's own"}[part])
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.set_xlabel("task")
        both[0].set_ylabel("CKA")
        both[0].set_ylim(top=min(1.02, both[0].get_ylim()[1]))
        legend(canvas, both)
        return canvas

    name = f"cka-{block.slug}".strip("-")
    title = f"How alike features stay{f' ({block.title})' if block.title else ''}"
    caption = (
        "Linear CKA (centred) of test images' features before and after learning a task: of "
        "classes seen in earlier tasks, and of the task's own, unseen before it."
    )
    data = table(lines, panel="data", x="task", y="CKA")
    return Figure(name, title, caption, draw, data, wide=True)


def _cka(group: Group, part: str) -> Series | None:
    values: dict[float, list[float]] = {}
    for one in group.analyses("cka"):
        for task in one["tasks"]:
            found = task[part]["centred"]
            if found is not None:
                values.setdefault(task["task"] + 1, []).append(found)
    return series(group.label, group.look, values)
