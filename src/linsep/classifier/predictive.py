"""What a classifier answers: classes, probabilities, novelty, and a file that predicts elsewhere.

Imports no scikit-learn, which takes as long as half of torch: a saved classifier answers without
it. Knows labels, and which column of the head each has. Learns nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.images import Images, join
from ..errors import ConfigError, unknown
from ..learning.learner import Learner
from .calibration import probabilities
from .course import Course
from .inputs import Form, InputError
from .novelty import KINDS, Known, energy, known


class Predictive:
    """Predictions of what was learned; the annotations are what they depend on."""

    course_: Course
    form_: Form
    columns_: list[Any]  # the label of each column of the head
    classes_: NDArray[Any]  # the labels that were learned, sorted
    temperature_: float

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

    def novelty(self, X: Any, by: str | None = None) -> NDArray[np.float64]:
        """How unlike anything learned each image is; larger is stranger, and there is no unit.

        By "distance" from the classes' means in feature space, which needs a kept image of every
        class, or by "energy" of the scores, which needs none and tells less. None: by distance if
        there are such images, else by energy.
        """
        self._check_fitted()
        if by is not None and by not in KINDS:
            raise ConfigError(f"by: {unknown('kind of novelty', by, KINDS)}")
        shown = None if by == "energy" else self._known()
        if by == "distance" and shown is None:
            gone = len(set(self.course_.seen) - set(self._kept().y.tolist()))
            raise InputError(
                f"novelty by distance needs an image of every class, and none is kept of {gone} of "
                "them; use by='energy'"
            )
        images = self._asked(X)
        if shown is None:
            return energy(self._learner.predict(images).cpu(), self.temperature_)
        return shown.distance(self._learner.embed(images).cpu())

    def export(self, path: str | Path) -> None:
        """Write one file that predicts without linsep: model.onnx, or model.pt2 for torch."""
        from .export import export

        self._check_fitted()
        export(self, Path(path))

    # --- the inside ------------------------------------------------------------------------------

    @abstractmethod
    def _rows(self, X: Any) -> Tensor:
        """Images, or rows of a table, as bytes in the form that was learned."""

    def _known(self) -> Known | None:
        return known(self._learner, self._kept(), self.course_.seen)

    def _kept(self) -> Images:
        """The images for replay, and those to test on."""
        groups = self.course_.tested
        return join([self._learner.memory.images(), *(group.test for group in groups)])

    def _scores(self, X: Any) -> Tensor:
        self._check_fitted()
        return self._learner.predict(self._asked(X)).cpu()

    def _asked(self, X: Any) -> Images:
        return unlabelled(self._as_learned(self._rows(X)))

    def _as_learned(self, rows: Tensor) -> Tensor:
        """Rows as the course has them: images, or their features if the backbone is frozen."""
        front = self.course_.front
        return rows if front is None else front(rows)

    def _fitting(self, rows: Tensor) -> Tensor:
        """Rows, if they have the shape of those that were learned."""
        found, known = tuple(rows.shape[1:]), (self.course_.front or self.course_).shape
        if found != known:
            raise InputError(f"X has rows of shape {found}, and the classifier learned {known}")
        return rows

    def _check_fitted(self) -> None:
        if not hasattr(self, "temperature_"):
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(self, "temperature_")

    @property
    def _order(self) -> list[int]:
        """The column of each of `classes_`."""
        return [self.columns_.index(label) for label in self.classes_.tolist()]

    @property
    def _learner(self) -> Learner:
        learner = self.course_.learner
        assert learner is not None
        return learner


def unlabelled(rows: Tensor) -> Images:
    """Rows whose labels nobody reads."""
    return Images.of(rows, torch.zeros(len(rows), dtype=torch.int64))
