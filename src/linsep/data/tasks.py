"""Tasks and scenarios: which classes are learned when, and on which images they are tested.

`draw` shows a scenario as one picture: a column for every task, a row for every class in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from PIL import Image, ImageDraw, ImageFont

from .images import Dataset, Images, Shape, Tasks, join
from .reading import picture_of

TILE = 56  # side of each drawn image, in pixels
GAP = 2
TEXT = 13  # height of a line of text
BETWEEN = 14  # space between tasks
INK, PAPER = (40, 40, 40), (255, 255, 255)


@dataclass(frozen=True, eq=False)
class Group:
    """Classes that belong together, and their test images: a column of the accuracy matrix."""

    classes: tuple[int, ...]
    test: Images


@dataclass(frozen=True, eq=False)
class Task:
    """The images to learn next: a row of the accuracy matrix."""

    index: int  # of the newest group in it
    classes: tuple[int, ...]  # new in this task
    earlier: tuple[int, ...]  # learned in previous tasks; empty in the first
    train: Images

    @property
    def seen(self) -> tuple[int, ...]:
        return self.earlier + self.classes


@dataclass(frozen=True, eq=False)
class Scenario:
    name: str
    num_classes: int
    tasks: tuple[Task, ...]  # in the order they are learned
    groups: tuple[Group, ...]
    names: tuple[str, ...]  # of the classes

    @property
    def shape(self) -> Shape:
        """The shape of one stored row."""
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
    """Build a scenario from given tasks: training image i belongs to task `tasks.train[i]`.

    A class may occur in several tasks; it is new in the first of them.
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


def draw(scenario: Scenario, per_class: int = 3) -> Image.Image:
    """Draw the first training images of every class, task by task."""
    rows = max(len(task.classes) for task in scenario.tasks)
    column = per_class * (TILE + GAP) + BETWEEN
    row = TILE + TEXT + GAP
    size = (len(scenario.tasks) * column + BETWEEN, TEXT + 2 * GAP + rows * row + GAP)
    picture = Image.new("RGB", size, PAPER)
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(10)
    for t, task in enumerate(scenario.tasks):
        x = BETWEEN // 2 + t * column
        pen.text((x, GAP), f"task {t + 1}", INK, font)
        for r, c in enumerate(task.classes):
            y = TEXT + 2 * GAP + r * row
            name = _shortened(scenario.names[c], column - BETWEEN, font)
            pen.text((x, y + TILE), name, INK, font)
            for i, tile in enumerate(_tiles(task.train, c, per_class)):
                picture.paste(tile, (x + i * (TILE + GAP), y))
    return picture


def _tiles(images: Images, label: int, count: int) -> Iterator[Image.Image]:
    rows = (images.y == label).nonzero()[:count, 0]
    for image in images.take(rows).pixels():
        tile = picture_of(image).convert("RGB")
        how = Image.Resampling.NEAREST if max(tile.size) < TILE else Image.Resampling.BOX
        yield tile.resize((TILE, TILE), how)


def _shortened(text: str, width: int, font: ImageFont.ImageFont | ImageFont.FreeTypeFont) -> str:
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text + "…"
