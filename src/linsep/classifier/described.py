"""A classifier as a manifest and tensors, and back.

Knows what a classifier remembers. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from .. import __version__
from ..data.augment import Augment, Columns
from ..errors import ConfigError, LinsepError, StateError
from . import manifest
from .account import LessonReport
from .course import Course
from .frozen import head_only, reading
from .inputs import Form
from .manifest import Augmentation, Manifest
from .tensors import restore, restore_front


class Opened(NamedTuple):
    """A saved model's files, checked for themselves."""

    manifest: Manifest
    weights: Mapping[str, Tensor]
    memory: Mapping[str, Tensor] | None  # None: saved without


def described(classifier: Any) -> dict[str, Any]:
    """What model.json holds, but for the digests of the other files."""
    course: Course = classifier.course_
    names = getattr(classifier, "feature_names_in_", None)
    front, module = course.front, classifier.net
    told = {
        "format": manifest.FORMAT,
        "version": manifest.VERSION,
        "linsep": __version__,
        "params": _params(classifier, course.config.seed),
        "config": course.config.model_dump(mode="json"),
        "labels": [_plain(label) for label in classifier.columns_],
        "announced": classifier.announced_,
        "seen": list(course.seen),
        "shape": list(course.shape),
        "form": classifier.form_._asdict() | {"table": bool(classifier.form_.table)},
        "augment": _described(course.augment),
        "features": getattr(classifier, "n_features_in_", None),
        "feature_names": None if names is None else [str(name) for name in names],
        "temperature": classifier.temperature_,
        "groups": [list(group.classes) for group in course.tested],
        "history": classifier.history_,
    }
    if front is not None:
        told["front"] = {"shape": list(front.shape), "augment": _described(front.model.augment)}
    if isinstance(module, nn.Module):
        told["module"] = type(module).__name__
    return told


def _described(augment: Augment) -> dict[str, Any]:
    return asdict(augment) | {"columns": isinstance(augment, Columns)}


def _params(classifier: Any, seed: int) -> dict[str, Any]:
    params = {name: _plain(value) for name, value in classifier.get_params(deep=False).items()}
    if not isinstance(params["random_state"], int | None):  # a generator: its draw is what counts
        params["random_state"] = seed
    if isinstance(params["net"], nn.Module):  # code, which is the user's to bring
        params["net"] = None
    return params


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def restored(
    make: Callable[[dict[str, Any]], Any],
    folder: Path,
    found: Opened,
    net: nn.Module | None = None,
    empty_memory: bool = False,
    own: Sequence[str] = (),
) -> Any:
    """A classifier as it was saved, made of its parameters; StateError names what does not fit."""
    told = found.manifest
    _check_module(folder, told, net)
    try:
        classifier = make(told.params.model_dump() | ({} if net is None else {"net": net}))
        course = _course(found, net, empty_memory, own)
    except LinsepError as error:
        if net is not None:
            raise StateError(f"{folder} does not fit this {told.module}: {error}") from None
        raise StateError(f"{folder} holds no model that can be used: {error}") from None
    classifier.course_, classifier.columns_ = course, list(told.labels)
    classifier.announced_, classifier.temperature_ = told.announced, told.temperature
    classifier.form_ = Form(told.form.channels, told.form.side, told.form.table)
    known = [told.labels[c] for c in told.seen]
    classifier.classes_ = np.unique(np.asarray(known))
    classifier.history_ = [entry.model_dump() for entry in told.history]
    last = classifier.history_[-1]
    classifier.report_ = LessonReport(
        {k: v for k, v in last.items() if k not in ("when", "lesson")}
    )
    if told.features is not None:
        classifier.n_features_in_ = told.features
    if told.feature_names is not None:
        classifier.feature_names_in_ = np.asarray(told.feature_names, dtype=object)
    return classifier


def _check_module(folder: Path, told: Manifest, net: nn.Module | None) -> None:
    """A net that was handed in is handed in again, and no other is."""
    if told.module is not None and net is None:
        raise StateError(
            f"{folder} was made with a module of yours, {told.module}, whose code is not in it; in "
            "Python, IncrementalClassifier.load(folder, net=module) reads it"
        )
    if told.module is None and net is not None:
        raise ConfigError(f"net: {folder} was made with a net that it knows by name; leave it out")
    if net is not None and not isinstance(net, nn.Module):
        raise ConfigError(f"net: should be the module it was made with, not {type(net).__name__}")


def _course(found: Opened, net: nn.Module | None, empty_memory: bool, own: Sequence[str]) -> Course:
    told = found.manifest
    config, augment = told.resolved(own), _augment(told.augment)
    announced = len(told.labels) if told.announced else None
    if told.front is None:
        course = Course(config, augment, _shape(told.shape), announced, module=net)
    else:
        shape, before = _shape(told.front.shape), _augment(told.front.augment)
        front = restore_front(reading(config, before, shape, net), found.weights)
        course = head_only(config, augment, front, announced)
    course.seen = tuple(told.seen)
    course.lacking = found.memory is None and not empty_memory
    restore(
        course, len(told.labels), told.groups, found.weights, found.memory, lean=course.lacking
    )  # fmt: skip
    return course


def _shape(sizes: list[int]) -> tuple[int, int, int]:
    return sizes[0], sizes[1], sizes[2]


def _augment(a: Augmentation) -> Augment:
    size, mean, std = (a.size[0], a.size[1]), tuple(a.mean), tuple(a.std)
    kind = Columns if a.columns else Augment
    cut = None if a.cut is None else (a.cut[0], a.cut[1])
    return kind(size, mean, std, a.pad, a.flip, a.resized, cut, a.still)
