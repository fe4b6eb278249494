"""Images as people have them, as rows of bytes: arrays, pictures, paths, folders, data sets.

What could be read in two ways is refused, with both readings named. Pictures of other sizes are
brought to the classifier's, as `linsep data prepare` does: the shorter side to that length, then
the square in the middle. Knows nothing of classes: labels pass through as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from ..data.sources.arrays import pixels_of
from ..data.sources.decode import MODES, SUFFIXES, pixels, read_image, square
from ..data.sources.folder import TESTS, class_folders, images_below
from ..errors import DataError
from .columns import as_bytes

CHANNELS = (1, 3)


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
    """Anything that is a number of images, or a table of numbers."""
    if isinstance(given, str | Path):
        return _folder(Path(given), form)
    if isinstance(given, Image.Image):
        raise InputError(f"{what} is one picture; give a list of pictures")
    if hasattr(given, "column_names") and hasattr(given, "features"):
        return _hugging_face(given, form)
    if isinstance(given, list | tuple) and _pictures(given):
        return Given(_stacked((_one(p, form, f"{what}[{i}]") for i, p in enumerate(given)), what))
    if not isinstance(given, list | tuple | np.ndarray | Tensor) and _pairs(given):
        return _data_set(given, form, what)
    array = given if isinstance(given, Tensor) else _array(given, what)
    if array.ndim == 2 or form.table:
        return _table(array)
    return Given(_fitting(_images(array, what), form, what))


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
        raise InputError(f"{what}: images of different sizes; set image_size, or {error}") from None


def _images(array: NDArray[Any] | Tensor, what: str) -> Tensor:
    shape = tuple(array.shape)
    if array.ndim == 3 and shape[2] in CHANNELS:
        raise InputError(
            f"{what} has shape {shape}: one image of {shape[0]}x{shape[1]} with {shape[2]} "
            f"channels, or {shape[0]} grey images of {shape[1]}x{shape[2]}? Give X[None] for the "
            "first, X[..., None] for the second"
        )
    if array.ndim == 4 and shape[1] in CHANNELS and shape[3] in CHANNELS:
        raise InputError(
            f"{what} has shape {shape}: channels first, images of {shape[2]}x{shape[3]}, or "
            f"channels last, images of {shape[1]}x{shape[2]}? Such small images are ambiguous"
        )
    return pixels_of(array, what)


def _fitting(rows: Tensor, form: Form, what: str) -> Tensor:
    """Rows in the form that the classifier knows."""
    if form.channels is not None and rows.shape[1] != form.channels:
        rows = _channels(rows, form.channels, what)
    if form.side is None or rows.shape[2:] == (form.side, form.side):
        return rows
    pictures = (_picture(row) for row in rows)
    return _stacked((pixels(square(p, form.side, what)) for p in pictures), what)


def _channels(rows: Tensor, wanted: int, what: str) -> Tensor:
    if wanted == 3 and rows.shape[1] == 1:
        return rows.expand(-1, 3, -1, -1).contiguous()
    raise InputError(f"{what} has {rows.shape[1]} channels, and the classifier learned {wanted}")


def _picture(row: Tensor) -> Image.Image:
    return Image.fromarray(row[0].numpy() if len(row) == 1 else row.permute(1, 2, 0).numpy())


def _pictures(given: Sequence[Any]) -> bool:
    """Whether a list is one of pictures, paths or arrays of single images."""
    if not given:
        return False
    first = given[0]
    single = isinstance(first, np.ndarray | Tensor) and first.ndim in (2, 3)
    return isinstance(first, Image.Image | str | Path) or single


def _one(picture: Any, form: Form, called: str) -> NDArray[np.uint8]:
    channels = form.channels or 3
    if isinstance(picture, str | Path):
        return read_image(Path(picture), channels=channels, side=form.side, upright=True)
    if isinstance(picture, Image.Image):
        plain = picture.convert(MODES[channels])
        return pixels(plain if form.side is None else square(plain, form.side, called))
    array = np.asarray(picture)
    array = array[None] if array.ndim == 2 else array
    return np.asarray(_fitting(_images(array[None], called), form, called)[0])


def _stacked(parts: Iterable[NDArray[np.uint8]], what: str) -> Tensor:
    found = list(parts)
    if not found:
        raise InputError(f"{what} has no images")
    shapes = sorted({part.shape for part in found})
    if len(shapes) > 1:
        raise InputError(
            f"{what}: images of different sizes, {shapes[0][1]}x{shapes[0][2]} and "
            f"{shapes[1][1]}x{shapes[1][2]} among them; bring them to one size, or make the model "
            "with image_size (linsep learn --image-size)"
        )
    return torch.from_numpy(np.stack(found))


def _table(array: NDArray[Any] | Tensor) -> Given:
    table = np.asarray(array).astype(np.float32)
    return Given(as_bytes(table), None, table)


def _folder(path: Path, form: Form) -> Given:
    """A folder of class folders, or one whose folder `train` holds them beside `test` or `val`."""
    if not path.is_dir():
        raise InputError(f"{path} is not a folder of class folders, with images in each")
    classes = class_folders(path)
    if "train" in classes and set(classes) <= {"train", *TESTS}:
        path = path / "train"
        classes = class_folders(path)
    names, labels = [], []
    for name in classes:
        files = images_below(path / name)
        names += files
        labels += [name] * len(files)
    if not names:
        raise InputError(f"{path} has no class folders with images ({', '.join(SUFFIXES)}) in them")
    return Given(_stacked((_one(n, form, str(n)) for n in names), str(path)), labels)


def _pairs(given: Any) -> bool:
    return (
        hasattr(given, "__len__") and hasattr(given, "__getitem__") and not hasattr(given, "ndim")
    )


def _data_set(given: Any, form: Form, what: str) -> Given:
    """A torch Dataset of (image, label)."""
    parts, labels = [], []
    for i in range(len(given)):
        picture, label = given[i][:2]
        parts.append(_one(picture, form, f"{what}[{i}]"))
        labels.append(label)
    return Given(_stacked(parts, what), labels)


def _hugging_face(given: Any, form: Form) -> Given:
    names = given.column_names
    if not {"image", "label"} <= set(names):
        raise InputError(f"the data set has the columns {names}; needs 'image' and 'label'")
    called = getattr(given.features["label"], "names", None)
    labels = [called[label] if called else label for label in given["label"]]
    parts = (_one(p, form, f"image {i}") for i, p in enumerate(given["image"]))
    return Given(_stacked(parts, "the data set"), labels)
