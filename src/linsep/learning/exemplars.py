"""Memories that are filled when a task has been learned, and the policies by name."""

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..data.images import Images, join
from ..data.tasks import Task
from ..nets.net import Spec
from ..settings import sections
from .memory import BalancedReservoir, Evaluate, Fresh, LossAware, Memory, Reservoir, Stock

HELD_OUT = 0.1  # share of a class's rows that `HeldOut` keeps from training


class Herding(Memory):
    """As many rows of each class, those whose running mean tracks the class's mean feature.

    Features are normalised first; `RawHerding` is what the BFP authors' program does.

    Algorithms 4 and 5 of Rebuffi et al. (2017). Rows are kept in the order they were chosen in, so
    that dropping the last ones leaves the best.
    """

    def consolidate(self, task: Task, evaluate: Evaluate, rng: Fresh) -> None:
        share, old = self.capacity // len(task.seen), self.images()
        kept = [of_class(old, c, share) for c in task.earlier]
        for c in task.classes:
            images = task.train.select([c])
            kept.append(images.take(herd(self._compared(evaluate(images).features.cpu()), share)))
        self._refill(self.columns_of(join(kept)))

    def _compared(self, features: Tensor) -> Tensor:
        return F.normalize(features)


class RawHerding(Herding):
    """Herding by features as they are, of images that are not normalised."""

    normalised = False

    def _compared(self, features: Tensor) -> Tensor:
        return features


def herd(z: Tensor, n: int) -> Tensor:
    """Greedy choice of n rows: each brings the chosen rows' mean closest to the mean of all.

    ||mean - (total + z) / k|| is smallest where |z|^2 + 2 z.(total - k mean) is.
    """
    z = z.double()
    mean, square = z.mean(0), z.square().sum(1)
    total, rows = torch.zeros_like(mean), []
    taken = torch.zeros(len(z), dtype=torch.bool)
    for k in range(1, min(n, len(z)) + 1):
        cost = (square + 2 * (z @ (total - k * mean))).masked_fill(taken, torch.inf)
        rows.append(int(cost.argmin()))
        taken[rows[-1]] = True
        total += z[rows[-1]]
    return torch.tensor(rows, dtype=torch.int64)


class TaskShares(Memory):
    """As many random rows of each task, with the logits that the net gave them at its end."""

    own: ClassVar = {"task": -1}  # that the row was learned in

    def consolidate(self, task: Task, evaluate: Evaluate, rng: Fresh) -> None:
        held = self.columns["task"][: self.size]
        before = held.unique().tolist()
        share = self.capacity // (len(before) + 1)
        # A task's rows are in a random order already, so the first ones are a fair choice.
        old = torch.cat([held[:0], *((held == t).nonzero()[:share, 0] for t in before)])
        chosen = torch.from_numpy(rng().permutation(len(task.train))[:share])
        new = task.train.take(chosen)
        kept = self.columns_of(join([self.at(old), new]))
        kept["task"] = torch.cat([held[old], torch.full_like(chosen, task.index)])
        if self.logits is not None:
            kept["logits"] = torch.cat([self.logits[old], evaluate(new).logits.float().cpu()])
        self._refill(kept)


class Greedy(Memory):
    """Rows as they come, as many of each class as there is room for.

    Algorithm 1 of Prabhu et al. (2020), GDumb, on one pass over the task in a random order: a row
    is taken while its class has less than an equal share, if need be in the place of a random row
    of the largest class.
    """

    def consolidate(self, task: Task, evaluate: Evaluate, rng: Fresh) -> None:
        old, one = self.images(), rng()
        both = join([old, task.train])
        order = len(old) + one.permutation(len(task.train))
        rows = greedy(both.y.numpy(), range(len(old)), order.tolist(), self.capacity, one)
        self._refill(self.columns_of(both.take(torch.tensor(rows))))


def greedy(
    labels: np.typing.NDArray[np.int64],
    held: Sequence[int],
    offered: Sequence[int],
    capacity: int,
    rng: np.random.Generator,
) -> list[int]:
    """The rows that are kept, class by class, when each of `offered` is looked at in turn."""
    members: dict[int, list[int]] = {}
    for row in held:
        members.setdefault(int(labels[row]), []).append(row)
    size = len(held)
    for row in offered:
        mine = members.setdefault(int(labels[row]), [])
        if len(mine) >= capacity / len(members):
            continue
        if size == capacity:
            largest = max(members.values(), key=len)
            largest.pop(int(rng.integers(len(largest))))
        else:
            size += 1
        mine.append(row)
    return [row for label in sorted(members) for row in members[label]]


