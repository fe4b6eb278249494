"""The classifier in scikit-learn's manner: fit, partial_fit, predict. Labels are of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor, nn

from ..data.objects import Form, Given, InputError, is_table, read
from ..errors import ConfigError, StateError, shortened
from ..settings.signature import validate
from ..storage.manifest import Params, previous
from . import changes, saved
from .beginning import begin, started
from .course import Course
from .predictive import Predictive


class IncrementalClassifier(Predictive, ClassifierMixin, BaseEstimator):
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
    method : a method of linsep, perhaps with added terms. On features that do not learn, the
        default is streaming LDA ("slda"). Otherwise it is DER++ with BFP and a head that is fitted
        anew for predictions; with `memory=0` it is fine-tuning with feature distillation, and class
        statistics that are carried from call to call predict.
    net : the network: a name, as for `linsep run`, or a module of your own that turns images into
        features. The default for images of at least 64 pixels a side is EfficientNet-Lite0, trained
        on ImageNet and frozen, if the extra `pretrained` is installed; else a ResNet-18 for images
        and a small MLP for tables of numbers.
    train : "head" trains the head only, on features that are computed once for each image.
        The memory then holds features instead of images, and nothing is augmented. "all" trains
        everything, and begins with the network for small images.
    memory : images that are kept for replay, by default 200; methods without a memory keep none,
        and those that train nothing have 0. With 0, no image
        is kept at all: those of `test_share` are dropped when a call ends, and `report_` has the
        accuracy on the newest classes alone.
    epochs, batch_size, lr : of training, in each call. The rate is by default 0.2 for SGD without
        momentum on a cross-entropy, and in proportion for methods that train otherwise; it falls to
        a tenth for the last fifth of the epochs.
    image_size : side to which images are brought; by default that of the first images.
    test_share : share of each class's images kept from training to measure `report_` and to
        calibrate `predict_proba`.
    keep : previous states that are kept for `undo`; may be changed between calls.
    like : a scenario whose settings, normalisation and augmentation to use.
    settings : any further settings, as in a config file.
    random_state : the seed of everything random.
    """

    def __init__(
        self,
        method: str | None = None,
        net: str | nn.Module | None = None,
        *,
        train: str | None = None,
        memory: int | None = None,
        epochs: int = 20,
        batch_size: int = 32,
        lr: float | None = None,
        image_size: int | None = None,
        test_share: float = 0.1,
        keep: int = 3,
        like: str | None = None,
        settings: Mapping[str, Any] | None = None,
        device: str = "auto",
        random_state: Any = 0,
    ) -> None:
        self.method, self.net, self.memory, self.epochs = method, net, memory, epochs
        self.batch_size, self.lr, self.image_size = batch_size, lr, image_size
        self.test_share, self.like, self.settings = test_share, like, settings
        self.device, self.random_state, self.train = device, random_state, train
        self.keep = keep

    before_: list[Course | Path]  # previous states, the newest last

    # --- learning --------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        classes: Sequence[Any] | None = None,
        start_from: str | Path | None = None,
    ) -> Self:
        """Learn these classes and forget everything earlier.

        `start_from` is a file with the weights of a network that was trained elsewhere to tell
        `classes` apart, in this order. The images are then not trained on, but stored, held out and
        measured, and later calls of `partial_fit` go on from there.
        """
        with self._all_or_nothing():
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
            return self._learn(X, y, classes, start_from)

    def partial_fit(self, X: Any, y: Any = None, classes: Sequence[Any] | None = None) -> Self:
        """Learn one more task. `classes`, in the first call, announces all there will ever be."""
        with self._all_or_nothing():
            return self._learn(X, y, classes)

    def forget(
        self, classes: Sequence[Any] = (), images: Any = None, *, retrain_head: bool = False
    ) -> list[str]:
        """Forget classes, or images, and return what of them remains in the model.

        They are removed from stored samples, held-out images and class statistics, and `undo` does
        not bring them back. `retrain_head` fits the head that predicts to the remaining samples.
        """
        if not len(classes) and images is None:
            raise ConfigError("forget: name classes or images")
        course, notes = self._course, list[str]()
        if len(classes):
            course, notes = changes.forget(course, list(classes), retrain_head)
        if images is not None:
            course, more = changes.forget_images(course, self._as_learned(images), retrain_head)
            notes += more
        self._become(course)
        self.before_ = []
        return notes

    def rename(self, old: Any, new: Any) -> Self:
        """Give a class another name."""
        self._become(changes.rename(self._course, old, new)[0])
        return self

    def merge(self, one: Any, into: Any) -> Self:
        """Take the images of a class for images of another one from now on."""
        self._become(changes.merge(self._course, one, into)[0])
        return self

    def relabel(self, X: Any, y: Any) -> list[str]:
        """Correct the labels of images that were learned; return what was and was not changed."""
        given = self._read(X, "no_validation")
        labels = labels_of(given, y).tolist()
        course, notes = changes.relabel(self._course, self._course.as_learned(given.rows), labels)
        self._become(course)
        return notes

    def undo(self) -> Self:
        """Go back to before the last change, bit for bit; as often as there are states kept."""
        check_is_fitted(self, "course_")
        if not self.before_:
            raise StateError("the classifier keeps no previous state: there is nothing to undo")
        before = self.before_[-1]
        if isinstance(before, Path):
            module = self.net if isinstance(self.net, nn.Module) else None
            before = saved.load(before, module, custom=self.custom_)
        self.before_, self.course_ = self.before_[:-1], before
        return self

    # --- files -----------------------------------------------------------------------------------

    def save(self, path: str | Path, *, memory: bool = True) -> None:
        """Write the classifier to a folder, in place of one that is there.

        With `memory=False` no image is written: such a copy predicts, and cannot learn more.
        """
        if not str(path):
            raise ConfigError("path: name a folder")
        saved.save(Path(path), self._course, memory)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        net: nn.Module | None = None,
        empty_memory: bool = False,
        custom: Sequence[str] = (),
    ) -> Self:
        """Read a classifier from a folder.

        One that was saved without its memory can predict. To let it learn all the same, and forget
        more of what it knows, ask for an empty memory. A module that was handed in as `net` must be
        handed in again, with any weights: they are replaced. Code of yours that a name stands for,
        a method or a net, is executed only if you give its file in `custom`.
        """
        course = saved.load(Path(path), net, empty_memory=empty_memory, custom=custom)
        loaded = cls(**course.params.model_dump() | ({} if net is None else {"net": net}))
        loaded.course_, loaded.before_ = course, list(previous(Path(path)))
        loaded.custom_ = custom
        if course.form.table:
            loaded.n_features_in_ = len(course.augment.mean)
        if course.feature_names is not None:
            loaded.feature_names_in_ = np.asarray(course.feature_names, dtype=object)
        return loaded

    # --- the inside ------------------------------------------------------------------------------

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """A call that is refused or interrupted leaves everything as it was."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _learn(
        self, X: Any, y: Any, classes: Sequence[Any] | None, start_from: str | Path | None = None
    ) -> Self:
        given = self._read(X, y)
        labels = labels_of(given, y)
        begun = hasattr(self, "course_")
        if begun:
            self._check_unchanged(classes)
            course = replace(self.course_, params=self._params())
        else:
            module = self.net if isinstance(self.net, nn.Module) else None
            file = None if start_from is None else str(start_from)
            course = begin(self._params(), given, classes, module, file)
            names = getattr(self, "feature_names_in_", None)
            course.feature_names = None if names is None else [str(name) for name in names]
        rows = course.as_learned(given.rows)
        course = course if begun else course.begun(rows)
        make = course.next_run if start_from is None else partial(started, course)
        run, columns = make(rows, labels)
        for _ in run:
            pass
        self._become(course.learned(run, columns))
        return self

    def _as_learned(self, X: Any) -> Tensor:
        return self._course.as_learned(self._rows(X))

    def _become(self, course: Course) -> None:
        """Take up a changed course; the one before it can be gone back to."""
        before = [*self.before_, self.course_] if hasattr(self, "course_") else []
        self.before_ = before[-self.keep :] if self.keep else []
        self.course_ = course

    @property
    def _course(self) -> Course:
        check_is_fitted(self, "course_")
        return self.course_

    def _params(self) -> Params:
        """The parameters as they are saved: a module is code, and a generator counts by its draw"""
        given = self.get_params(deep=False)
        given = {k: v.item() if isinstance(v, np.generic) else v for k, v in given.items()}
        if not isinstance(given["random_state"], int | None):
            begun = hasattr(self, "course_")
            rng = None if begun else check_random_state(self.random_state)
            given["random_state"] = rng.randint(2**31 - 1) if rng else self.course_.config.seed
        if isinstance(self.net, nn.Module):
            given["net"] = None
        return validate(Params, given)

    def _check_unchanged(self, classes: Sequence[Any] | None) -> None:
        """Refuse what was settled in the first call and has been changed since."""
        if classes is not None and np.asarray(classes).tolist() != self.columns_:
            raise ConfigError("classes: were announced in the first call; leave them out now")
        before, now = (p.model_dump() for p in (self.course_.params, self._params()))
        for name, value in now.items():
            if value != before[name] and name != "keep":
                raise ConfigError(
                    f"{name}: is {shortened(value)}, and the classifier has learned with "
                    f"{shortened(before[name])}; call fit to start anew"
                )

    def _read(self, X: Any, y: Any) -> Given:
        begun = hasattr(self, "course_")
        form = self.form_ if begun else Form(side=self.image_size)
        if is_table(X) or form.table:
            X = validate_data(self, X, y, reset=not begun, dtype=np.float64)
            X = X[0] if isinstance(X, tuple) else X
        given = read(X, form)
        return given._replace(rows=self._fitting(given.rows)) if begun else given

    def _rows(self, X: Any) -> Tensor:
        check_is_fitted(self, "course_")
        return self._read(X, "no_validation").rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.non_deterministic = False
        return tags


def labels_of(given: Given, y: Any) -> NDArray[Any]:
    """The label of each row, from beside the rows or from within them."""
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
