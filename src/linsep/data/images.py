"""Labelled rows as views of tensors, data sets, and the batches a net receives.

A row is an image, uint8 (channels, height, width), or a vector of numbers, float32 (d,): an
embedding, or the features that a frozen backbone gives an image.

Only `Images.pixels` copies pixels. Statistics are computed in chunks, so a memory-mapped data set
is never loaded as a whole.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from html import escape
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from ..errors import DataError

SHOWN = 5  # classes that a repr names
LISTED = 30  # classes that a notebook lists
COPIED = 2**24  # bytes of images that are copied at a time to be measured
DIGEST = 16  # bytes per image
Shape = tuple[int, ...]  # of a row: (channels, height, width) of an image, (d,) of a vector
TestShare = Annotated[float, Field(gt=0, lt=1)]
Seed = Annotated[int, Field(ge=0)]


class DuplicateWarning(UserWarning):
    """Test images that are also training images."""


@dataclass(frozen=True, eq=False)
class Images:
    """A view of labelled images or vectors: row `rows[i]` of source `which[i]`, labelled `y[i]`.

    A source may be memory-mapped: only the rows that `pixels` asks for are ever read.
    """

    sources: tuple[Tensor, ...]  # each (N, c, h, w) uint8 or (N, d) float32, on the host
    which: Tensor  # (n,) int64
    rows: Tensor  # (n,) int64
    y: Tensor  # (n,) int64

    @classmethod
    def of(cls, source: Tensor, y: Tensor) -> Images:
        """View a whole tensor; labels of any type that are whole numbers become int64."""
        if y.shape != (len(source),):
            raise DataError(f"{len(source)} images but labels of shape {tuple(y.shape)}")
        labels = y.to(torch.int64)
        if not torch.equal(labels.to(y.dtype), y):
            raise DataError(f"labels are {y.dtype} and not all whole numbers; expected int64")
        return cls((source,), torch.zeros_like(labels), torch.arange(len(y)), labels)

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Images({len(self)} of {_sized(self.shape)})"

    @property
    def shape(self) -> Shape:
        """The shape of one stored row."""
        return tuple(self.sources[0].shape[1:])

    def take(self, rows: Tensor) -> Images:
        return replace(self, which=self.which[rows], rows=self.rows[rows], y=self.y[rows])

    def select(self, classes: Iterable[int]) -> Images:
        return self.take(torch.isin(self.y, torch.tensor(list(classes))).nonzero()[:, 0])

    def counts(self, classes: int) -> list[int]:
        """The number of images of each class."""
        return self.y.bincount(minlength=classes).tolist()

    def chunks(self, size: int, fewest: int = 1) -> Iterator[Images]:
        """Yield `size` rows at a time; a rest of fewer than `fewest` joins the chunk before it."""
        parts = list(torch.arange(len(self)).split(max(size, fewest)))
        if len(parts) > 1 and len(parts[-1]) < fewest:
            parts[-2:] = [torch.cat(parts[-2:])]
        return map(self.take, parts)

    def copies(self) -> Iterator[Tensor]:
        """Yield the pixels of all images, (n, c, h, w), in copies of bounded size."""
        for part in self.chunks(max(1, COPIED // math.prod(self.shape))):
            yield part.pixels()

    def pixels(self) -> Tensor:
        """Return a copy of the images, (n, c, h, w), or of the vectors, (n, d)."""
        if len(self.sources) == 1:
            return self.sources[0][self.rows]
        out = self.sources[0].new_empty(len(self), *self.shape)
        for i, source in enumerate(self.sources):
            here = (self.which == i).nonzero()[:, 0]
            out[here] = source[self.rows[here]]
        return out


def join(parts: Sequence[Images]) -> Images:
    """Concatenate the parts, holding each source once; one without rows may be of another shape."""
    parts = [part for part in parts if len(part)] or parts[:1]
    sources = tuple({id(s): s for p in parts for s in p.sources}.values())
    place = {id(s): i for i, s in enumerate(sources)}
    which = [torch.tensor([place[id(s)] for s in p.sources])[p.which] for p in parts]
    rows, y = torch.cat([p.rows for p in parts]), torch.cat([p.y for p in parts])
    return Images(sources, torch.cat(which), rows, y)


class Tasks(NamedTuple):
    """The task of each image, where the data set itself defines the tasks."""

    names: tuple[str, ...]  # in the order they are learned
    train: Tensor  # (n,) int64, a place in `names` for every training image
    test: Tensor


class Dataset(NamedTuple):
    """Training and test images with their classes: what every source returns.

    >>> import numpy as np
    >>> import linsep
    >>> x, y = np.random.default_rng(0).integers(0, 256, (40, 8, 8)), np.arange(40) % 4
    >>> data = linsep.from_arrays(x.astype(np.uint8), y, names=("cat", "dog", "elk", "fox"))
    >>> data
    Dataset(32 training and 8 test images of 1x8x8, 4 classes: cat, dog, elk, fox)
    >>> run = linsep.build(linsep.Config(scenario={"per_task": 2}, net="cnn"), data=data)
    """

    train: Images
    test: Images
    names: tuple[str, ...]  # of the classes; label i is names[i]
    digest: str | None = None  # of the content, if the source already knows it
    tasks: Tasks | None = None  # None: the scenario decides
    cached: Path | None = None  # the folder of prepared images that they are mapped from

    def __repr__(self) -> str:
        counts = f"{len(self.train)} training and {len(self.test)} test images"
        more = ", ..." if len(self.names) > SHOWN else ""
        names = f"{len(self.names)} classes: {', '.join(self.names[:SHOWN])}{more}"
        tasks = f", {len(self.tasks.names)} tasks" if self.tasks else ""
        return f"Dataset({counts} of {_sized(self.train.shape)}, {names}{tasks})"

    def _repr_html_(self) -> str:
        """Show in a notebook how many images each class has."""
        counts = [part.counts(len(self.names)) for part in (self.train, self.test)]
        rows = [
            f"<tr><td>{escape(name)}</td><td>{train}</td><td>{test}</td></tr>"
            for name, train, test in zip(self.names, *counts, strict=True)
        ]
        more = [f"<tr><td>and {len(rows) - LISTED} more</td></tr>"] if len(rows) > LISTED else []
        head = "<tr><th>class</th><th>training</th><th>test</th></tr>"
        body = "".join([head, *rows[:LISTED], *more])
        return f"<div><p>{escape(repr(self))}</p><table>{body}</table></div>"


def check(data: Dataset, where: str = "") -> None:
    """Raise a DataError if images or labels cannot be trained on."""
    prefix, classes = f"{where}: " if where else "", len(data.names)
    for name in data.names:
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise DataError(f"{prefix}the class name {name!r} is not UTF-8; rename it")
    for part, images in (("training", data.train), ("test", data.test)):
        if not len(images):
            raise DataError(f"{prefix}there are no {part} images")
        if wrong := [y for y in images.y.unique().tolist() if not 0 <= y < classes]:
            raise DataError(
                f"{prefix}{part} labels: found {wrong[0]}, but there are {classes} classes "
                f"(labels 0 to {classes - 1})"
            )
        for source in images.sources:
            if source.ndim not in (2, 4) or source.dtype != dtype_of(source.shape[1:]):
                raise DataError(
                    f"{prefix}{part} images: need uint8 of shape (n, channels, height, width), "
                    "or float32 of shape (n, d) for vectors, "
                    f"not {source.dtype} of shape {tuple(source.shape)}"
                )
        if empty := set(range(classes)) - set(images.y.tolist()):
            raise DataError(f"{prefix}class {data.names[min(empty)]!r} has no {part} image")
    if data.train.shape != data.test.shape:
        raise DataError(
            f"{prefix}training images are {data.train.shape}, test images {data.test.shape}: "
            "they must have one shape"
        )


def dtype_of(shape: Shape) -> torch.dtype:
    """Return how rows of a shape are stored: images as bytes, vectors as numbers."""
    return torch.uint8 if len(shape) == 3 else torch.float32


def _sized(shape: Shape) -> str:
    if len(shape) == 1:
        return f"{shape[0]} numbers"
    return "x".join(map(str, shape))


def hold_out(
    groups: Sequence[Hashable], share: float, seed: int, where: str
) -> tuple[list[int], list[int]]:
    """Split rows into training and test rows, both in order; every group is in both.

    Which members of a group are held out depends only on its name and size, so adding or removing
    another class does not move an image.
    """
    if not 0 < share < 1:
        raise DataError(f"{where}: test_share is {share}; it must be between 0 and 1")
    rows: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        rows.setdefault(group, []).append(row)
    test: set[int] = set()
    for group, members in rows.items():
        if len(members) < 2:
            raise DataError(
                f"{where}: {group!r} has one image; it needs at least two, one of them to test on"
            )
        count = min(max(1, round(share * len(members))), len(members) - 1)
        key = int.from_bytes(blake2b(repr(group).encode(), digest_size=8).digest())
        chosen = np.random.default_rng([seed, key]).permutation(len(members))[:count]
        test.update(members[i] for i in chosen)
    return [r for r in range(len(groups)) if r not in test], sorted(test)


class PixelStatistics(NamedTuple):
    mean: tuple[float, ...]  # per channel, of pixels in [0, 1]
    std: tuple[float, ...]


def pixel_statistics(images: Images) -> PixelStatistics:
    """Measure mean and standard deviation over every pixel of every image.

    They come from how often each of the 256 values occurs, so that sums are of whole numbers.
    """
    found = torch.zeros(images.shape[0], 256, dtype=torch.int64)  # by channel and value
    for x in images.copies():
        for channel, values in enumerate(x.unbind(1)):
            found[channel] += values.flatten().bincount(minlength=256)
    count, value = found.sum(1), torch.arange(256)
    mean = (found @ value) / count.double()
    std = ((found @ value.square()) / count.double() - mean.square()).clamp(min=0).sqrt()
    return PixelStatistics(tuple((mean / 255).tolist()), tuple((std / 255).tolist()))


def duplicates(data: Dataset) -> int:
    """Count the test images that are also training images, pixel for pixel."""
    train, test = (
        [digest for x in images.copies() for digest in digests(x)]
        for images in (data.train, data.test)
    )
    known = set(train)
    return sum(digest in known for digest in test)


def digests(rows: Tensor) -> list[bytes]:
    """Return a digest of each row."""
    return [digest_of(row.tobytes()) for row in rows.numpy()]


def repeated(found: Sequence[bytes], known: Iterable[bytes] = ()) -> list[int]:
    """Return the places of digests that are known or were found before."""
    seen, places = set(known), []
    for i, digest in enumerate(found):
        if digest in seen:
            places.append(i)
        seen.add(digest)
    return places


def warn_of_duplicates(count: int, where: str, example: str = "") -> None:
    if count:
        message = f"{where}: {count} test images are also training images{example}"
        warnings.warn(message, DuplicateWarning, stacklevel=3)


def digest_of(image: bytes) -> bytes:
    return blake2b(image, digest_size=DIGEST).digest()


class Batch(NamedTuple):
    x: Tensor  # (n, *read) float32, augmented and normalised, on the device
    y: Tensor  # (n,) int64, on the device
    images: Images  # where the rows came from, unaugmented: what a memory stores
    stored: Tensor | None = None  # (n,) int64, only for replayed rows: where they are in the memory
    logits: Tensor | None = None  # (n, classes) float32, only for replayed rows that have them
    features: Tensor | None = None  # (n, d) float32, likewise; NaN in rows that have none yet
