"""Labelled images as views of uint8 tensors, and the batches that a net is given.

Knows which rows of which tensor are meant, and copies pixels in `Images.pixels` only. Knows nothing
of tasks, nets or randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import DataError


@dataclass(frozen=True, eq=False)
class Images:
    """A view of labelled uint8 images: row `rows[i]` of source `which[i]`, labelled `y[i]`.

    A source may be memory-mapped: only the rows that `pixels` asks for are ever read.
    """

    sources: tuple[Tensor, ...]  # each (N, c, h, w) uint8, on the host
    which: Tensor  # (n,) int64
    rows: Tensor  # (n,) int64
    y: Tensor  # (n,) int64

    @classmethod
    def of(cls, source: Tensor, y: Tensor) -> Images:
        if len(source) != len(y):
            raise DataError(f"{len(source)} images but {len(y)} labels")
        return cls((source,), torch.zeros_like(y), torch.arange(len(y)), y)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one stored image: (channels, height, width)."""
        c, h, w = self.sources[0].shape[1:]
        return c, h, w

    def take(self, rows: Tensor) -> Images:
        return replace(self, which=self.which[rows], rows=self.rows[rows], y=self.y[rows])

    def select(self, classes: Iterable[int]) -> Images:
        return self.take(torch.isin(self.y, torch.tensor(list(classes))).nonzero()[:, 0])

    def relabel(self, y: Tensor) -> Images:
        return replace(self, y=y)

    def chunks(self, size: int) -> Iterator[Images]:
        return (self.take(rows) for rows in torch.arange(len(self)).split(size))

    def pixels(self) -> Tensor:
        """The images themselves, (n, c, h, w): the only copy this file ever makes."""
        if len(self.sources) == 1:
            return self.sources[0][self.rows]
        out = self.sources[0].new_empty(len(self), *self.shape)
        for i, source in enumerate(self.sources):
            here = (self.which == i).nonzero()[:, 0]
            out[here] = source[self.rows[here]]
        return out


def join(parts: Sequence[Images]) -> Images:
    """The parts one after another, each source held once."""
    sources = tuple({id(s): s for p in parts for s in p.sources}.values())
    place = {id(s): i for i, s in enumerate(sources)}
    which = [torch.tensor([place[id(s)] for s in p.sources])[p.which] for p in parts]
    rows, y = torch.cat([p.rows for p in parts]), torch.cat([p.y for p in parts])
    return Images(sources, torch.cat(which), rows, y)


class Dataset(NamedTuple):
    """What every source of images gives."""

    train: Images
    test: Images
    names: tuple[str, ...]  # of the classes; label i is names[i]
    digest: str | None = None  # of the content, where the source already knows it


class Batch(NamedTuple):
    x: Tensor  # (n, *input) float32, augmented and normalised, on the device
    y: Tensor  # (n,) int64, on the device
    images: Images  # where the rows came from, unaugmented: what a memory stores
    logits: Tensor | None = None  # (n, classes) float32, only on replayed rows that have them
