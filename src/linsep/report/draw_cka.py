"""How alike features stay when a task is learned, by CKA: figure 5 of the paper."""

from collections.abc import Iterator

from .canvas import Figure
from .draw_lines import lines_figure, series
from .gather import ArmRuns, Block, Gathered

TITLE = "Similarity of features"
PARTS = {"seen": "classes of earlier tasks", "unseen": "the task's own classes"}


def figures(gathered: Gathered) -> list[Figure]:
    return [figure for block in gathered.blocks if (figure := _similarity(block))]


def _similarity(block: Block) -> Figure | None:
    """CKA before and after each task, on data seen before it and on its own."""
    lines = {
        shown: [series(arm.label, arm.look, _values(arm, part)) for arm in block.arms]
        for part, shown in PARTS.items()
    }
    return lines_figure(
        block.named("cka"),
        block.titled("Similarity of features before and after each task"),
        "Linear CKA (centred) of test images' features before and after learning a task: of "
        "classes seen in earlier tasks, and of the task's own, unseen before it.",
        {shown: [line for line in many if line] for shown, many in lines.items()},
        panel="data", x="task", y="CKA", digits=3, share="y",
    )  # fmt: skip


def _values(arm: ArmRuns, part: str) -> Iterator[tuple[float, float]]:
    for content in arm.analyses("cka"):
        for task in content["tasks"]:
            yield task["task"] + 1, task[part]["centred"]
