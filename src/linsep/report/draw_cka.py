"""How alike features stay when a task is learned, by CKA: figure 5 of the paper."""

from __future__ import annotations

from .canvas import Canvas, Figure
from .draw_lines import Series, legend, plot, series, table
from .gather import ArmRuns, Block, Gathered

TITLE = "Similarity of features"


def figures(gathered: Gathered) -> list[Figure]:
    return [figure for block in gathered.blocks if (figure := _similarity(block))]


def _similarity(block: Block) -> Figure | None:
    """CKA before and after each task, on data seen before it and on its own."""
    parts = ("seen", "unseen")
    lines = {part: [line for arm in block.arms if (line := _line(arm, part))] for part in parts}
    if not any(lines.values()):
        return None

    def draw() -> Canvas:
        canvas = Canvas(7.2, 3.2 + 0.18 * (len(lines["seen"]) // 4))
        both = canvas.panels(1, 2, sharex=True, sharey=True)[0]
        for axes, (part, found) in zip(both, lines.items(), strict=True):
            plot(canvas, axes, found, f"{part} data, task {{:g}}".format, digits=3)
            axes.set_title({"seen": "classes of earlier tasks", "unseen": "the task's own"}[part])
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.set_xlabel("task")
        both[0].set_ylabel("CKA")
        both[0].set_ylim(top=min(1.02, both[0].get_ylim()[1]))
        legend(canvas, both)
        return canvas

    caption = (
        "Linear CKA (centred) of test images' features before and after learning a task: of "
        "classes seen in earlier tasks, and of the task's own, unseen before it."
    )
    title = block.titled("Similarity of features before and after each task")
    data = table(lines, panel="data", x="task", y="CKA")
    return Figure(block.named("cka"), title, caption, draw, data, wide=True)


def _line(arm: ArmRuns, part: str) -> Series | None:
    values: dict[float, list[float]] = {}
    for one in arm.analyses("cka"):
        for task in one["tasks"]:
            values.setdefault(task["task"] + 1, []).append(task[part]["centred"])
    return series(arm.label, arm.look, values)
