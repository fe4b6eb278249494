"""How linearly features move when a task is learned: what a linear map of old to new misses."""

from collections.abc import Iterator

from .canvas import Figure
from .draw_lines import lines_figure, series
from .gather import ArmRuns, Block, Gathered

TITLE = "Drift of features"
SHOWN = "classes of earlier tasks"


def figures(gathered: Gathered) -> list[Figure]:
    return [figure for block in gathered.blocks if (figure := _drift(block))]


def _drift(block: Block) -> Figure | None:
    """The share of variance that a map, fitted to a task's images, misses on test images."""
    lines = [series(arm.label, arm.look, _values(arm)) for arm in block.arms]
    return lines_figure(
        block.named("drift"),
        block.titled("What a linear map from old to new features misses"),
        "Variance of features after a task that a linear map of those before it misses, on test "
        "images of earlier classes; the map is fitted to the task's own. Lower: drift is linear.",
        {SHOWN: [line for line in lines if line]},
        panel="data", x="task", y="variance missed", digits=2,
    )  # fmt: skip


def _values(arm: ArmRuns) -> Iterator[tuple[float, float]]:
    for content in arm.analyses("drift"):
        for task in content["tasks"]:
            yield task["task"] + 1, task["layers"][-1]["old"]  # the features
