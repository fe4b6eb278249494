"""Labels of any kind that scikit-learn takes, and the columns of a head that stand for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array

from ..errors import ConfigError
from .inputs import Given, InputError


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


def announced_columns(classes: Sequence[Any] | None) -> list[Any]:
    """The labels of columns that are there from the start, in the order they were given in."""
    named: list[Any] = np.asarray([] if classes is None else classes).tolist()
    if classes is not None and (np.ndim(classes) != 1 or len(set(named)) < len(named)):
        raise ConfigError("classes: should be a list of labels, each once")
    return named


def columns_with(columns: list[Any], labels: NDArray[Any], announced: bool) -> list[Any]:
    """The label of each column, those that are new last."""
    found = np.unique(labels).tolist()
    if columns and isinstance(columns[0], str) != isinstance(found[0], str):
        raise InputError(
            f"y has labels like {found[0]!r}, and the classifier's are like {columns[0]!r}: "
            "they should be all text or all numbers"
        )
    new = [label for label in found if label not in columns]
    if new and announced:
        raise ConfigError(f"the class {new[0]!r} was not announced: {columns}")
    return columns + new
