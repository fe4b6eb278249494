"""How training went: loss terms over epochs, and how fast it was.

Knows events and timings as runs store them. Knows nothing of files.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..compare import statistics
from ..compare.tables import Spread, Table, Value
from .canvas import Canvas, Figure
from .draw_lines import Series, borders, legend, plot, series, spread_note, table
from .gather import ArmRuns, Block, Gathered, Run

MOST_EPOCHS = 120  # that are drawn of one line


def losses(block: Block) -> Figure | None:
    """A panel for each term, arms as lines, over all epochs of all tasks."""
    panels: dict[str, list[Series]] = {}
    ends: list[int] = []
    for arm in block.arms:
        for term, values in _terms(arm).items():
            thin = math.ceil(max(x for x, _ in values) / MOST_EPOCHS)
            kept = [(x, value) for x, value in values if (x - 1) % thin == 0]
            if line := series(arm.label, arm.look, kept, each=False):
                panels.setdefault(term, []).append(line)
        ends = max(ends, _task_ends(arm), key=len)
    if not panels:
        return None

    def draw() -> Canvas:
        columns = 2 if len(panels) in (2, 4) else min(3, len(panels))
        height = 2.6 * math.ceil(len(panels) / columns) + 0.6
        canvas = Canvas("whole", height)
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

    title = block.titled("Loss terms over training")
    caption = (
        "Each term before its weight, mean over the steps of an epoch. Dashed lines are borders of "
        "tasks."
    )
    caption += spread_note(panels.values())
    data = table(panels, panel="term", x="epoch", y="loss")
    return Figure(block.named("losses"), title, caption, draw, data, "whole")


def _terms(arm: ArmRuns) -> dict[str, list[tuple[float, float]]]:
    """term -> (number of the epoch, value) of all seeds."""
    found: dict[str, list[tuple[float, float]]] = {}
    for run in arm.runs:
        for number, event in enumerate(_epochs(run), 1):
            for term, value in event["losses"].items():
                found.setdefault(term, []).append((number, value))
    return found


def _epochs(run: Run) -> list[Mapping[str, Any]]:
    return [event for event in run.events if event["event"] == "epoch_end"]


def _task_ends(arm: ArmRuns) -> list[int]:
    """After how many epochs each task was done."""
    tasks = [event["task"] for event in _epochs(arm.runs[0])]
    return [i + 1 for i, task in enumerate(tasks) if i + 1 == len(tasks) or tasks[i + 1] != task]


def speed(gathered: Gathered) -> Table | None:
    """Seconds and images a second of every arm."""
    several = len(gathered.blocks) > 1
    rows: list[list[Value]] = []
    for block in gathered.blocks:
        for arm in block.arms:
            timings = [run.timing for run in arm.runs if run.timing]
            seconds = [sum(t["seconds"] for t in timing) for timing in timings]
            images = [sum(t["images"] for t in timing) for timing in timings]
            rates = [i / s for s, i in zip(seconds, images, strict=True) if s > 0 and i]
            if timings:
                place: list[Value] = [block.title] if several else []
                cells = [_spread(seconds), max(images), _spread(rates)]
                rows.append([*place, arm.label, len(timings), *cells])
    head = ["setting"] if several else []
    columns = [*head, "method", "seeds", "seconds", "images", "images/s"]
    return Table(columns, rows, group="setting" if several else None, digits=1) if rows else None


def _spread(values: Sequence[float]) -> Spread | None:
    return Spread(statistics.mean(values), statistics.std(values)) if values else None
