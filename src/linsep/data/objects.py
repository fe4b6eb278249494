"""Images in Python objects: torch Datasets, Hugging Face, lists of pictures, your own functions.

`from_torch`, `from_huggingface` and `from_code` make a data set of them; `read` gives a classifier
the rows that it is handed, in any form. What could be read in two ways is refused, with both
readings named. Pictures of other sizes are brought to the size that is asked for, as `linsep data
prepare` does: the shorter side to that length, then the square in the middle.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, wraps
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from .. import custom
from ..errors import DataError
from ..optional import needed
from ..settings.sections import Count
from . import reading
from .arrays import from_arrays
from .decoding import Channels
from .decoding import reading as guarded
from .images import Dataset, Seed, TestShare

SIZES = "bring them to one size, or make the model with image_size (linsep learn --image-size)"
DATASET = "the Dataset"
Reader = Callable[[Iterable[Any], int], Tensor]  # of pictures, so many


class Pairs(Protocol):
    """A map-style Dataset of torch: a length, and (image, label) by number."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


def from_torch(
    train: Pairs,
    test: Pairs | None = None,
    *,
    names: Sequence[str] | None = None,
    image_size: int | None = None,
    channels: int | None = None,
    test_share: float = 0.2,
    split_seed: int = 0,
) -> Dataset:
    """Read a torch or torchvision Dataset of (image, label), and perhaps another to test on.

    Images are Pillow images, or tensors or arrays of bytes or of floats from 0 to 1; do not use a
    transform that normalises or augments. `image_size` works as for a folder. Without `channels`,
    Pillow images are read in colour, and others keep what they have.

    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> import linsep
    >>> images = torch.randint(0, 256, (40, 3, 16, 16), dtype=torch.uint8)
    >>> linsep.from_torch(TensorDataset(images, torch.arange(40) % 2), names=("cat", "dog"))
    Dataset(32 training and 8 test images of 3x16x16, 2 classes: cat, dog)
    """
    stacked = partial(reading.read_all, where=DATASET, side=image_size, channels=channels)
    read = [_pairs(part, stacked) for part in (train, test) if part is not None]
    called = names if names is not None else getattr(train, "classes", None)
    parts: Any = chain.from_iterable(read)
    return from_arrays(
        *parts, names=called, test_share=test_share, split_seed=split_seed, where=DATASET
    )


def from_huggingface(
    data: Any,
    *,
    image: str = "image",
    label: str = "label",
    image_size: Count | None = None,
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
    datasets = needed("datasets", "a Hugging Face data set")
    if isinstance(data, Path | str):
        with guarded(data, "is not a data set on disk"):
            data = datasets.load_from_disk(str(data))
    splits = dict(data) if isinstance(data, datasets.DatasetDict) else {"train": data}
    train = splits.get("train")
    test = next((splits[n] for n in ("test", "validation", "valid") if n in splits), None)
    if train is None:
        raise DataError(f"the DatasetDict has {sorted(splits)} and no 'train'")
    stacked = partial(reading.read_all, where=DATASET, side=image_size, channels=channels)
    read = [_columns(part, stacked, image, label) for part in (train, test) if part is not None]
    names, parts = _names(train, label), chain.from_iterable(read)
    return from_arrays(
        *parts, names=names, test_share=test_share, split_seed=split_seed, where=DATASET
    )


def from_code(
    place: Path, *, image_size: Count | None = None, channels: Channels | None = None
) -> Dataset:
    """Call a function of yours, `file.py:function` or `module:function`, that returns a data set.

    It takes no arguments and returns a torch Dataset, a pair (train, test), or a `Dataset`.
    """
    function = custom.load(str(place), "", DataError).make
    with guarded(place, "failed"):
        return _converted(function(), image_size, channels)


def converting(function: Callable[..., Any], place: str) -> Callable[..., Dataset]:
    """Make a function, which may have options, return a `Dataset`."""

    @wraps(function)
    def load(**options: Any) -> Dataset:
        with guarded(place, "failed"):
            return _converted(function(**options))

    return load


def _converted(made: Any, image_size: int | None = None, channels: int | None = None) -> Dataset:
    if isinstance(made, Dataset):
        return made
    pair = made if isinstance(made, tuple) else (made,)
    return from_torch(*pair, image_size=image_size, channels=channels)


def _pairs(pairs: Pairs, stacked: Reader, where: str = DATASET) -> tuple[Tensor, list[Any]]:
    """The images of a torch Dataset, and their labels."""
    labels: list[Any] = []

    def pictures() -> Iterator[Any]:
        for i in range(len(pairs)):
            picture, label = pairs[i][:2]
            labels.append(label.item() if isinstance(label, Tensor | np.generic) else label)
            yield picture

    with guarded(where):
        return stacked(pictures(), len(pairs)), labels


def _columns(data: Any, stacked: Reader, image: str, label: str) -> tuple[Any, list[Any]]:
    """The images of a Hugging Face data set, from files or bytes as it stores them, and labels."""
    for column in (image, label):
        if column not in data.column_names:
            raise DataError(f"there is no column {column!r}; found {data.column_names}")
    feature, pictures = data.features[image], data[image]
    if type(feature).__name__ == "Image":
        cells = data.cast_column(image, type(feature)(decode=False))[image]
        pictures = (Path(c["path"]) if c["bytes"] is None else c["bytes"] for c in cells)
    labels = list(data[label])
    return stacked(pictures, len(labels)), labels


def _names(data: Any, label: str) -> list[str] | None:
    """The names of the classes, where labels are their numbers."""
    return getattr(data.features[label], "names", None)


# --- what a classifier is handed ------------------------------------------------------------------


class InputError(DataError, ValueError):
    """Rows or labels that cannot be learned from: a ValueError too, as in scikit-learn."""


class Form(NamedTuple):
    """What every row of a classifier looks like; None: the first rows decide."""

    channels: int | None = None
    side: int | None = None  # of square images, which others are brought to
    table: bool | None = None  # rows of numbers and not images


class Given(NamedTuple):
    """Images as bytes (n, c, h, w), or a table (n, d), and the labels that came with them."""

    rows: Tensor
    labels: Sequence[Any] | None = None


def read(given: Any, form: Form, what: str = "X") -> Given:
    """Read a number of images in any form, or a table of numbers."""
    try:
        return _read(given, form, what)
    except DataError as error:
        raise InputError(str(error)) from error


def _read(given: Any, form: Form, what: str) -> Given:
    where = str(given) if isinstance(given, str | Path) else what
    stacked = partial(
        reading.read_all, where=where, side=form.side, channels=form.channels, remedy=SIZES
    )
    if isinstance(given, str | Path):
        files = reading.labelled_files(Path(given))
        return Given(stacked(files, len(files)), list(files.values()))
    if isinstance(given, Image.Image):
        raise DataError(f"{what} is one picture; give a list of pictures")
    if hasattr(given, "column_names") and hasattr(given, "features"):
        rows, labels = _columns(given, stacked, "image", "label")
        names = _names(given, "label")
        return Given(rows, [names[label] for label in labels] if names else labels)
    if isinstance(given, list | tuple) and _pictures(given):
        return Given(stacked(given, len(given)))
    if _is_dataset(given):
        return Given(*_pairs(given, stacked, what))
    array = given if isinstance(given, Tensor) else _array(given, what)
    if array.ndim == 2 or form.table:
        return Given(reading.vectors_of(array, what))
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
