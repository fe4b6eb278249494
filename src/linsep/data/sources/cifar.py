"""CIFAR-10 and CIFAR-100 as they are published: pickles in a folder, or the tar.gz with it.

Knows the layout, the counts and how labels are called. Files are checked by content (shapes,
labels, images per class), so a copy that was written again is fine and a wrong one is not.
"""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import DataError
from ..images import Dataset, Images
from .archive import Limits
from .download import Remote
from .published import Published
from .reading import reading
from .unpickle import load_arrays

URL = "https://www.cs.toronto.edu/~kriz/cifar-{}-python.tar.gz"
LIMITS = Limits(files=64, bytes=400_000_000)


class Layout(NamedTuple):
    published: Published  # its files: those of training images, that of test images, that of names
    labels: str  # the key of the labels in each file
    label_names: str  # the key of their names in the last one
    classes: int
    per_class: tuple[int, int]  # training and test images


CIFAR10 = Layout(
    Published(
        "cifar10",
        ("cifar-10-batches-py", "."),
        (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta"),
        (Remote(URL.format(10), "c58f30108f718f92721af3b95e74349a", 170_498_071),),
        LIMITS,
    ),
    labels="labels",
    label_names="label_names",
    classes=10,
    per_class=(5000, 1000),
)

CIFAR100 = Layout(
    Published(
        "cifar100",
        ("cifar-100-python", "."),
        ("train", "test", "meta"),
        (Remote(URL.format(100), "eb9058c3a382ffc7106e4002c42a8d85", 169_001_437),),
        LIMITS,
    ),
    labels="fine_labels",
    label_names="fine_label_names",
    classes=100,
    per_class=(500, 100),
)


def cifar10(root: str | PathLike[str]) -> Dataset:
    """60 000 photographs of 10 things, 32x32: 5000 for training and 1000 for testing of each."""
    return read(root, CIFAR10)


def cifar100(root: str | PathLike[str]) -> Dataset:
    """60 000 photographs of 100 things, 32x32: 500 for training and 100 for testing of each."""
    return read(root, CIFAR100)


def read(root: str | PathLike[str], layout: Layout) -> Dataset:
    """Read a data set from its folder, from the folder above, or from its archive there."""
    folder = layout.published.find(root)
    *train, test, meta = layout.published.files
    names = _names(folder / meta, layout)
    learned, tested = layout.per_class
    return Dataset(
        _images(folder, train, layout, learned), _images(folder, [test], layout, tested), names
    )


def _images(folder: Path, files: Sequence[str], layout: Layout, per_class: int) -> Images:
    """Read all files into one array, each straight into its place."""
    total = per_class * layout.classes
    each = total // len(files)
    x, y = np.empty((total, 3072), np.uint8), np.empty(total, np.int64)
    for i, name in enumerate(files):
        content = load_arrays(folder / name)
        x[i * each : (i + 1) * each] = _pixels(content, folder / name, each)
        y[i * each : (i + 1) * each] = _labels(content, folder / name, each, layout)
    counts = np.bincount(y, minlength=layout.classes)
    if (counts != per_class).any():
        c = int((counts != per_class).argmax())
        raise DataError(
            f"{folder}: {' + '.join(files)} should hold {per_class} images of every class, "
            f"but of class {c} there are {counts[c]}; were files swapped or copied?"
        )
    return Images.of(torch.from_numpy(x).view(-1, 3, 32, 32), torch.from_numpy(y))


def _pixels(content: dict[str, Any], file: Path, count: int) -> NDArray[np.uint8]:
    data = content.get("data")
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape != (count, 3072):
        raise DataError(f"{file}: 'data' should be {count} x 3072 bytes, but is {_shape(data)}")
    return data


def _labels(content: dict[str, Any], file: Path, count: int, layout: Layout) -> NDArray[np.int64]:
    found = content.get(layout.labels)
    labels = found if isinstance(found, list | np.ndarray) else []
    if len(labels) != count or not all(isinstance(label, int | np.integer) for label in labels):
        raise DataError(f"{file}: {layout.labels!r} should be {count} numbers")
    with reading(file):  # a number may be too large
        array = np.asarray(labels, np.int64)
    if array.min() < 0 or array.max() >= layout.classes:
        wrong = array.min() if array.min() < 0 else array.max()
        raise DataError(f"{file}: label {wrong}; this set has 0 to {layout.classes - 1}")
    return array


def _names(file: Path, layout: Layout) -> tuple[str, ...]:
    names = load_arrays(file).get(layout.label_names)
    if not isinstance(names, list) or len(names) != layout.classes:
        raise DataError(f"{file}: {layout.label_names!r} should be {layout.classes} names")
    return tuple(n.decode("utf-8", "replace") if isinstance(n, bytes) else str(n) for n in names)


def _shape(data: object) -> str:
    if isinstance(data, np.ndarray):
        return f"{data.dtype} of shape {data.shape}"
    return "missing" if data is None else f"a {type(data).__name__}"
