"""Images, tasks and scenarios: frozen views of tensors.

Knows which rows belong to which task. Knows nothing of nets, losses, randomness or epochs, and
never copies pixels except in `Images.pixels`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from .errors import DataError


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


@dataclass(frozen=True, eq=False)
class Group:
    """Classes that belong together, and their test images: a column of the accuracy matrix."""

    classes: tuple[int, ...]
    test: Images


@dataclass(frozen=True, eq=False)
class Task:
    """Something to learn next: a row of the accuracy matrix."""

    index: int  # of the newest group in it
    classes: tuple[int, ...]  # new in this task
    earlier: tuple[int, ...]  # learned in tasks before this one; empty in the first
    train: Images

    @property
    def seen(self) -> tuple[int, ...]:
        return self.earlier + self.classes


@dataclass(frozen=True, eq=False)
class Scenario:
    name: str
    num_classes: int
    tasks: tuple[Task, ...]  # in the order of learning
    groups: tuple[Group, ...]
    names: tuple[str, ...]  # of the classes

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one stored image: (channels, height, width)."""
        return self.groups[0].test.shape

    def cumulative(self) -> Scenario:
        """Joint training on what was seen so far: task t holds all data of tasks 0..t."""
        parts = accumulate(([t.train] for t in self.tasks), lambda a, b: a + b)
        tasks = (replace(t, train=join(p)) for t, p in zip(self.tasks, parts, strict=True))
        return replace(self, tasks=tuple(tasks))

    def at_once(self) -> Scenario:
        """Joint training from scratch: one task with all classes, tested group by group."""
        last = self.tasks[-1]
        train = join([t.train for t in self.tasks])
        return replace(self, tasks=(Task(last.index, last.seen, (), train),))


def split(
    name: str, data: Dataset, per_task: Sequence[int], order: Sequence[int] | None = None
) -> Scenario:
    """Class-incremental split: task t learns the next `per_task[t]` classes of `order`.

    Classes are relabelled by their place in the order, so label 0 is always learned first.
    """
    order = range(len(data.names)) if order is None else order
    place = torch.full((len(data.names),), -1)
    place[list(order)] = torch.arange(len(order))
    train, test = (images.relabel(place[images.y]) for images in (data.train, data.test))
    tasks, groups, first = [], [], 0
    for index, count in enumerate(per_task):
        classes = tuple(range(first, first + count))
        tasks.append(Task(index, classes, tuple(range(first)), train.select(classes)))
        groups.append(Group(classes, test.select(classes)))
        first += count
    names = tuple(data.names[c] for c in order)
    return Scenario(name, first, tuple(tasks), tuple(groups), names)


def streamed(
    name: str, data: Dataset, train_tasks: Tensor, test_tasks: Tensor, tasks: int
) -> Scenario:
    """Any stream: image i of the training data comes in task `train_tasks[i]`.

    A class may come in several tasks; it is new in the first of them.
    """
    learned, groups = [], []
    seen: tuple[int, ...] = ()
    for index in range(tasks):
        train = data.train.take((train_tasks == index).nonzero()[:, 0])
        test = data.test.take((test_tasks == index).nonzero()[:, 0])
        present = tuple(sorted(set(train.y.tolist())))
        new = tuple(c for c in present if c not in seen)
        learned.append(Task(index, new, seen, train))
        groups.append(Group(present, test))
        seen = (*seen, *new)
    return Scenario(name, len(data.names), tuple(learned), tuple(groups), data.names)
