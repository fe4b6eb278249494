"""Data sets from arrays: in memory, in an .npz file, or in a folder of .npy files.

All images are held in memory as bytes; if they do not fit, use a folder or a table of files.
Nothing in an .npz or .npy file is unpickled. Images may be called x, images, image or data, labels
y, labels, label or targets; x_train or train_x and x_test or val_x name the parts, in any case.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import DataError
from .decoding import reading
from .images import (
    Dataset,
    Images,
    Seed,
    TestShare,
    check,
    duplicates,
    hold_out,
    warn_of_duplicates,
)
from .reading import Array, pixels_of, vectors_of

IMAGES, LABELS = ("x", "images", "image", "data"), ("y", "labels", "label", "targets")
PARTS = {"train": ("train", "training"), "test": ("test", "val", "valid")}


def arrays(
    path: str | PathLike[str], *, test_share: TestShare = 0.2, split_seed: Seed = 0
) -> Dataset:
    """Read images and labels from an .npz file, or from a folder of .npy files."""
    path = Path(path)
    found = _from_npz(path) if path.suffix == ".npz" else _from_folder(path)
    train, test = (_pair(found, part, path) for part in ("train", "test"))
    if not train:
        raise DataError(
            f"{path} has the arrays {sorted(found)}; needs x_train and y_train, or x and y"
        )
    names = [str(name) for name in found["names"].ravel().tolist()] if "names" in found else None
    return from_arrays(
        *train, *test, names=names, test_share=test_share, split_seed=split_seed, where=str(path)
    )


def from_arrays(
    x_train: Array,
    y_train: Array | Sequence[Any],
    x_test: Array | None = None,
    y_test: Array | Sequence[Any] | None = None,
    *,
    names: Sequence[str] | None = None,
    test_share: float = 0.2,
    split_seed: int = 0,
    where: str = "arrays",
) -> Dataset:
    """Make a data set of images (n, h, w), (n, h, w, c) or (n, c, h, w) and their labels.

    Pixels are bytes, or floats from 0 to 1 that are rounded to bytes. Rows (n, d) of any numbers
    are vectors, such as the embeddings of another model: they are standardised, column by column,
    and read by the nets `mlp` and `identity`. With `names`, labels are
    numbers from 0 on; without, they are text or non-negative numbers. Without test images, a share
    of every class is held out.

    >>> import numpy as np
    >>> import linsep
    >>> x = np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), dtype=np.uint8)
    >>> linsep.from_arrays(x, ["cat", "dog"] * 20)
    Dataset(32 training and 8 test images of 3x16x16, 2 classes: cat, dog)
    """
    if (x_test is None) != (y_test is None):
        missing = "labels" if y_test is None else "images"
        raise DataError(f"{where}: the test {missing} are missing; give x_test and y_test, or none")
    x, y = _rows(x_train, where), _flat(y_train, len(x_train), where)
    if x_test is None or y_test is None:
        rows = hold_out(y.tolist(), test_share, split_seed, where)
        labels, called = _numbered(y, names, where)
        whole = Images.of(x, torch.from_numpy(labels))
        parts = [whole.take(torch.tensor(part)) for part in rows]
    else:
        held_x, held_y = _rows(x_test, where), _flat(y_test, len(x_test), where)
        if (y.dtype.kind in "US") != (held_y.dtype.kind in "US"):
            raise DataError(f"{where}: training labels are {y.dtype}, test labels {held_y.dtype}")
        labels, called = _numbered(np.concatenate([y, held_y]), names, where)
        both = torch.from_numpy(labels).split([len(y), len(held_y)])
        parts = [Images.of(*part) for part in zip((x, held_x), both, strict=True)]
    data = Dataset(parts[0], parts[1], called)
    check(data, where)
    warn_of_duplicates(duplicates(data), where)
    return data


def _rows(given: Array, where: str) -> Tensor:
    return (vectors_of if np.ndim(given) == 2 else pixels_of)(given, where)


def _flat(labels: Array | Sequence[Any], count: int, where: str) -> NDArray[Any]:
    with reading(where, "has labels of mixed types"):
        y = np.asarray(labels)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.shape != (count,):
        raise DataError(f"{where}: labels of shape {y.shape} for {count} images")
    if y.dtype.kind not in "biuUS":
        raise DataError(f"{where}: labels are {y.dtype}; expected whole numbers or text")
    if y.dtype.kind == "i" and y.min() < 0:
        raise DataError(f"{where}: a label is {y.min()}; whole numbers must not be negative")
    return y


def _numbered(
    y: NDArray[Any], names: Sequence[str] | None, where: str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Number the labels from 0 on, and return them with their names."""
    if names is None:
        values, places = np.unique(y, return_inverse=True)
        return places.astype(np.int64), tuple(str(value) for value in values.tolist())
    if y.dtype.kind not in "iu" or y.max() >= len(names):
        found = f"{y.min()} to {y.max()}" if y.dtype.kind in "iu" else y.dtype
        raise DataError(f"{where}: labels {found} do not fit {len(names)} names")
    return y.astype(np.int64), tuple(names)


def _pair(found: Mapping[str, NDArray[Any]], part: str, where: Path) -> tuple[NDArray[Any], ...]:
    """Return the images and labels of one part under any of their usual names, or nothing."""
    lowered = {name.lower(): value for name, value in found.items()}

    def look(kinds: tuple[str, ...]) -> NDArray[Any] | None:
        spelt = [s for p in PARTS[part] for k in kinds for s in (f"{k}_{p}", f"{p}_{k}")]
        spelt += list(kinds) if part == "train" else []
        return next((lowered[name] for name in spelt if name in lowered), None)

    x, y = look(IMAGES), look(LABELS)
    if x is None and y is None:
        return ()
    if x is None or y is None:
        gone = "images" if x is None else "labels"
        raise DataError(f"{where} has no {part} {gone}; its arrays are {sorted(found)}")
    return x, y


def _from_npz(path: Path) -> dict[str, NDArray[Any]]:
    with reading(path), path.open("rb") as file, np.load(file, allow_pickle=False) as found:
        members = {name: found[name] for name in found.files}
        return {name: array for name, array in members.items() if isinstance(array, np.ndarray)}


def _from_folder(path: Path) -> dict[str, NDArray[Any]]:
    """Memory-map every .npy file in a folder."""
    if not path.is_dir():
        raise DataError(f"{path} is neither an .npz file nor a folder of .npy files")
    found = {}
    for file in sorted(path.glob("*.npy")):
        with reading(file):
            found[file.stem] = np.load(file, mmap_mode="c", allow_pickle=False)
    return found
