"""What a classifier knows of itself: rows kept from training, calibration, what was forgotten.

Knows lessons and columns, and the label of each column. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.images import Images
from ..errors import ConfigError, DivergedError
from .calibration import calibration_error, probabilities, temperature
from .course import Course, Lesson

MOST_HELD_OUT = 50  # images of a class that are kept to test on


def held_out(images: Images, share: float, seed: list[int]) -> tuple[Images, Images]:
    """A share of each class's rows apart; a class with few rows gives none."""
    if not 0 <= share < 1:
        raise ConfigError(f"holdout: should be a share from 0 to below 1, not {share}")
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


def report(course: Course, lesson: Lesson, columns: list[Any]) -> LessonReport:
    """What is known after a lesson, and how well, by the rows that were held out."""
    learner, tested = course.learner, course.tested
    assert learner is not None
    rows = [(learner.predict(g.test).cpu(), g.test.y) for g in tested if len(g.test)]
    some = lesson.task.train.take(torch.arange(min(len(lesson.task.train), 8)))
    _check([scores for scores, _ in rows] or [learner.predict(some).cpu()])
    fitted = 1.0
    error: list[float | None] = [None, None]
    if rows:
        scores, y = (torch.cat(column) for column in zip(*rows, strict=True))
        fitted = temperature(scores, y)
        error = [calibration_error(probabilities(scores, t), y) for t in (1.0, fitted)]
    past = [*map(_known, lesson.before), None]
    now = list(map(_known, lesson.after))
    names = [[columns[c] for c in group.classes] for group in tested]
    drops = [b - a for b, a in zip(past, now, strict=True) if b is not None and a is not None]
    return LessonReport({
        "images": len(lesson.task.train) + len(lesson.group.test),
        "new": [columns[c] for c in lesson.task.classes],
        "groups": [
            {"classes": own, "before": b, "after": a}
            for own, b, a in zip(names, past, now, strict=True)
        ],
        "forgotten": float(np.mean(drops)) if drops else None,
        "ece": {"before": error[0], "after": error[1]},
        "temperature": fitted,
    })  # fmt: skip


def _check(scores: Iterable[Tensor]) -> None:
    """Refuse a network that has diverged; a score of -inf is that of a class not seen."""
    if any((one.isnan() | (one == torch.inf)).any() for one in scores):
        raise DivergedError("the network's answers are no longer numbers; try a smaller lr")


def _known(value: float) -> float | None:
    return None if value != value else value
