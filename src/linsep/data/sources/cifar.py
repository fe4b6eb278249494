"""CIFAR-10 and CIFAR-100 as they are published: pickles in a folder, or the tar.gz with it.

Files are checked by content (shapes, labels, images per class), so a copy that was saved again is
fine and a wrong file is not.

A pickle is a program. `load_arrays` reads one without running it: it may build numbers, strings,
lists, tuples, dicts and plain numeric arrays; anything else is refused by name. Not even
numpy is called by the pickle: stand-ins collect the parts of an array, which is only built after
they were checked.
"""

import math
import pickle
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import DataError
from ..images import Dataset, Images
from .published import Limits, Published, Remote
from .reading import reading

URL = "https://www.cs.toronto.edu/~kriz/cifar-{}-python.tar.gz"
LIMITS = Limits(files=64, bytes=400_000_000)
LARGEST = 1 << 30  # bytes of a pickle file; CIFAR-100's is 155 million
KINDS = ("b1", "u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")


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
    """Read all files into one array, each directly into its place."""
    total = per_class * layout.classes
    each = total // len(files)
    x, y = np.empty((total, 3072), np.uint8), np.empty(total, np.int64)
    for i, name in enumerate(files):
        here = slice(i * each, (i + 1) * each)
        x[here], y[here] = _batch(folder / name, layout, each)
    counts = np.bincount(y, minlength=layout.classes)
    if (counts != per_class).any():
        c = int((counts != per_class).argmax())
        raise DataError(
            f"{folder}: {' + '.join(files)} should hold {per_class} images of every class, "
            f"but of class {c} there are {counts[c]}; were files swapped or copied?"
        )
    return Images.of(torch.from_numpy(x).view(-1, 3, 32, 32), torch.from_numpy(y))


def _batch(file: Path, layout: Layout, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the pixels and labels of one file, which must have `count` of them."""
    content, last = load_arrays(file), layout.classes - 1
    with reading(file):  # a list may be ragged
        data, labels = (np.asarray(content.get(key)) for key in ("data", layout.labels))
    if data.dtype != np.uint8 or data.shape != (count, 3072):
        found = f"{data.dtype} of shape {data.shape}" if "data" in content else "missing"
        raise DataError(f"{file}: 'data' should be {count} x 3072 bytes, but is {found}")
    if labels.dtype.kind not in "iu" or labels.shape != (count,):
        raise DataError(f"{file}: {layout.labels!r} should be {count} numbers")
    if wrong := [label for label in (labels.min(), labels.max()) if not 0 <= label <= last]:
        raise DataError(f"{file}: label {wrong[0]}; this set has 0 to {last}")
    return data, labels


def _names(file: Path, layout: Layout) -> tuple[str, ...]:
    names = load_arrays(file).get(layout.label_names)
    if not isinstance(names, list) or len(names) != layout.classes:
        raise DataError(f"{file}: {layout.label_names!r} should be {layout.classes} names")
    return tuple(n.decode("utf-8", "replace") if isinstance(n, bytes) else str(n) for n in names)


def load_arrays(path: Path, largest: int = LARGEST) -> dict[str, Any]:
    """Read the dict in a pickle file: numpy arrays, keys as str, other values as they are."""
    with reading(path, "is damaged or not the expected file"):
        size = path.stat().st_size
        if size > largest:
            raise DataError(f"{path} has {size} bytes; a file of this set has at most {largest}")
        with path.open("rb") as file:
            found = _Restricted(file, encoding="bytes").load()
        if not isinstance(found, dict):
            raise DataError(f"{path} holds a {type(found).__name__}; expected a dict of arrays")
        plain = (v.array() if isinstance(v, _Array) else v for v in found.values())
        return dict(zip(map(_text, found), plain, strict=True))


def _text(found: object) -> str:
    return found.decode("latin1") if isinstance(found, bytes) else str(found)


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[module.replace("numpy._core", "numpy.core"), name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, and only arrays and plain containers are allowed"
            ) from None


class _Kind:
    """Stands in for numpy.dtype."""

    def __init__(self, code: object, *_: object) -> None:
        self.code, self.order = _text(code), "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = ">" if _text(state[1]) == ">" else "<"

    def dtype(self) -> np.dtype[Any]:
        if self.code.lstrip("<>|=") not in KINDS:
            raise ValueError(f"values of type {self.code!r}; expected plain numbers")
        return np.dtype(self.order + self.code.lstrip("<>|="))


class _Array:
    """Stands in for numpy.ndarray while its parts arrive."""

    def __init__(self, *_: object) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def array(self) -> NDArray[Any]:
        if len(self.state) != 5:
            raise ValueError("its pieces are missing")
        _, shape, kind, columns_first, raw = self.state
        if not isinstance(kind, _Kind) or not isinstance(raw, bytes | bytearray):
            raise ValueError("its values are not plain bytes")
        if not all(isinstance(n, int) and n >= 0 for n in shape):
            raise ValueError(f"its shape is {shape!r}")
        if math.prod(shape) * kind.dtype().itemsize != len(raw):
            raise ValueError(f"{len(raw)} bytes do not fill the shape {tuple(shape)}")
        flat = np.frombuffer(raw, kind.dtype())
        return flat.reshape(shape, order="F" if columns_first else "C")


def _frombuffer(raw: bytes, kind: _Kind, shape: tuple[int, ...], order: str = "C") -> _Array:
    made = _Array()
    made.state = (1, shape, kind, order == "F", raw)
    return made


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text in the encoding {encoding!r}")
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.numeric", "_frombuffer"): _frombuffer,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _encode,  # how Python 3 writes bytes in old protocols
}
