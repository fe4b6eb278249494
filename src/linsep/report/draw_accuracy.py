"""Accuracies and losses as tasks come: averages over tasks, forgetting, matrices, confusion, and
the loss terms of training."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from ..compare import statistics
from ..compare.naming import is_bound
from ..compare.tables import Table, Value
from ..learning.metrics import PROTOCOLS
from . import style
from .canvas import Axes, Canvas, Figure, Room
from .gather import Block, Matrix, Run, VariantRuns
from .lines import (
    Points,
    Series,
    borders,
    by_variant,
    legend,
    lines_figure,
    plot,
    spread_note,
    table,
)

NAMED = 24  # classes or tasks up to which every one is named
SMALL = 6  # tasks up to which the numbers of two matrices fit into a third of the page
NUMBERED = 10  # tasks up to which every cell has its number in it
LIGHT = 0.62  # share from which a cell is so light that its text is dark
DARK_TEXT, LIGHT_TEXT = "#111111", "#ffffff"


# --- over tasks ----------------------------------------------------------------------------------


def over_tasks(block: Block) -> Figure | None:
    """Mean accuracy on the tasks seen so far, after each task."""
    bound = any(is_bound(variant.variant.method) for variant in block.variants)
    joint = " Joint training (JT) sees all data at once, so it is a single point." if bound else ""
    return lines_figure(
        block,
        "accuracy-over-tasks",
        "Average accuracy on the tasks learned so far",
        f"Mean over the tasks seen so far, after each task.{joint}",
        _panels(block, averages),
        panel="protocol", x="tasks learned", y="average accuracy", unit=" %", digits=1,
    )  # fmt: skip


def forgetting(block: Block) -> Figure | None:
    """The values that FF is the mean of."""
    return lines_figure(
        block,
        "forgetting",
        "Forgetting of each task",
        "Best accuracy on a task before the last one was learned, minus its accuracy at the end; "
        "final forgetting (FF) is the mean over these tasks. Below 0 a task got better at the end.",
        _panels(block, forgotten),
        panel="protocol", x="task", y="forgetting", unit=" %", digits=1,
    )  # fmt: skip


def averages(matrix: Matrix) -> Iterator[tuple[float, float]]:
    for t, row in enumerate(matrix):
        known = [v for v in row[: t + 1] if v is not None]
        if len(known) == t + 1:
            yield t + 1, 100 * statistics.mean(known)


def forgotten(matrix: Matrix) -> Iterator[tuple[float, float]]:
    last = len(matrix) - 1
    for i in range(last):
        peaks = [v for row in matrix[i:last] if (v := row[i]) is not None]
        final = matrix[last][i]
        if peaks and final is not None:
            yield i + 1, 100 * (max(peaks) - final)


def _panels(block: Block, points: Callable[[Matrix], Points]) -> dict[str, list[Series]]:
    """A line for each variant and protocol, of points that each seed's matrix gives."""

    def of(protocol: str) -> Callable[[VariantRuns], Points]:
        return lambda variant: (
            point for matrix in variant.matrices(protocol) for point in points(matrix)
        )

    return {shown: by_variant(block, of(protocol)) for protocol, shown in PROTOCOLS.items()}


# --- matrices ------------------------------------------------------------------------------------


def matrices(variant: VariantRuns) -> Figure | None:
    """Draw the accuracy matrices: Class-IL and Task-IL, after each task on each task."""
    mean = ", mean over seeds" if variant.averaged else ""
    caption = f"Accuracy in %{mean}: row = after learning a task, column = on a task."
    found = {shown: variant.matrices(protocol) for protocol, shown in PROTOCOLS.items()}
    return heat_maps(variant, "accuracy-matrix", caption, {k: v for k, v in found.items() if v})


