"""What a classifier answers: classes, probabilities, novelty, and a file that predicts elsewhere.

Novelty is a number, larger for stranger images. By energy (Liu et al., 2020): minus the log of the
summed exponentials of its scores. By distance (Lee et al., 2018): Mahalanobis, from the closest
mean of a class in feature space, with one covariance for all classes. A method that carries class
statistics has both; otherwise they come from images of every class, those of the memory and those
held out, with the covariance shrunk as Ledoit and Wolf do.

This module imports no scikit-learn, which takes as long as half of torch: a saved classifier
answers without it.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..data.images import Images, join
from ..errors import ConfigError, unknown
from ..learning.learner import Learner
from ..learning.model import Model
from ..learning.statistics import shrunk
from ..learning.transport import Transported
from . import saved
from .account import LessonReport, probabilities
from .course import Course, unlabelled
from .inputs import Form, InputError, read

KINDS = ("energy", "distance")  # of novelty

# Torch's threads do not survive a fork: a child that computed with several would wait for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


class Predictive(ABC):
    """Predictions of what was learned."""

    course_: Course

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

    def novelty(self, X: Any, by: str | None = None) -> NDArray[np.float64]:
        """How unlike anything learned each image is; larger is stranger, and there is no unit.

        By "distance" from the classes' means in feature space, which needs a kept image of every
        class, or by "energy" of the scores, which needs none and tells less. None: by distance if
        there are such images, else by energy.
        """
        if by is not None and by not in KINDS:
            raise ConfigError(f"by: {unknown('kind of novelty', by, KINDS)}")
        shown = None if by == "energy" else self._known()
        if by == "distance" and shown is None:
            gone = len(set(self._course.seen) - set(self._kept().y.tolist()))
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

        export(self._course, Path(path))

    # --- the inside ------------------------------------------------------------------------------

    @abstractmethod
    def _rows(self, X: Any) -> Tensor:
        """Images, or rows of a table, as bytes in the form that was learned."""

    def _known(self) -> Known | None:
        return known(self._learner, self._kept(), self._course.seen)

    def _kept(self) -> Images:
        """The images for replay, and those to test on."""
        groups = self._course.groups
        return join([self._learner.memory.images(), *(group.test for group in groups)])

    def _scores(self, X: Any) -> Tensor:
        return self._learner.predict(self._asked(X)).cpu()

    def _asked(self, X: Any) -> Images:
        return unlabelled(self._course.as_learned(self._rows(X)))

    def _fitting(self, rows: Tensor) -> Tensor:
        """Rows, if they have the shape of those that were learned."""
        found, known = tuple(rows.shape[1:]), self._course.reads
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

    def _known(self) -> Known | None:
        if not hasattr(self, "_looked_up"):  # once: what it knows stays the same
            self._looked_up = super()._known()
        return self._looked_up

    def _rows(self, X: Any) -> Tensor:
        if not self.form_.table:
            return self._fitting(read(X, self.form_).rows)
        table = np.asarray(X, dtype=np.float64)
        if table.ndim != 2:
            raise InputError(f"X should be a table, rows of numbers; found shape {table.shape}")
        return self._fitting(read(table, self.form_).rows)


# --- novelty ------------------------------------------------------------------------------------


def energy(scores: Tensor, temperature: float = 1.0) -> NDArray[np.float64]:
    """Of scores (n, classes), -inf where a class was not learned."""
    scaled = scores.double() / temperature
    return np.asarray(-temperature * scaled.logsumexp(1))


class Known(NamedTuple):
    """What features of learned classes look like."""

    means: NDArray[np.float64]  # (classes, d)
    whitening: NDArray[np.float64]  # (d, d): differences times it have a distance of their length

    @classmethod
    def of(cls, features: Tensor, y: Tensor) -> Known:
        z, labels = features.double().numpy(), y.numpy()
        found, place = np.unique(labels, return_inverse=True)
        means = np.stack([z[labels == c].mean(0) for c in found])
        return cls(means, _whitening(ledoit_wolf(z - means[place])))

    @classmethod
    def carried(cls, rule: Transported) -> Known:
        statistics = rule.statistics
        covariance = shrunk(statistics.covariance(), rule.how.shrinkage)
        return cls(statistics.mean[statistics.known].numpy(), _whitening(covariance.numpy()))

    def distance(self, features: Tensor) -> NDArray[np.float64]:
        """From the closest class."""
        z, m = (np.asarray(v) @ self.whitening for v in (features.double().numpy(), self.means))
        found = torch.cdist(torch.from_numpy(z), torch.from_numpy(m)).min(1).values
        return found.numpy()


def _whitening(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    values, vectors = np.linalg.eigh(covariance)
    least = max(values.max(), 1.0) * 1e-6  # a direction in which nothing varies decides nothing
    result: NDArray[np.float64] = vectors / np.sqrt(np.maximum(values, least))
    return result


def known(model: Model, images: Images, classes: Sequence[int]) -> Known | None:
    """These classes as statistics or images show them; None if there is no image of one of them."""
    if isinstance(model.predictor, Transported):
        return Known.carried(model.predictor)
    if set(classes) - set(images.y.tolist()):
        return None
    return Known.of(model.embed(images).cpu(), images.y)


def ledoit_wolf(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """The covariance of centred rows, drawn towards a sphere as far as Ledoit and Wolf (2004) do.

    By the variance of its estimate as a share of how far it is from that sphere. scikit-learn has
    the same, and takes a second to import.
    """
    n, d = z.shape
    found = z.T @ z / n
    sphere = np.trace(found) / d * np.eye(d)
    away = np.square(found - sphere).sum()
    varies = np.square(np.square(z).sum(1)).sum() / n**2 - np.square(found).sum() / n
    share = min(varies / away, 1.0) if away > 0 else 0.0
    result: NDArray[np.float64] = (1 - share) * found + share * sphere
    return result
