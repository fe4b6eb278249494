"""Tasks and scenarios: which classes are learned when, and on which images they are tested.

Knows views of images. Knows nothing of nets, losses, randomness or epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch

from .images import Dataset, Images, Tasks, join


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
        """Return the scenario of joint training on all data so far: task t holds tasks 0..t."""
        parts = accumulate(([t.train] for t in self.tasks), lambda a, b: a + b)
        tasks = (replace(t, train=join(p)) for t, p in zip(self.tasks, parts, strict=True))
        return replace(self, tasks=tuple(tasks))

    def at_once(self) -> Scenario:
        """Return the scenario of joint training from scratch: one task, tested group by group."""
        last = self.tasks[-1]
        train = join([t.train for t in self.tasks])
        return replace(self, tasks=(Task(last.index, last.seen, (), train),))


def split(
    name: str, data: Dataset, per_task: Sequence[int], order: Sequence[int] | None = None
) -> Scenario:
    """Split by class: task t learns the next `per_task[t]` classes of `order`.

    Classes are relabelled by their place in the order, so label 0 is always learned first.
    """
    order = range(len(data.names)) if order is None else order
    place = torch.full((len(data.names),), -1)
    place[list(order)] = torch.arange(len(order))
    train, test = (replace(images, y=place[images.y]) for images in (data.train, data.test))
    tasks, groups, first = [], [], 0
    for index, count in enumerate(per_task):
        classes = tuple(range(first, first + count))
        tasks.append(Task(index, classes, tuple(range(first)), train.select(classes)))
        groups.append(Group(classes, test.select(classes)))
        first += count
    names = tuple(data.names[c] for c in order)
    return Scenario(name, first, tuple(tasks), tuple(groups), names)


def streamed(name: str, data: Dataset, tasks: Tasks) -> Scenario:
    """Make any stream: image i of the training data comes in task `tasks.train[i]`.

    A class may come in several tasks; it is new in the first of them.
    """
    learned, groups = [], []
    seen: tuple[int, ...] = ()
    for index in range(len(tasks.names)):
        train = data.train.take((tasks.train == index).nonzero()[:, 0])
        test = data.test.take((tasks.test == index).nonzero()[:, 0])
        present = tuple(sorted(set(train.y.tolist())))
        new = tuple(c for c in present if c not in seen)
        learned.append(Task(index, new, seen, train))
        groups.append(Group(present, test))
        seen = (*seen, *new)
    return Scenario(name, len(data.names), tuple(learned), tuple(groups), data.names)
