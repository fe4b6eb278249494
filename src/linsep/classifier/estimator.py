"""The classifier in scikit-learn's manner: fit, partial_fit, predict. Labels are of any kind.

Knows labels, and which column of the head each has. How something is learned is course.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data
from torch import Tensor, nn

from ..data.augment import Augment, Columns
from ..data.images import Images
from ..data.registry import source
from ..data.scenarios import adjusted, measured
from ..errors import ConfigError
from ..resolve import check_options, resolve
from ..settings.config import Config, from_settings
from ..settings.layers import merged
from .account import held_out, report
from .course import Course, Lesson
from .frozen import centred, frozen, head_only, reading
from .inputs import Form, Given, is_table, read
from .labels import announced_columns, columns_with, labels_of
from .predictive import unlabelled
from .saved import Savable

# Where neither the user nor a scenario chooses: docs/keep-learning.md has how it was measured.
# At a constant rate the last steps of a lesson decide how it ends, and now and then one ruins it.
DEFAULT = {"method": "derpp+bfp+refit"}
WITHOUT_IMAGES = {"method": "ft+fd+transport", "fd": {"weight": 3.0}}
STILL = {"method": "ft+transport"}  # without images, on features that do not move
USUAL = {"training": {"lr": 0.2, "schedule": {"milestones": (0.8,)}}}


class IncrementalClassifier(Savable, ClassifierMixin, BaseEstimator):
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
    method : a method of linsep, perhaps with added terms. The default is DER++ with BFP and a head
        that is fitted anew for predictions; with `memory=0` it is fine-tuning with feature
        distillation, and class statistics that are carried from call to call predict.
    net : the network: a name, as for `linsep run`, or a module of your own that turns images into
        features; by default a ResNet-18 for images and a small MLP for tables of numbers.
    freeze : "backbone" trains the head only, on features that are computed once for each image.
        The memory then holds features instead of images, and nothing is augmented.
    memory : images that are kept for replay; methods without a memory keep none. With 0, no image
        is kept at all: those of `holdout` are dropped when a call ends, and `report_` has the
        accuracy on the newest classes alone.
    epochs, batch_size, lr : of training, in each call. The rate is by default 0.2 for SGD without
        momentum on a cross-entropy, and in proportion for methods that train otherwise; it falls to
        a tenth for the last fifth of the epochs.
    image_size : side to which images are brought; by default that of the first images.
    holdout : share of each class's images that are kept from training to measure `report_` and to
        calibrate `predict_proba`.
    like : a scenario whose settings, normalisation and augmentation to use.
    settings : any further settings, as in a config file.
    random_state : the seed of everything random.
    """

    def __init__(
        self,
        method: str | None = None,
        net: str | nn.Module | None = None,
        *,
        freeze: str | None = None,
        memory: int = 200,
        epochs: int = 20,
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
        self.device, self.random_state, self.freeze = device, random_state, freeze

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
            lesson, columns = self._lesson(X, y, classes)
            for _ in lesson:
                pass
            self._learned(lesson, columns)
        return self

    def _lesson(self, X: Any, y: Any, classes: Sequence[Any] | None) -> tuple[Lesson, list[Any]]:
        """The next lesson, not taught yet, and the label of each of its columns."""
        begun = hasattr(self, "course_")
        given = self._read(X, y, begun)
        labels = labels_of(given, y)
        if begun and classes is not None and np.asarray(classes).tolist() != self.columns_:
            raise ConfigError("classes: were announced in the first call; leave them out now")
        rows = self._as_learned(given.rows) if begun else self._begin(given, classes)
        columns = columns_with(self.columns_, labels, self.announced_)
        place = {label: column for column, label in enumerate(columns)}
        numbers = torch.tensor([place[label] for label in labels.tolist()])
        seed = [self.course_.config.seed, len(self.course_.tested)]
        train, test = held_out(Images.of(rows, numbers), self.holdout, seed)
        return self.course_.lesson(train, test, len(columns)), columns

    # --- the inside ------------------------------------------------------------------------------

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """A call that is refused or interrupted leaves everything as it was."""
        before = dict(self.__dict__)
        if hasattr(self, "course_"):
            self.course_: Course = replace(self.course_, tested=[*self.course_.tested])
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _read(self, X: Any, y: Any, begun: bool) -> Given:
        form = self.form_ if begun else Form(side=self.image_size)
        if is_table(X) or form.table:
            X = validate_data(self, X, y, reset=not begun, dtype=np.float64)
            X = X[0] if isinstance(X, tuple) else X
        given = read(X, form)
        return given._replace(rows=self._fitting(given.rows)) if begun else given

    def _rows(self, X: Any) -> Tensor:
        return self._read(X, "no_validation", begun=True).rows

    def _begin(self, given: Given, classes: Sequence[Any] | None) -> Tensor:
        """Start a course for rows like these, and return them as it reads them."""
        table, (c, h, w) = given.table is not None, given.rows.shape[1:]
        self.announced_, self.columns_ = classes is not None, announced_columns(classes)
        given_seed = self.random_state
        if isinstance(given_seed, int | np.integer):
            if not 0 <= given_seed < 2**32:
                raise ConfigError(f"random_state: should be from 0 to 2**32 - 1, not {given_seed}")
            seed = int(given_seed)
        else:
            seed = check_random_state(given_seed).randint(2**31 - 1)
        config = self._resolved(table, seed)
        augment: Augment
        if given.table is not None:
            augment = Columns.of(given.table)
        else:
            own = source(self.like).augment if self.like else None
            usual = own or measured(unlabelled(given.rows))
            augment = adjusted(usual, config.scenario.augment, c)
        module = self.net if isinstance(self.net, nn.Module) else None
        announced = len(self.columns_) if self.announced_ else None
        self.form_ = Form(None if table else c, None if table or h != w else h, table)
        if self.freeze is None:
            self.course_ = Course(config, augment, (c, h, w), announced, module=module)
            return given.rows
        front = frozen(reading(config, augment, (c, h, w), module).learner_for(2))
        rows = front(given.rows)
        self.course_ = head_only(config, centred(rows), front, announced)
        return rows

    def _resolved(self, table: bool, seed: int) -> Config:
        config = from_settings(self._settings(table, seed))
        check_options(config)
        usual = None
        if self.like is None:  # steps with momentum are longer, so the rate depends on it
            own = config.training.model_dump(include={"momentum"}, exclude_unset=True)
            usual = merged(USUAL, {"training": own})
        return resolve(config, lenient=True, usual=usual)

    def _settings(self, table: bool, seed: int) -> dict[str, Any]:
        chosen = {"lr": self.lr} if self.lr is not None else {}
        if self.freeze not in (None, "backbone"):
            raise ConfigError(f"freeze: should be 'backbone' or None, not {self.freeze!r}")
        if self.freeze and table:
            raise ConfigError("freeze: is for images; a table of numbers has no features to keep")
        net = None if isinstance(self.net, nn.Module) else self.net
        return merged(
            {"scenario": {"name": self.like or "arrays"}},
            self._method,
            {"net": net or ("mlp" if table else "resnet18")},
            {"training": {"epochs": self.epochs, "batch_size": self.batch_size} | chosen},
            {"memory": {"rows": self.memory}, "compute": {"device": self.device}, "seed": seed},
            self.settings or {},
        )

    @property
    def _method(self) -> dict[str, Any]:
        """The method that was asked for, or the default one with its options."""
        if self.method is not None:
            return {"method": self.method}
        if self.memory:
            return DEFAULT
        return WITHOUT_IMAGES if self.freeze is None else STILL

    def _learned(self, lesson: Lesson, columns: list[Any], known_as: str | None = None) -> None:
        """Note what is known now, and how well."""
        self.columns_ = columns
        self.classes_ = np.unique(np.asarray([columns[c] for c in self.course_.seen]))
        self.report_ = report(self.course_, lesson, columns)
        if not self.memory:
            self.course_.forget_tests()
        self.temperature_: float = self.report_["temperature"]
        when = datetime.now(UTC).isoformat(timespec="seconds")
        before = getattr(self, "history_", [])
        self.history_ = [*before, {"when": when, "lesson": known_as} | self.report_]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.non_deterministic = False
        return tags
