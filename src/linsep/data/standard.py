"""CIFAR and MNIST in the files' own formats, and two data sets that need no download.

Files are checked by content (shapes, labels, images per class), so a copy that was saved again is
fine and a wrong file is not. MNIST and Fashion-MNIST use the same file names, as they are or with
.gz, so the number of images per class tells them apart.

A pickle, which is what CIFAR's files are, is a program. `load_arrays` reads one without running it:
it may build numbers, strings, lists, tuples, dicts and plain numeric arrays; anything else is
refused by name. Not even numpy is called by the pickle: stand-ins collect the parts of an array,
which is only built after they were checked.
"""

import gzip
import math
import pickle
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import DataError
from ..settings.sections import Count, Weight
from .decoding import reading
from .images import Dataset, Images
from .published import Published, path_of

LARGEST = 1 << 30  # bytes of a pickle file; CIFAR-100's is 155 million
KINDS = ("b1", "u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def cifar(root: Path, published: Published) -> Dataset:
    """Read CIFAR from its folder, from the folder above, or from its archive there."""
    folder = published.find(root)
    *train, test, meta = published.files
    found, classes = load_arrays(folder / meta), len(published.counts[0])
    names = found.get("label_names", found.get("fine_label_names"))
    if not isinstance(names, list) or len(names) != classes:
        raise DataError(f"{folder / meta}: the label names should be {classes} names")
    parts = []
    for batches, counts in zip((train, [test]), published.counts, strict=True):
        total, each = sum(counts), sum(counts) // len(batches)
        x, y = np.empty((total, 3072), np.uint8), np.empty(total, np.int64)
        for i, name in enumerate(batches):  # each directly into its place
            here = slice(i * each, (i + 1) * each)
            x[here], y[here] = _batch(folder / name, each)
        where = f"{folder}: {' + '.join(batches)}"
        parts.append(_checked(x.reshape(-1, 3, 32, 32), y, counts, where))
    return Dataset(parts[0], parts[1], tuple(map(_text, names)))


def _batch(file: Path, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the pixels and labels of one file, which must have `count` of them."""
    content = load_arrays(file)
    with reading(file):  # a list may be ragged
        data = np.asarray(content.get("data"))
        labels = np.asarray(content.get("labels", content.get("fine_labels")))
    if data.dtype != np.uint8 or data.shape != (count, 3072):
        found = f"{data.dtype} of shape {data.shape}" if "data" in content else "missing"
        raise DataError(f"{file}: 'data' should be {count} x 3072 bytes, but is {found}")
    if labels.dtype.kind not in "iu" or labels.shape != (count,):
        raise DataError(f"{file}: the labels should be {count} numbers")
    return data, labels


def mnist(root: Path, published: Published) -> Dataset:
    """Read the four idx files: images and labels, for training and for testing."""
    folder = published.find(root)
    paths = [path_of(folder, name) or folder for name in published.files]
    parts = []
    for images, labels, counts in zip(paths[::2], paths[1::2], published.counts, strict=True):
        x = read_idx(images, (sum(counts), 28, 28))
        y = read_idx(labels, (sum(counts),)).astype(np.int64)
        parts.append(_checked(x[:, None], y, counts, f"{labels} is not {published.name}'s"))
    return Dataset(parts[0], parts[1], published.names)


def _checked(
    x: NDArray[np.uint8], y: NDArray[np.int64], counts: tuple[int, ...], where: str
) -> Images:
    """Return the images if every class has as many as were published."""
    if wrong := [label for label in (y.min(), y.max()) if not 0 <= label < len(counts)]:
        raise DataError(f"{where}: label {wrong[0]}; this set has 0 to {len(counts) - 1}")
    found = np.bincount(y, minlength=len(counts))
    if wrong := (found != counts).nonzero()[0].tolist():
        c = wrong[0]
        raise DataError(
            f"{where}: class {c} has {found[c]} images and should have {counts[c]}; were files "
            "swapped or copied?"
        )
    return Images.of(torch.from_numpy(x), torch.from_numpy(y))


def read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Read an idx file of bytes with this shape; no more than that is ever decompressed."""
    header = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes()  # 8: unsigned bytes
    size = len(header) + math.prod(shape)
    with reading(path), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        content = file.read(size + 1)
    if not content.startswith(header):
        raise DataError(f"{path} should hold bytes of the shape {shape}: is it another file?")
    if len(content) != size:
        raise DataError(f"{path} is {'cut off' if len(content) < size else 'too long'}")
    return np.frombuffer(content, np.uint8, offset=len(header)).reshape(shape).copy()


def fashion_mini() -> Dataset:
    """500 training and 100 test images of each of Fashion-MNIST's ten classes, 28x28 grey."""
    content = files("linsep.data").joinpath("fashion_mini.npz").read_bytes()
    with np.load(BytesIO(content)) as arrays:
        found = {name: torch.from_numpy(array) for name, array in arrays.items()}
    train, test = (
        Images.of(found[f"{part}_x"].unsqueeze(1), found[f"{part}_y"]) for part in ("train", "test")
    )
    return Dataset(train, test, FASHION)


def blobs(
    *,
    classes: Count = 10,
    train: Count = 50,
    test: Count = 20,
    image_size: Count = 8,
    channels: Count = 1,
    noise: Weight = 0.15,
) -> Dataset:
    """Noisy copies of one random picture per class: `train` and `test` images of each."""
    rng = np.random.default_rng(0)
    centres = rng.random((classes, channels, image_size, image_size))

    def make(count: int) -> Images:
        y = np.repeat(np.arange(classes), count)
        x = centres[y] + noise * rng.standard_normal((len(y), channels, image_size, image_size))
        pixels = (x.clip(0, 1) * 255).round().astype(np.uint8)
        return Images.of(torch.from_numpy(pixels), torch.from_numpy(y))

    return Dataset(make(train), make(test), tuple(f"blob {c}" for c in range(classes)))


# --- pickles -------------------------------------------------------------------------------------


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
        plain = (_array(v) if isinstance(v, _StandIn) else v for v in found.values())
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


class _StandIn:
    """Stands in for numpy.ndarray and numpy.dtype while their parts arrive."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state


def _array(found: _StandIn) -> NDArray[Any]:
    """Build the array of a stand-in; any error in it is caught where the file is read."""
    _, shape, kind, columns_first, raw = found.state
    code, order = _text(kind.arguments[0]).lstrip("<>|="), _text(kind.state[1])
    if code not in KINDS:
        raise ValueError(f"values of type {code!r}; expected plain numbers")
    if not all(isinstance(n, int) for n in shape):  # the product with a text is a long text
        raise ValueError(f"its shape is {shape!r}")
    dtype = np.dtype((">" if order == ">" else "<") + code)
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise ValueError(f"{len(raw)} bytes do not fill the shape {tuple(shape)}")
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if columns_first else "C")


def _frombuffer(raw: bytes, kind: _StandIn, shape: tuple[int, ...], order: str = "C") -> _StandIn:
    made = _StandIn()
    made.state = (1, shape, kind, order == "F", raw)
    return made


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text in the encoding {encoding!r}")
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _StandIn,
    ("numpy.core.numeric", "_frombuffer"): _frombuffer,
    ("numpy", "ndarray"): _StandIn,
    ("numpy", "dtype"): _StandIn,
    ("_codecs", "encode"): _encode,  # how Python 3 writes bytes in old protocols
}