class HeldOut(Memory):
    """As many random rows of each class, a tenth of them never trained on (Wu et al., 2019)."""

    own: ClassVar = {"held": False}

    def parts(self) -> tuple[Images, Images]:
        """The stored rows to train on, and those that are held out."""
        held = self.columns["held"][: self.size]
        return self.images().take((~held).nonzero()[:, 0]), self.images().take(held.nonzero()[:, 0])

    def sample(self, n: int, rng: np.random.Generator) -> Tensor:
        """Row numbers of a replay batch, none of them held out."""
        rows = (~self.columns["held"][: self.size]).nonzero()[:, 0]
        return rows[torch.from_numpy(rng.choice(len(rows), min(n, len(rows)), replace=False))]

    def consolidate(self, task: Task, evaluate: Evaluate, rng: Fresh) -> None:
        share = self.capacity // len(task.seen)
        spare = min(max(1, round(HELD_OUT * share)), share - 1)
        (old, old_held), (new, new_held) = self.parts(), hold_out(task.train, rng())
        trained = _some_of_each(task, old, new, share - spare)
        held = _some_of_each(task, old_held, new_held, spare)
        flags = torch.arange(len(trained) + len(held)) >= len(trained)
        self._refill(self.columns_of(join([trained, held])) | {"held": flags})


def _some_of_each(task: Task, old: Images, new: Images, count: int) -> Images:
    """So many rows of each class seen, the earlier ones' from `old`."""
    earlier = [of_class(old, c, count) for c in task.earlier]
    return join(earlier + [of_class(new, c, count) for c in task.classes])


def hold_out(images: Images, rng: np.random.Generator) -> tuple[Images, Images]:
    """A random tenth of each class's rows apart, at least one: (to train on, held out).

    Of a class with a single row none is held out.
    """
    kept, held = [], []
    for c in images.y.unique().tolist():
        rows = (images.y == c).nonzero()[:, 0]
        rows = rows[torch.from_numpy(rng.permutation(len(rows)))]
        n = min(max(1, round(HELD_OUT * len(rows))), len(rows) - 1)
        held.append(rows[:n])
        kept.append(rows[n:])
    return images.take(torch.cat(kept)), images.take(torch.cat(held))


def balanced(stored: Images, task: Task, rng: np.random.Generator) -> Images:
    """Stored rows and rows of the task, about as many of each class seen."""
    if not len(stored) or not task.earlier:
        return task.train
    old = stored.select(task.earlier)
    share = max(1, len(old) // len(task.earlier))
    mixed = task.train.take(torch.from_numpy(rng.permutation(len(task.train))))
    new = [mixed.take((mixed.y == c).nonzero()[:share, 0]) for c in task.classes]
    return join([old, *new])


def of_class(images: Images, label: int, at_most: int) -> Images:
    """The first rows of a class."""
    return images.take((images.y == label).nonzero()[:at_most, 0])


POLICIES: Mapping[str, type[Memory]] = {
    "balanced": BalancedReservoir,
    "greedy": Greedy,
    "held_out": HeldOut,
    "herding": Herding,
    "loss_aware": LossAware,
    "plain": Reservoir,
    "raw_herding": RawHerding,
    "task_shares": TaskShares,
}


def make_memory(
    wanted: sections.Memory, spec: Spec, columns: Collection[str], tasks: Sequence[Task]
) -> Memory:
    """The memory that a configuration asks for; without rows, one that keeps nothing.

    It names rows of the tasks' data, unless these are still to come, as a classifier's are.
    """
    if not wanted.size:
        return Memory(spec.raw, spec.classes, 0)
    stock = Stock(tasks) if any(len(task.train) for task in tasks) else None
    room = spec.raw, spec.classes, wanted.size, columns, stock
    balanced = wanted.policy == "balanced"
    made = BalancedReservoir(*room, wanted.evict) if balanced else POLICIES[wanted.policy](*room)
    if "features" in columns:
        made.columns["features"] = torch.full((wanted.size, spec.features), torch.nan)
    return made
