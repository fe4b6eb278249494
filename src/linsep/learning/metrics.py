"""Numbers about scores and about accuracy matrices. Knows tensors only.

An accuracy matrix is (T, T): row = after learning task t, column = on the classes of task i;
entries in [0, 1], NaN where nothing was measured (above the diagonal; in joint training all but the
last row). Metrics are in percent, None where undefined; docs/metrics.md has the equations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


def accuracy(scores: Tensor, y: Tensor, classes: Sequence[int] | None = None) -> float:
    """Share of rows whose best score, among `classes` if given, is at the right class."""
    if classes is not None:
        columns = torch.tensor(list(classes), device=scores.device)
        best = columns[scores[:, columns].argmax(1)]
    else:
        best = scores.argmax(1)
    return float((best == y.to(best.device)).double().mean())


def confusion(scores: Tensor, y: Tensor) -> Tensor:
    """(classes, classes) counts: row = the right class, column = the one with the best score."""
    classes = scores.shape[1]
    pairs = y.to(scores.device) * classes + scores.argmax(1)
    return torch.bincount(pairs, minlength=classes**2).view(classes, classes).cpu()


def final_average(matrix: Tensor) -> float | None:
    """FAA: mean of the last row."""
    return _percent(matrix[-1].mean())


def forgetting(matrix: Tensor, *, include_last: bool = False) -> float | None:
    """FF: mean over all tasks but the last of (best before the end - at the end).

    The best is over rows i..T-2, so FF may be negative; with `include_last` over i..T-1, as the
    authors' program has it (D18), so that it may not.
    """
    if len(matrix) < 2:
        return None
    rows = matrix if include_last else matrix[:-1]
    return _percent((_peak(rows[:, :-1]) - matrix[-1, :-1]).mean())


def learning_accuracy(matrix: Tensor) -> float | None:
    """ALA: mean of the diagonal, each task's accuracy just after it was learned."""
    return _percent(matrix.diagonal().mean())


def backward_transfer(matrix: Tensor) -> float | None:
    """BWT: mean over all tasks but the last of (at the end - just after it was learned)."""
    if len(matrix) < 2:
        return None
    return _percent((matrix[-1, :-1] - matrix.diagonal()[:-1]).mean())


def incremental_average(matrix: Tensor) -> float | None:
    """AIA: mean over rows of the mean accuracy on the tasks seen so far."""
    rows = [matrix[t, : t + 1].mean() for t in range(len(matrix))]
    return _percent(torch.stack(rows).mean())


def mean_peak(matrix: Tensor) -> float | None:
    """Mean over tasks of the best accuracy: before the end for all but the last task.

    So that FAA + (T-1)/T FF = mean peak, exactly.
    """
    last = matrix[-1, -1:]
    if len(matrix) < 2:
        return _percent(last.mean())
    return _percent(torch.cat([_peak(matrix[:-1, :-1]), last]).mean())


METRICS = {
    "faa": final_average,
    "ff": forgetting,
    "ala": learning_accuracy,
    "bwt": backward_transfer,
    "aia": incremental_average,
    "mean_peak": mean_peak,
}


def summary(matrix: Tensor) -> dict[str, float | None]:
    return {name: metric(matrix) for name, metric in METRICS.items()}


@dataclass(frozen=True)
class Flaw:
    """A combination of reported figures that no accuracy matrix can have."""

    text: str


def audit(metrics: Mapping[str, float | None], tasks: int) -> list[Flaw]:
    """Whether reported figures can come from one accuracy matrix of so many tasks."""
    flaws = []
    for name in ("faa", "ala", "aia", "mean_peak"):
        value = metrics.get(name)
        if value is not None and not 0 <= value <= 100:
            flaws.append(Flaw(f"{name.upper()} = {value:.2f} is not between 0 and 100"))
    faa, ff = metrics.get("faa"), metrics.get("ff")
    if faa is not None and ff is not None:
        peak = faa + (tasks - 1) / tasks * ff
        if peak > 100 + 1e-6:
            text = f"FAA + (T-1)/T FF = {faa:.2f} + {tasks - 1}/{tasks} * {ff:.2f} = {peak:.2f}"
            flaws.append(Flaw(f"{text}: a mean peak accuracy above 100"))
    return flaws


def _peak(rows: Tensor) -> Tensor:
    """The best of each column, from the diagonal down."""
    measured = torch.ones_like(rows, dtype=torch.bool).tril() & ~rows.isnan()
    return rows.masked_fill(~measured, -torch.inf).amax(0)


def _percent(value: Tensor) -> float | None:
    share = float(value)
    return None if share != share or abs(share) == float("inf") else 100 * share
