"""The classifier in scikit-learn's manner: fit, partial_fit, predict. Labels are of any kind.

Knows labels, and which column of the head each has. How something is learned is course.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor

from ..data.images import Images
from ..data.registry import source
from ..data.scenarios import measured
from ..errors import ConfigError
from ..resolve import resolve
from ..settings.config import from_settings
from ..settings.layers import merged
from .calibration import calibration_error, probabilities, temperature
from .columns import Columns
from .course import Course
from .inputs import Form, Given, InputError, is_table, read

MOST_HELD_OUT = 50  # images of a class that are kept to test on


class IncrementalClassifier(ClassifierMixin, BaseEstimator):
    """A classifier whose classes keep growing.

    Each call of `partial_fit` is one more task: new classes, more images of known ones, or both.
    Old images are not needed again, except for the few that the method keeps in its memory.

    >>> import numpy as np, linsep
    >>> rng = np.random.default_rng(0)
    >>> images = rng.integers(0, 256, (40, 8, 8), dtype=np.uint8)
    >>> clf = linsep.IncrementalClassifier(method="er", net="mlp", memory=10, epochs=1)
    >>> clf = clf.fit(images[:20], ["cat", "dog"] * 10)
    >>> clf = clf.partial_fit(images[20:], ["fox"] * 20)
    >>> clf.classes_.tolist()
    ['cat', 'dog', 'fox']

    Parameters
    ----------
    method : a method of linsep, perhaps with an added term.
    net : the network; by default a ResNet-18 for images and a small MLP for tables of numbers.
    memory : images that are kept for replay. Methods without a memory ignore it.
    epochs, batch_size, lr : of training, in each call; `lr` by default as the method suggests.
    image_size : side to which images are brought; by default that of the first images.
    holdout : share of each class's images that are kept from training to measure `report_` and to
        calibrate `predict_proba`.
    like : a scenario whose settings, normalisation and augmentation to use.
    settings : any further settings, as in a config file.
    random_state : the seed of everything random.
    """

    def __init__(
        self,
        method: str = "derpp+bfp",
        net: str | None = None,
        *,
        memory: int = 200,
        epochs: int = 10,
        batch_size: int = 32,
        lr: float | None = None,
        image_size: int | None = None,
        holdout: float = 0.1,
        like: str | None = None,
        settings: Mapping[str, Any] | None = None,
        device: str = "auto",
        random_state: Any = 0,
    ) -> None:
        self.method, self.net, self.memory, self.epochs = method, net, memory, epochs
        self.batch_size, self.lr, self.image_size = batch_size, lr, image_size
        self.holdout, self.like, self.settings = holdout, like, settings
        self.device, self.random_state = device, random_state

    # --- learning --------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, classes: Sequence[Any] | None = None) -> Self:
        """Learn these classes and forget everything earlier."""
        with self._all_or_nothing():
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
            return self.partial_fit(X, y, classes)

    def partial_fit(self, X: Any, y: Any = None, classes: Sequence[Any] | None = None) -> Self:
        """Learn one more task. `classes`, in the first call, announces all there will ever be."""
        with self._all_or_nothing():
            begun = hasattr(self, "course_")
            given = self._read(X, y, begun)
            labels = self._labels(given, y)
            if not begun:
                self._begin(given, classes)
            elif classes is not None and np.asarray(classes).tolist() != self.columns_:
                raise ConfigError("classes: were announced in the first call; leave them out now")
            columns = self._columns(labels)
            place = {label: column for column, label in enumerate(columns)}
            numbers = torch.tensor([place[label] for label in labels.tolist()])
            train, test = self._held_out(Images.of(given.rows, numbers))
            lesson = self.course_.lesson(train, test, len(columns))
            for _ in lesson:
                pass
            self._learned(lesson, columns, labels)
        return self

    # --- prediction ------------------------------------------------------------------------------

    def predict(self, X: Any, unknown_below: float | None = None) -> NDArray[Any]:
        """The most probable class of each image; None where no probability reaches the limit."""
        p = self.predict_proba(X)
        found: NDArray[Any] = self.classes_[p.argmax(axis=1)]
        if unknown_below is None:
            return found
        sure = found.astype(object)
        sure[p.max(axis=1) < unknown_below] = None
        return sure

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Calibrated probabilities, a column for each of `classes_`."""
        check_is_fitted(self, "course_")
        scores = self._scores(X)
        p = probabilities(scores, self.temperature_).numpy()
        return np.asarray(p[:, [self.columns_.index(label) for label in self.classes_.tolist()]])

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores that are not calibrated, a column for each class; with two classes, their gap."""
        check_is_fitted(self, "course_")
        order = [self.columns_.index(label) for label in self.classes_.tolist()]
        scores = self._scores(X).double().numpy()[:, order]
        return np.asarray(scores[:, 1] - scores[:, 0] if len(order) == 2 else scores)

    def _scores(self, X: Any) -> Tensor:
        given = self._read(X, "no_validation", begun=True)
        learner = self.course_.learner
        assert learner is not None
        images = Images.of(given.rows, torch.zeros(len(given.rows), dtype=torch.int64))
        return learner.predict(images).cpu()

    # --- the inside ------------------------------------------------------------------------------

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """A call that is refused or interrupted leaves everything as it was."""
        before = dict(vars(self))
        if "course_" in before:
            self.course_ = replace(self.course_, tested=[*self.course_.tested])
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _read(self, X: Any, y: Any, begun: bool) -> Given:
        form = self.form_ if begun else Form(side=self.image_size)
        if is_table(X) or form.table:
            X = validate_data(self, X, y, reset=not begun, dtype=np.float64)
            X = X[0] if isinstance(X, tuple) else X
        given = read(X, form)
        if begun and given.rows.shape[1:] != self.course_.shape:
            found, known = tuple(given.rows.shape[1:]), self.course_.shape
            raise InputError(f"X has rows of shape {found}, and the classifier learned {known}")
        return given

    def _labels(self, given: Given, y: Any) -> NDArray[Any]:
        if y is None and given.labels is None:
            raise InputError("y is missing: each image needs the name of its class")
        if y is not None and given.labels is not None:
            raise InputError("y: the images come with labels of their own; leave it out")
        found = given.labels if y is None else y
        labels = np.asarray(check_array(found, ensure_2d=False, dtype=None, ensure_min_samples=0))
        labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
        if labels.shape != (len(given.rows),):
            raise InputError(f"{len(given.rows)} images but labels of shape {labels.shape}")
        check_classification_targets(labels)
        return labels

    def _columns(self, labels: NDArray[Any]) -> list[Any]:
        """The label of each column, those that are new last."""
        columns, found = list(self.columns_), np.unique(labels).tolist()
        if columns and isinstance(columns[0], str) != isinstance(found[0], str):
            kinds = [f"{type(label).__name__} ({label!r})" for label in (found[0], columns[0])]
            raise InputError(f"labels are {kinds[0]}, and the classifier learned {kinds[1]}")
        new = [label for label in found if label not in columns]
        if new and self.announced_:
            raise ConfigError(f"the class {new[0]!r} was not announced: {columns}")
        return columns + new

    def _begin(self, given: Given, classes: Sequence[Any] | None) -> None:
        table = given.table
        rows = Images.of(given.rows, torch.zeros(len(given.rows), dtype=torch.int64))
        own = source(self.like).augment if self.like else None
        augment = Columns.of(table) if table is not None else own or measured(rows)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        if isinstance(self.random_state, int | np.integer):
            seed = int(self.random_state)
        config = resolve(from_settings(self._settings(table is not None, seed)), lenient=True)
        _, c, h, w = given.rows.shape
        self.announced_ = classes is not None
        self.columns_: list[Any] = np.asarray([] if classes is None else classes).tolist()
        named = self.columns_
        if classes is not None and (np.ndim(classes) != 1 or len(set(named)) < len(named)):
            raise ConfigError("classes: should be a list of labels, each once")
        self.course_ = Course(
            config, augment, (c, h, w), len(self.columns_) if self.announced_ else None
        )
        side = None if table is not None or h != w else h
        self.form_ = Form(None if table is not None else c, side, table is not None)

    def _settings(self, table: bool, seed: int) -> dict[str, Any]:
        chosen = {"lr": self.lr} if self.lr is not None else {}
        return merged(
            {"scenario": {"name": self.like or "arrays"}},
            {"method": self.method, "net": self.net or ("mlp" if table else "resnet18")},
            {"training": {"epochs": self.epochs, "batch_size": self.batch_size} | chosen},
            {"memory": {"rows": self.memory}, "compute": {"device": self.device}, "seed": seed},
            self.settings or {},
        )

    def _held_out(self, images: Images) -> tuple[Images, Images]:
        """A share of each class's rows apart; a class with few rows gives none."""
        if not 0 <= self.holdout < 1:
            raise ConfigError(f"holdout: should be a share from 0 to below 1, not {self.holdout}")
        held = torch.zeros(len(images), dtype=torch.bool)
        if self.holdout:
            rng = np.random.default_rng([self.course_.config.seed, len(self.course_.tested)])
            for c in images.y.unique().tolist():
                rows = (images.y == c).nonzero()[:, 0].numpy()
                n = min(int(self.holdout * len(rows)), MOST_HELD_OUT)
                held[torch.from_numpy(rng.permutation(rows)[:n])] = True
        return images.take((~held).nonzero()[:, 0]), images.take(held.nonzero()[:, 0])

    def _learned(self, lesson: Any, columns: list[Any], labels: NDArray[Any]) -> None:
        """Note what is known now, and how well."""
        self.columns_ = columns
        known = [columns[c] for c in self.course_.seen]
        self.classes_ = np.unique(np.asarray(known))
        learner, tested = self.course_.learner, self.course_.tested
        assert learner is not None
        rows = [(learner.predict(g.test).cpu(), g.test.y) for g in tested if len(g.test)]
        self.temperature_ = 1.0
        error: list[float | None] = [None, None]
        if rows:
            scores, y = (torch.cat(column) for column in zip(*rows, strict=True))
            self.temperature_ = temperature(scores, y)
            fits = (probabilities(scores, t) for t in (1.0, self.temperature_))
            error = [calibration_error(p, y) for p in fits]
        past = [*map(_known, lesson.before), None]
        now = list(map(_known, lesson.after))
        names = [[columns[c] for c in group.classes] for group in tested]
        drops = [b - a for b, a in zip(past, now, strict=True) if b is not None and a is not None]
        self.report_ = {
            "images": len(labels),
            "new": [columns[c] for c in lesson.task.classes],
            "groups": [
                {"classes": own, "before": b, "after": a}
                for own, b, a in zip(names, past, now, strict=True)
            ],
            "forgotten": float(np.mean(drops)) if drops else None,
            "ece": {"before": error[0], "after": error[1]},
            "temperature": self.temperature_,
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.non_deterministic = False
        return tags


def _known(value: float) -> float | None:
    return None if value != value else value
