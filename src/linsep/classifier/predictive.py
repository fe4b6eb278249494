"""What a classifier answers: classes, probabilities, novelty, and a file that predicts elsewhere.

This module imports no scikit-learn, which takes as long as half of torch: a saved classifier
answers without it.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..data.images import Images, join
from ..data.objects import Form, InputError, read
from ..errors import ConfigError, unknown
from ..learning.learner import Learner
from . import saved
from .account import LessonReport, probabilities
from .course import Course, unlabelled
from .novelty import Known, energy, known

KINDS = ("energy", "distance")  # of novelty

# Torch's threads do not survive a fork: a child that computed with several would wait for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


class Predictive(ABC):
    """Predictions of what was learned."""

    course_: Course
    _measured: tuple[Course, Known | None] | None = None  # and what was known after which lesson

    @property
    def form_(self) -> Form:
        """What every row looks like."""
        return self._course.form

    @property
    def columns_(self) -> list[Any]:
        """The label of each column of the head."""
        return self._course.labels

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels that were learned, sorted."""
        return self._course.classes

    @property
    def history_(self) -> list[dict[str, Any]]:
        """What was reported after each call of `fit` or `partial_fit`."""
        return self._course.history

    @property
    def report_(self) -> LessonReport:
        """What is known after the last call, and how well."""
        return LessonReport({k: v for k, v in self.history_[-1].items() if k != "when"})

    @property
    def temperature_(self) -> float:
        """What scores are divided by before they become probabilities."""
        return float(self.history_[-1]["temperature"])

    def predict(self, X: Any, unknown_below: float | None = None) -> NDArray[Any]:
        """The most probable class of each image; None where no probability reaches the limit."""
        if unknown_below is not None and not 0 <= unknown_below <= 1:
            raise ConfigError(f"unknown_below: should be from 0 to 1, not {unknown_below}")
        p = self.predict_proba(X)
        found: NDArray[Any] = self.classes_[p.argmax(axis=1)]
        if unknown_below is None:
            return found
        sure = found.astype(object)
        sure[p.max(axis=1) < unknown_below] = None
        return sure

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Calibrated probabilities, a column for each of `classes_`."""
        p = probabilities(self._scores(X), self.temperature_).numpy()
        return np.asarray(p[:, self._order])

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores that are not calibrated, a column for each class; with two classes, their gap."""
        scores = self._scores(X).double().numpy()[:, self._order]
        return np.asarray(scores[:, 1] - scores[:, 0] if len(self._order) == 2 else scores)

    @property
    def novelty_by_(self) -> str:
        """How `novelty` is measured by default: "distance" or "energy"."""
        return "energy" if self.known_ is None else "distance"

    def novelty(self, X: Any, by: str | None = None) -> NDArray[np.float64]:
        """How unlike anything learned each image is; larger is stranger, and there is no unit.

        By "distance" from the classes' means in feature space, which needs a kept image of every
        class, or by "energy" of the scores, which needs none and tells less. None: by distance if
        there are such images, else by energy.
        """
        if by is not None and by not in KINDS:
            raise ConfigError(f"by: {unknown('kind of novelty', by, KINDS)}")
        shown = None if by == "energy" else self.known_
        if by == "distance" and shown is None:
            gone = len(set(self._course.seen) - set(self.kept_.y.tolist()))
            raise InputError(
                f"novelty by distance needs an image of every class, and none is kept of {gone} of "
                "them; use by='energy'"
            )
        images = self._asked(X)
        if shown is None:
            return energy(self._learner.predict(images).cpu(), self.temperature_)
        return shown.distance(self._learner.embed(images).cpu())

    def export(
        self, path: str | Path, *, resizes: bool = True, more: Mapping[str, str] | None = None
    ) -> None:
        """Write one file that predicts without linsep: model.onnx, or model.pt2 for torch.

        It gives probabilities and novelty, and images of other sizes are resized inside; with
        `resizes=False` they must have the classifier's. `more` is text to put into the file.
        """
        from .export import export

        export(self._course, Path(path), self.known_, more or {}, resizes)

    # --- the inside ------------------------------------------------------------------------------

    @abstractmethod
    def _rows(self, X: Any) -> Tensor:
        """Images, or rows of a table, in the form that was learned."""

    @property
    def known_(self) -> Known | None:
        """What features look like, measured once after each lesson."""
        if self._measured is None or self._measured[0] is not self._course:
            self._measured = self._course, known(self._learner, self.kept_, self._course.seen)
        return self._measured[1]

    @property
    def kept_(self) -> Images:
        """The images for replay, and those to test on."""
        groups = self._course.groups
        return join([self._learner.memory.images(), *(group.test for group in groups)])

    def _scores(self, X: Any) -> Tensor:
        return self._learner.predict(self._asked(X)).cpu()

    def _asked(self, X: Any) -> Images:
        return unlabelled(self._rows(X))

    def _fitting(self, rows: Tensor) -> Tensor:
        """Rows, if they have the shape of those that were learned."""
        found, known = tuple(rows.shape[1:]), self._course.shape
        if found != known:
            raise InputError(f"X has rows of shape {found}, and the classifier learned {known}")
        return rows

    @property
    def _course(self) -> Course:
        return self.course_

    @property
    def _order(self) -> list[int]:
        """The column of each of `classes_`."""
        return [self.columns_.index(label) for label in self.classes_.tolist()]

    @property
    def _learner(self) -> Learner:
        learner = self._course.learner
        assert learner is not None
        return learner


class SavedClassifier(Predictive):
    """A classifier in a folder, to predict with.

    It answers what the `IncrementalClassifier` in that folder would, with the same bits, and is
    there sooner, since learning and scikit-learn stay out of it.

    >>> import numpy as np, linsep
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 8, 8), dtype=np.uint8)
    >>> clf = linsep.IncrementalClassifier("er", "mlp", memory=10, epochs=1)
    >>> clf.fit(images, ["cat", "dog"] * 10).save("pets")
    >>> pets = linsep.SavedClassifier.load("pets")
    >>> bool((pets.predict(images) == clf.predict(images)).all())
    True
    """

    def __init__(
        self, path: str | Path, *, net: nn.Module | None = None, custom: Sequence[str] = ()
    ) -> None:
        """Read a classifier from a folder; `net` and `custom` as for an IncrementalClassifier."""
        self.course_ = saved.load(Path(path), net, custom=custom)

    @classmethod
    def load(
        cls, path: str | Path, *, net: nn.Module | None = None, custom: Sequence[str] = ()
    ) -> Self:
        """The same as `SavedClassifier(path)`."""
        return cls(path, net=net, custom=custom)

    @property
    def known_(self) -> Known | None:
        if not hasattr(self, "_looked_up"):  # once: what it knows stays the same
            self._looked_up = super().known_
        return self._looked_up

    def _rows(self, X: Any) -> Tensor:
        if not self.form_.table:
            return self._fitting(read(X, self.form_).rows)
        table = np.asarray(X, dtype=np.float64)
        if table.ndim != 2:
            raise InputError(f"X should be a table, rows of numbers; found shape {table.shape}")
        return self._fitting(read(table, self.form_).rows)
