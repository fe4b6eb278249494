"""Numbers about scores and about accuracy matrices, and the one table of metrics.

An accuracy matrix is (T, T): row = after learning task t, column = on the classes of task i;
entries in [0, 1], NaN where nothing was measured (above the diagonal; in joint training all but the
last row). Metrics are in percent, None where undefined; docs/metrics.md has the equations.

>>> import linsep
>>> nan = float("nan")
>>> matrix = [[0.9, nan, nan], [0.6, 0.8, nan], [0.5, 0.7, 0.6]]
>>> round(linsep.metrics.final_average(matrix), 2), round(linsep.metrics.forgetting(matrix), 2)
(60.0, 25.0)

Nothing here imports torch by itself: tables and listings read the metrics' names here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

from ..errors import DataError

if TYPE_CHECKING:
    from torch import Tensor


def _of_any_matrix(metric: Callable[[Tensor], float | None]) -> Callable[[Any], float | None]:
    """Let a metric take an array or nested lists as well as a tensor."""

    @wraps(metric)
    def of(matrix: Any) -> float | None:
        import torch

        found = torch.as_tensor(matrix, dtype=torch.float64)
        if found.ndim != 2 or not len(found) or len(found) != found.shape[1]:
            shape = tuple(found.shape)
            raise DataError(f"an accuracy matrix has a row and a column for each task, not {shape}")
        return metric(found)

    return of


def accuracy(scores: Tensor, y: Tensor, classes: Sequence[int] | None = None) -> float:
    """Share of rows whose best score, among `classes` if given, is at the right class."""
    return float(is_right(scores, y, classes).double().mean())


def is_right(scores: Tensor, y: Tensor, classes: Sequence[int] | None = None) -> Tensor:
    """Whether each row's best score, among `classes` if given, is at the right class."""
    if classes is not None:
        import torch

        columns = torch.tensor(list(classes), device=scores.device)
        best = columns[scores[:, columns].argmax(1)]
    else:
        best = scores.argmax(1)
    return best == y.to(best.device)


def count_confusions(table: Tensor, scores: Tensor, y: Tensor) -> None:
    """Add each row to (classes, classes) counts: at its right class and that of its best score."""
    pairs = y * len(table) + scores.argmax(1)
    table.view(-1).index_add_(0, pairs, pairs.new_ones(len(pairs)))


@_of_any_matrix
def final_average(matrix: Tensor) -> float | None:
    """FAA: mean of the last row."""
    return _percent(matrix[-1].mean())


@_of_any_matrix
def forgetting(matrix: Tensor) -> float | None:
    """FF: mean over all tasks but the last of (best before the end - at the end).

    The best is over rows i..T-2, in the paper and in the figures its authors log, so FF may be
    negative (D18).
    """
    if len(matrix) < 2:
        return None
    return _percent((_peak(matrix[:-1, :-1]) - matrix[-1, :-1]).mean())


@_of_any_matrix
def learning_accuracy(matrix: Tensor) -> float | None:
    """ALA: mean of the diagonal, each task's accuracy just after it was learned."""
    return _percent(matrix.diagonal().mean())


@_of_any_matrix
def backward_transfer(matrix: Tensor) -> float | None:
    """BWT: mean over all tasks but the last of (at the end - just after it was learned)."""
    if len(matrix) < 2:
        return None
    return _percent((matrix[-1, :-1] - matrix.diagonal()[:-1]).mean())


@_of_any_matrix
def incremental_average(matrix: Tensor) -> float | None:
    """AIA: mean over rows of the mean accuracy on the tasks seen so far."""
    rows = [float(matrix[t, : t + 1].mean()) for t in range(len(matrix))]
    return _percent(matrix.new_tensor(rows).mean())


@_of_any_matrix
def mean_peak(matrix: Tensor) -> float | None:
    """Mean over tasks of the best accuracy: before the end for all but the last task.

    So that FAA + (T-1)/T FF = mean peak, exactly.
    """
    best = matrix[-1].clone()
    if len(matrix) > 1:
        best[:-1] = _peak(matrix[:-1, :-1])
    return _percent(best.mean())


@dataclass(frozen=True)
class Metric:
    """A number in percent about an accuracy matrix."""

    title: str  # in tables
    better: Literal["max", "min"]
    meaning: str
    of: Callable[[Any], float | None]


METRICS: Mapping[str, Metric] = {
    "faa": Metric("FAA", "max", "final average accuracy", final_average),
    "ff": Metric("FF", "min", "final forgetting", forgetting),
    "ala": Metric("ALA", "max", "average learning accuracy", learning_accuracy),
    "bwt": Metric("BWT", "max", "backward transfer", backward_transfer),
    "aia": Metric("AIA", "max", "average incremental accuracy", incremental_average),
    "mean_peak": Metric("mean peak", "max", "mean best accuracy", mean_peak),
}
REPORTED = ("faa", "ff", "ala")  # in tables and figures
PROTOCOLS = {"class_il": "Class-IL", "task_il": "Task-IL"}  # in which accuracy is measured

# What a run cost, as its folder has it, and what that is; docs/cost.md has the definitions.
COSTS: Mapping[str, str] = {
    "compute": "images through the networks, as a multiple of fine-tuning's",
    "images": "images through the networks over the run, in forward passes",
    "seconds": "CPU seconds of training; on an accelerator, wall time",
    "bytes": "bytes kept from task to task, without the network",
    "parameters": "parameters of the networks, and numbers that terms keep",
    "step.forward": "images forward in a step of the last task",
    "step.backward": "images backward in a step of the last task",
    "step.frozen": "images through the previous network in a step of the last task",
}


def summary(matrix: Tensor) -> dict[str, float | None]:
    """Return every metric by its name, in percent; None where it is undefined."""
    return {name: metric.of(matrix) for name, metric in METRICS.items()}


def audit(metrics: Mapping[str, float | None], tasks: int) -> list[str]:
    """Combinations of reported figures that no accuracy matrix of so many tasks can have."""
    flaws = []
    for name in ("faa", "ala", "aia", "mean_peak"):
        value = metrics.get(name)
        if value is not None and not 0 <= value <= 100:
            flaws.append(f"{name.upper()} = {value:.2f} is not between 0 and 100")
    faa, ff = metrics.get("faa"), metrics.get("ff")
    if faa is not None and ff is not None:
        peak = faa + (tasks - 1) / tasks * ff
        if peak > 100 + 1e-6:
            text = f"FAA + (T-1)/T FF = {faa:.2f} + {tasks - 1}/{tasks} * {ff:.2f} = {peak:.2f}"
            flaws.append(f"{text}: a mean peak accuracy above 100")
        reported = metrics.get("mean_peak")
        if reported is not None and abs(peak - reported) > 1e-6:
            flaws.append(f"FAA + (T-1)/T FF = {peak:.4f} is not the mean peak, {reported:.4f}")
    return flaws


def _peak(rows: Tensor) -> Tensor:
    """The best of each column, from the diagonal down."""
    measured = (~rows.isnan()).tril()
    return rows.masked_fill(~measured, float("-inf")).amax(0)


def _percent(value: Tensor) -> float | None:
    share = float(value)
    return None if share != share or abs(share) == float("inf") else 100 * share
