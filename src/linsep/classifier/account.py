"""What a classifier knows of itself: rows kept from training, calibration, what was forgotten.

Probabilities are calibrated by temperature scaling, and how far confidence is from accuracy is
measured by the ECE: Guo et al., 2017.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.images import Images
from ..data.tasks import Group
from ..errors import DivergedError
from ..learning.metrics import accuracy
from ..learning.model import Model
from ..learning.run import Run

MOST_HELD_OUT = 50  # images of a class that are kept to test on
FEWEST = 20  # held-out rows below which a temperature would be noise
RANGE = (-4.0, 4.0)  # of the logarithm of the temperature
BINS = 15


def held_out(images: Images, share: float, seed: list[int]) -> tuple[Images, Images]:
    """A share of each class's rows apart; a class with few rows gives none."""
    held = torch.zeros(len(images), dtype=torch.bool)
    if share:
        rng = np.random.default_rng(seed)
        for c in images.y.unique().tolist():
            rows = (images.y == c).nonzero()[:, 0].numpy()
            n = min(int(share * len(rows)), MOST_HELD_OUT)
            held[torch.from_numpy(rng.permutation(rows)[:n])] = True
    return images.take((~held).nonzero()[:, 0]), images.take(held.nonzero()[:, 0])


class LessonReport(dict[str, Any]):
    """What is known after a lesson; a notebook shows the accuracy on each group of classes."""

    def _repr_html_(self) -> str:
        head, rows = "<th>classes</th><th>before this lesson</th><th>after it</th>", []
        for group in self["groups"]:
            shares = (group[when] for when in ("before", "after"))
            known = ["-" if share is None else f"{share:.1%}" for share in shares]
            cells = (", ".join(map(str, group["classes"])), *known)
            rows.append("".join(f"<td>{escape(cell)}</td>" for cell in cells))
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def report(run: Run, labels: list[Any]) -> LessonReport:
    """What is known after the run of a task, and how well, by the rows that were held out."""
    learner, task, groups = run.learner, run.scenario.tasks[-1], run.scenario.groups
    rows = [(learner.predict(g.test).cpu(), g.test.y) for g in groups if len(g.test)]
    some = task.train.take(torch.arange(min(len(task.train), 8)))
    _check([scores for scores, _ in rows] or [learner.predict(some).cpu()])
    place = len(groups) - 1
    past = [*map(_known, run.class_il[place - 1, :place].tolist()), None]
    now = list(map(_known, run.class_il[place].tolist()))
    drops = [b - a for b, a in zip(past, now, strict=True) if b is not None and a is not None]
    return LessonReport({
        "images": len(task.train) + len(groups[-1].test),
        "new": [labels[c] for c in task.classes],
        "groups": [
            {"classes": [labels[c] for c in group.classes], "before": b, "after": a}
            for group, b, a in zip(groups, past, now, strict=True)
        ],
        "forgotten": float(np.mean(drops)) if drops else None,
    } | _calibrated(rows))  # fmt: skip


def remeasured(learner: Model, groups: Sequence[Group], told: Mapping[str, Any]) -> dict[str, Any]:
    """A report on the last lesson, of the learner as it is now; the same if no row is held out."""
    rows = [(learner.predict(g.test).cpu(), g.test.y) for g in groups if len(g.test)]
    now = [accuracy(learner.predict(g.test), g.test.y) for g in groups]
    known = [
        {**before, "after": _known(after) if len(group.test) else before["after"]}
        for before, after, group in zip(told["groups"], now, groups, strict=True)
    ]
    return {**told, "groups": known} | (_calibrated(rows) if rows else {})


def _calibrated(rows: Sequence[tuple[Tensor, Tensor]]) -> dict[str, Any]:
    """The temperature that fits scores and labels, and the calibration error before and after."""
    if not rows:
        return {"ece": {"before": None, "after": None}, "temperature": 1.0}
    scores, y = (torch.cat(column) for column in zip(*rows, strict=True))
    fitted = temperature(scores, y)
    error = [calibration_error(probabilities(scores, t), y) for t in (1.0, fitted)]
    return {"ece": {"before": error[0], "after": error[1]}, "temperature": fitted}


def _check(scores: Iterable[Tensor]) -> None:
    """Refuse a network that has diverged; a score of -inf is that of a class not seen."""
    if any((one.isnan() | (one == torch.inf)).any() for one in scores):
        raise DivergedError("the network's answers are no longer numbers; try a smaller lr")


def _known(value: float) -> float | None:
    return None if value != value else value


def temperature(scores: Tensor, y: Tensor) -> float:
    """The number to divide scores by so that their softmax fits the labels best; 1 for few rows."""
    if len(y) < FEWEST:
        return 1.0
    from scipy.optimize import minimize_scalar

    s = scores.double()

    def loss(logarithm: float) -> float:
        return float(torch.nn.functional.cross_entropy(s / np.exp(logarithm), y))

    return float(np.exp(minimize_scalar(loss, bounds=RANGE, method="bounded").x))


def probabilities(scores: Tensor, temperature: float) -> Tensor:
    """(n, classes), 0 where a score is -inf."""
    return (scores.double() / temperature).softmax(1)


def calibration_error(p: Tensor, y: Tensor) -> float | None:
    """ECE: the mean gap between confidence and accuracy over 15 bins; None without rows."""
    if not len(y):
        return None
    sure, chosen = p.max(1)
    right = (chosen == y).double()
    place = (sure * BINS).long().clamp(max=BINS - 1)
    gap = 0.0
    for b in place.unique().tolist():
        here = place == b
        gap += float(here.double().mean() * (sure[here].mean() - right[here].mean()).abs())
    return gap
