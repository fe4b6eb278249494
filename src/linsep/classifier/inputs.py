"""What people hand to a classifier, as rows of bytes: images in any form, or tables of numbers.

What could be read in two ways is refused, with both readings named. Pictures of other sizes are
brought to the classifier's, as `linsep data prepare` does: the shorter side to that length, then
the square in the middle. Labels pass through as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from ..data import decoding, reading
from ..data.arrays import pictures_of, undecoded
from ..data.augment import as_bytes
from ..errors import DataError

SIZES = "bring them to one size, or make the model with image_size (linsep learn --image-size)"


class InputError(DataError, ValueError):
    """Rows or labels that cannot be learned from: a ValueError too, as in scikit-learn."""


class Form(NamedTuple):
    """What every row of a classifier looks like; None: the first rows decide."""

    channels: int | None = None
    side: int | None = None  # of square images, which others are brought to
    table: bool | None = None  # rows of numbers and not images


class Given(NamedTuple):
    """Rows as bytes (n, c, h, w), the labels that came with them, and the table itself if one."""

    rows: Tensor
    labels: Sequence[Any] | None = None
    table: NDArray[np.float32] | None = None


def read(given: Any, form: Form, what: str = "X") -> Given:
    """Read a number of images in any form, or a table of numbers."""
    try:
        return _read(given, form, what)
    except DataError as error:
        raise InputError(str(error)) from error


def _read(given: Any, form: Form, what: str) -> Given:
    if isinstance(given, str | Path):
        return _folder(Path(given), form)
    if isinstance(given, Image.Image):
        raise DataError(f"{what} is one picture; give a list of pictures")
    if hasattr(given, "column_names") and hasattr(given, "features"):
        return _hugging_face(given, form)
    if isinstance(given, list | tuple) and _pictures(given):
        return Given(_stacked(given, len(given), form, what))
    if _is_dataset(given):
        labels: list[Any] = []
        with decoding.reading(what):
            return Given(_stacked(pictures_of(given, labels), len(given), form, what), labels)
    array = given if isinstance(given, Tensor) else _array(given, what)
    if array.ndim == 2 or form.table:
        table = np.asarray(array).astype(np.float32)
        return Given(as_bytes(table), None, table)
    return Given(reading.images_of(array, what, form.side, form.channels))


def is_table(given: Any) -> bool:
    """Whether something is rows of numbers, or would be if it had the right shape."""
    if hasattr(given, "iloc") or hasattr(given, "toarray"):  # a data frame, a sparse matrix
        return True
    if isinstance(given, list | tuple):
        return not _pictures(given) and np.ndim(given[:1]) in (1, 2)
    return getattr(given, "ndim", None) in (0, 1, 2)


def _array(given: Any, what: str) -> NDArray[Any]:
    try:
        return np.asarray(given)
    except (ValueError, TypeError) as error:
        raise DataError(f"{what}: images of different sizes; set image_size, or {error}") from None


def _is_dataset(given: Any) -> bool:
    """Whether something is a torch Dataset: pairs by number, and neither a list nor an array."""
    plain = isinstance(given, list | tuple) or hasattr(given, "ndim")
    return hasattr(given, "__len__") and hasattr(given, "__getitem__") and not plain


def _pictures(given: Sequence[Any]) -> bool:
    """Whether a list is one of pictures, paths or arrays of single images."""
    if not given:
        return False
    first = given[0]
    single = isinstance(first, np.ndarray | Tensor) and first.ndim in (2, 3)
    return isinstance(first, Image.Image | str | Path) or single


def _stacked(pictures: Iterable[Any], count: int, form: Form, what: str) -> Tensor:
    return reading.read_all(pictures, count, what, form.side, form.channels, SIZES)


def _folder(path: Path, form: Form) -> Given:
    files = reading.labelled_files(path)
    return Given(_stacked(files, len(files), form, str(path)), list(files.values()))


def _hugging_face(given: Any, form: Form) -> Given:
    names = given.column_names
    if not {"image", "label"} <= set(names):
        raise DataError(f"the data set has the columns {names}; needs 'image' and 'label'")
    called = getattr(given.features["label"], "names", None)
    labels = [called[label] if called else label for label in given["label"]]
    pictures = undecoded(given, "image")
    return Given(_stacked(pictures, len(labels), form, "the data set"), labels)