def heat_maps(
    variant: VariantRuns, kind: str, caption: str, found: dict[str, list[Matrix]]
) -> Figure | None:
    """Means over matrices of one size, a panel for each name."""
    means: dict[str, list[list[float | None]]] = {}
    rows: list[list[Value]] = []
    for panel, many in found.items():
        size = len(many[0])
        alike = [m for m in many if len(m) == size]
        means[panel] = [[None] * size for _ in range(size)]
        for t, i in product(range(size), repeat=2):
            if known := [100 * v for m in alike if (v := m[t][i]) is not None]:
                mean = means[panel][t][i] = statistics.mean(known)
                rows.append([panel, t + 1, i + 1, mean, statistics.std(known), len(known)])
    if not rows:
        return None
    room: Room = "third" if max(map(len, means.values())) <= SMALL else "half"

    def draw() -> Canvas:
        canvas = Canvas(room, 2.35 if room == "third" else 3.4)
        for axes, values in zip(canvas.panels(means), means.values(), strict=True):
            _heat(canvas, axes, values)
        return canvas

    data = Table(["panel", "after task", "on task", "accuracy %", "std", "n"], rows)
    return Figure(
        variant.named(kind), variant.title, caption, draw, data, room, [variant.look.variant]
    )


def _image(axes: Axes, values: np.ndarray) -> Any:
    """Percentages as colours, with nothing around them."""
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return axes.imshow(values, vmin=0, vmax=100)


def _heat(canvas: Canvas, axes: Axes, values: Sequence[Sequence[float | None]]) -> None:
    size = len(values)
    _image(axes, np.array(values, float))  # None becomes NaN
    ticks = range(0, size, 1 if size <= NAMED else 5)
    axes.set_xticks(ticks, [str(t + 1) for t in ticks])
    axes.set_yticks(ticks, [str(t + 1) for t in ticks])
    axes.set_xlabel("on task")
    axes.set_ylabel("after task")
    for t, i in product(range(size), repeat=2):
        if (value := values[t][i]) is None:
            continue
        canvas.spot(axes, i, t, f"after task {t + 1}, on task {i + 1}: {value:.1f} %", (1, 1))
        if size <= NUMBERED:
            shade = DARK_TEXT if value >= 100 * LIGHT else LIGHT_TEXT
            axes.text(i, t, f"{value:.0f}", color=shade, ha="center", va="center")


# --- confusion -----------------------------------------------------------------------------------


def confusion(variant: VariantRuns) -> Figure | None:
    """Rows are true classes, columns predicted ones, summed over seeds."""
    runs = [run for run in variant.runs if run.confusion is not None]
    runs = [run for run in runs if run.classes == runs[0].classes]
    if not runs or not any(map(any, runs[0].confusion or [])):
        return None
    order, ends = _class_order(runs)
    counts = np.sum([np.array(run.confusion) for run in runs], axis=0)[np.ix_(order, order)]
    names = [f"{c} {style.clean(runs[0].classes[c], 40)}" for c in order]
    rows = [[name, *row] for name, row in zip(names, counts.tolist(), strict=True)]
    summed = ", summed over seeds" if variant.averaged else ""
    caption = (
        f"Class-IL after the last task{summed}: rows are true classes, columns predicted ones; "
        "colours are shares of a row. "
    )
    caption += "Lines are borders of tasks." if ends else "Seeds order the classes differently."

    def draw() -> Canvas:
        canvas = Canvas("third", 3.5)
        _confusion(canvas, canvas.panels()[0], counts, ends, names)
        return canvas

    data = Table(["true class", *names], rows)
    return Figure(
        variant.named("confusion"),
        variant.title,
        caption,
        draw,
        data,
        variants=[variant.look.variant],
    )


def _class_order(runs: Sequence[Run]) -> tuple[list[int], list[int]]:
    """Classes by task, and after how many of them tasks end; by number if seeds differ in it."""
    tasks = runs[0].tasks
    order = [c for task in tasks for c in task]
    if all(run.tasks == tasks for run in runs) and len(set(order)) == len(order) and order:
        rest = [c for c in range(len(runs[0].classes)) if c not in set(order)]
        return order + rest, list(np.cumsum([len(task) for task in tasks]))
    return list(range(len(runs[0].classes))), []


