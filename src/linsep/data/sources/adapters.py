"""Data sets of other libraries: anything torch calls a Dataset, and Hugging Face's.

Knows how they hand out images and labels. Knows nothing of files. Everything is brought into memory
as bytes once. For more than fits, write a folder or a table and let that be prepared.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from ... import own
from ...errors import DataError
from ...settings.sections import Count
from ..images import Dataset
from .arrays import from_arrays, pixels_of
from .decode import MODES, Channels, pixels, read_image, square
from .holdout import Seed, TestShare
from .reading import reading


class Pairs(Protocol):
    """What torch calls a map-style Dataset: a length, and (image, label) by number."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


Pixels: TypeAlias = NDArray[np.uint8]  # (channels, height, width)


def from_torch(
    train: Pairs,
    test: Pairs | None = None,
    *,
    names: Sequence[str] | None = None,
    size: int | None = None,
    channels: int = 3,
    test_share: float = 0.2,
    split_seed: int = 0,
) -> Dataset:
    """Read a torch or torchvision Dataset of (image, label), and perhaps another to test on.

    Images are pictures, or tensors or arrays of bytes or of floats from 0 to 1: a Dataset whose
    transform normalises or augments is not what you want here. `size` is for pictures, as in a
    folder.

    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> import linsep
    >>> images = torch.randint(0, 256, (40, 3, 16, 16), dtype=torch.uint8)
    >>> linsep.from_torch(TensorDataset(images, torch.arange(40) % 2), names=("cat", "dog"))
    Dataset(32 training and 8 test images of 3x16x16, 2 classes: cat, dog)
    """
    parts: list[Any] = []
    with reading("the Dataset"):
        for part in (train, test):
            if part is not None:
                parts += _stacked(_pairs(part, size, channels), len(part))
    called = names if names is not None else getattr(train, "classes", None)
    return from_arrays(
        *parts, names=called, test_share=test_share, split_seed=split_seed, where="the Dataset"
    )


def from_huggingface(
    data: Any,
    *,
    image: str = "image",
    label: str = "label",
    size: Count | None = None,
    channels: Channels = 3,
    test_share: TestShare = 0.2,
    split_seed: Seed = 0,
) -> Dataset:
    """Read a Hugging Face Dataset or DatasetDict, or the folder that `save_to_disk` wrote.

    `image` and `label` name its columns.

    >>> import numpy as np
    >>> import datasets
    >>> import linsep
    >>> pictures = [np.full((16, 16, 3), i, np.uint8) for i in range(20)]
    >>> columns = {"image": pictures, "label": ["cat", "dog"] * 10}
    >>> features = datasets.Features(image=datasets.Image(), label=datasets.Value("string"))
    >>> linsep.from_huggingface(datasets.Dataset.from_dict(columns, features=features))
    Dataset(16 training and 4 test images of 3x16x16, 2 classes: cat, dog)
    """
    try:
        import datasets
    except ImportError as error:
        raise DataError("this needs the package `datasets`: pip install datasets") from error
    if isinstance(data, Path | str):
        with reading(data, "is not a data set on disk"):
            data = datasets.load_from_disk(str(data))
    splits = dict(data) if isinstance(data, datasets.DatasetDict) else {"train": data}
    train = splits.get("train")
    test = next((splits[n] for n in ("test", "validation", "valid") if n in splits), None)
    if train is None:
        raise DataError(f"the DatasetDict has {sorted(splits)} and no 'train'")
    for column in (image, label):
        if column not in train.column_names:
            raise DataError(f"there is no column {column!r}; found {train.column_names}")
    names = getattr(train.features[label], "names", None)
    parts: list[Any] = []
    for part in (train, test):
        if part is not None:
            raw = part.cast_column(image, datasets.Image(decode=False))
            pictures = (_undecoded(cell, i, size, channels) for i, cell in enumerate(raw[image]))
            parts += _stacked(zip(pictures, raw[label], strict=True), len(raw))
    return from_arrays(
        *parts, names=names, test_share=test_share, split_seed=split_seed, where="the Dataset"
    )


def from_code(place: Path, *, size: Count | None = None, channels: Channels = 3) -> Dataset:
    """Call a function of yours, `file.py:function` or `module:function`, for its data set.

    It takes nothing and returns a torch Dataset, a pair of them (train, test), or a `Dataset`.
    """
    function = own.load(str(place), "", DataError).make
    with reading(place, "failed"):
        return _converted(function(), size, channels)


def converting(function: Callable[..., Any], place: str) -> Callable[..., Dataset]:
    """A function as `from_code` takes it, with its own options, that returns a `Dataset`."""

    @wraps(function)
    def load(**options: Any) -> Dataset:
        with reading(place, "failed"):
            return _converted(function(**options))

    return load


def _converted(made: Any, size: int | None = None, channels: int = 3) -> Dataset:
    if isinstance(made, Dataset):
        return made
    pair = made if isinstance(made, tuple) else (made,)
    return from_torch(*pair, size=size, channels=channels)


def _pairs(part: Pairs, size: int | None, channels: int) -> Iterator[tuple[Pixels, Any]]:
    for i in range(len(part)):
        picture, label = part[i][:2]
        yield _one(picture, i, size, channels), label


def _one(picture: Any, i: int, size: int | None, channels: int) -> Pixels:
    if not isinstance(picture, Image.Image):
        array = np.asarray(picture)
        array = array[None] if array.ndim == 2 else array
        return np.asarray(pixels_of(array[None], f"image {i}")[0])
    plain = picture.convert(MODES[channels])
    return pixels(plain if size is None else square(plain, size, f"image {i}"))


def _undecoded(cell: Any, i: int, size: int | None, channels: int) -> Pixels:
    source = cell["bytes"] if cell["bytes"] is not None else Path(cell["path"])
    return read_image(source, channels=channels, side=size, upright=True, name=f"image {i}")


def _stacked(pairs: Iterable[tuple[Pixels, Any]], count: int) -> tuple[Tensor, NDArray[Any]]:
    """Collect images and labels; the images in one tensor that is made once."""
    out, labels = torch.empty(0), []
    for i, (picture, label) in enumerate(pairs):
        if not i:
            out = torch.empty(count, *picture.shape, dtype=torch.uint8)
        if picture.shape != out.shape[1:]:
            raise DataError(
                f"image {i} has the shape {picture.shape}, the first {tuple(out.shape[1:])}; "
                "set `size` to bring all to one size"
            )
        out[i] = torch.from_numpy(picture)
        labels.append(label.item() if isinstance(label, Tensor | np.generic) else label)
    if not labels:
        raise DataError("the Dataset has no images")
    return out, np.asarray(labels)