def _confusion(
    canvas: Canvas, axes: Axes, counts: np.ndarray, ends: Sequence[int], names: Sequence[str]
) -> None:
    shares = 100 * counts / np.maximum(counts.sum(1, keepdims=True), 1)
    image, size = _image(axes, shares), len(counts)
    for end in ends[:-1]:
        for line in (axes.axhline, axes.axvline):
            line(end - 0.5, color="#ffffff", linewidth=0.8, alpha=0.8)
    if size <= NAMED:
        short = [style.clean(name.partition(" ")[2] or name, 14) for name in names]
        axes.set_xticks(range(size), short, rotation=90)
        axes.set_yticks(range(size), short)
    elif ends:
        starts = [0, *ends[:-1]]
        middles = [(a + b - 1) / 2 for a, b in zip(starts, ends, strict=True)]
        shown = [f"task {t + 1}" for t in range(len(ends))]
        axes.set_xticks(middles, shown, rotation=90)
        axes.set_yticks(middles, shown)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    bar = canvas.drawing.colorbar(image, ax=axes, shrink=0.7, label="% of the row")
    bar.outline.set_visible(False)
    canvas.grids.append(axes)


# --- losses --------------------------------------------------------------------------------------

MOST_EPOCHS = 120  # that are drawn of one line


def losses(block: Block) -> Figure | None:
    """A panel for each term, variants as lines, over all epochs of all tasks."""
    terms = {
        t: None for a in block.variants for r in a.runs for e in _epochs(r) for t in e["losses"]
    }
    panels = {term: by_variant(block, partial(_of_term, term), each=False) for term in terms}
    panels = {term: lines for term, lines in panels.items() if lines}
    if not panels:
        return None
    ends = max((_task_ends(variant.runs[0]) for variant in block.variants), key=len)

    def draw() -> Canvas:
        columns = 2 if len(panels) in (2, 4) else min(3, len(panels))
        canvas = Canvas("whole", 2.6 * math.ceil(len(panels) / columns) + 0.6)
        grid = canvas.panels(panels, columns, share="x")
        for axes, lines in zip(grid, panels.values(), strict=True):
            plot(canvas, axes, lines, "epoch {:g}".format, digits=4)
            borders(axes, [end + 0.5 for end in ends[:-1]])
            axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        for axes in grid[-columns:]:
            axes.set_xlabel("epoch, over all tasks")
            axes.tick_params(labelbottom=True)
        legend(canvas, grid)
        return canvas

    caption = (
        "Each term before its weight, mean over the steps of an epoch. Dashed lines are borders of "
        f"tasks.{spread_note(panels.values())}"
    )
    data, title = table(panels, panel="term", x="epoch", y="loss"), "Loss terms over training"
    return Figure(block.named("losses"), block.titled(title), caption, draw, data, "whole")


def _of_term(term: str, variant: VariantRuns) -> Points:
    """(number of the epoch, value) of all seeds; of many epochs only some."""
    every = [
        (number, event["losses"][term])
        for run in variant.runs
        for number, event in enumerate(_epochs(run), 1)
        if term in event["losses"]
    ]
    thin = math.ceil(max((x for x, _ in every), default=0) / MOST_EPOCHS)
    return [(x, value) for x, value in every if (x - 1) % thin == 0]


def _epochs(run: Run) -> list[Mapping[str, Any]]:
    return [event for event in run.events if event["event"] == "epoch_end"]


def _task_ends(run: Run) -> list[int]:
    """After how many epochs each task was done."""
    tasks = [event["task"] for event in _epochs(run)]
    return [i + 1 for i, task in enumerate(tasks) if i + 1 == len(tasks) or tasks[i + 1] != task]
