"""What is kept of the past: a table on the host, as large as it will ever be.

A run's table names rows of its training data, and a classifier's holds the rows themselves. What
the rows are for is the terms' business, and random choices come from a generator that is
handed in. The cost of an insertion does not depend on the capacity, except where rows compete by
their losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ..data.images import Images, dtype_of, join
from ..data.tasks import Task
from ..nets.net import Output, Shape

Evaluate = Callable[[Images], Output]  # the net's outputs for plain images, no gradient
Fresh = Callable[[], np.random.Generator]  # a generator that starts over at every call
Rows = NDArray[np.int64]
Evict = Literal["all_largest", "one_largest"]


class Stock:
    """All training data of a run, in the order of its tasks, and where each row is among it."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.images = join([task.train for task in tasks])
        self._places: dict[int, Tensor] = {}  # of every row of a source, by the source's place

    def __deepcopy__(self, memo: object) -> Stock:
        return self  # nothing writes to data

    def places(self, images: Images) -> Tensor:
        """Where these rows are, which must be some of the stock's."""
        found = torch.empty_like(images.rows)
        for number in images.which.unique().tolist():
            here = images.which == number
            found[here] = self._of(images.sources[number])[images.rows[here]]
        return found

    def has(self, places: Tensor, y: Tensor) -> bool:
        """Whether there are rows with these labels at these places."""
        whole = places.dtype == torch.int64 and places.shape == y.shape
        if not whole or not ((places >= 0) & (places < len(self.images))).all():
            return False
        return torch.equal(self.images.y[places], y)

    def _of(self, source: Tensor) -> Tensor:
        (mine,) = (i for i, other in enumerate(self.images.sources) if other is source)
        if mine not in self._places:
            held = (self.images.which == mine).nonzero()[:, 0]
            self._places[mine] = torch.full((len(source),), -1)
            self._places[mine][self.images.rows[held]] = held
        return self._places[mine]


class Memory:
    """A table whose first `size` rows are filled. Subclasses choose which rows to keep."""

    # Columns of a subclass, and what fills them.
    own: ClassVar[Mapping[str, int | bool | float]] = {}
    normalised = True  # whether rows are chosen by what the net says of normalised images

    def __init__(
        self,
        shape: Shape,
        classes: int,
        capacity: int,
        columns: Collection[str] = (),
        stock: Stock | None = None,
    ) -> None:
        """`stock` has all that will ever be offered; None: what is kept is copied."""
        self.capacity, self.classes, self.stock = capacity, classes, stock
        self.size = 0
        self.image_bytes = capacity * math.prod(shape) * dtype_of(shape).itemsize
        self.columns = {
            **({} if stock else {"x": torch.zeros(capacity, *shape, dtype=dtype_of(shape))}),
            **({"place": torch.zeros(capacity, dtype=torch.int64)} if stock else {}),
            "y": torch.full((capacity,), -1),
            **{name: torch.full((capacity,), fill) for name, fill in self.own.items()},
        }
        if "logits" in columns:
            self.columns["logits"] = torch.zeros(capacity, classes)

    def __len__(self) -> int:
        return self.size

    @property
    def y(self) -> Tensor:
        return self.columns["y"]

    @property
    def logits(self) -> Tensor | None:
        return self.columns.get("logits")

    def beside(self, rows: Tensor) -> dict[str, Tensor]:
        """What is stored with these rows for terms to look at, by its name in a `Batch`."""
        return {n: self.columns[n][rows] for n in ("logits", "features") if n in self.columns}

    def images(self) -> Images:
        """A view: whoever trains on it must not let the memory change meanwhile."""
        return self.at(torch.arange(self.size))

    def at(self, rows: Tensor) -> Images:
        """The images of some rows, at a cost that does not depend on the capacity."""
        if self.stock is not None:
            return self.stock.images.take(self.columns["place"][rows])
        return Images((self.columns["x"],), torch.zeros_like(rows), rows, self.y[rows])

    def columns_of(self, images: Images) -> dict[str, Tensor]:
        """The images as columns of this table, which are no views of anything."""
        if self.stock is not None:
            return {"place": self.stock.places(images), "y": images.y}
        return {"x": images.pixels(), "y": images.y}

    def sample(self, n: int, rng: np.random.Generator) -> Tensor:
        """Row numbers of a replay batch, without replacement, at most as many as there are."""
        return torch.from_numpy(rng.choice(self.size, min(n, self.size), replace=False))

    def observe(self, images: Images, logits: Tensor, rng: np.random.Generator) -> None:
        """Take in rows of the stream; called after every step of a stage that observes."""

    def replayed(self, rows: Tensor, logits: Tensor) -> None:
        """Learn what the net says of replayed rows; called in every step, before `observe`."""

    def consolidate(self, task: Task, evaluate: Evaluate, rng: Fresh) -> None:
        """Take in a task; called once in each, when the net has learned it or a stage asks for it.

        The generator is the one that the task's stages choose their rows with.
        """

    def state_dict(self) -> dict[str, Any]:
        return {name: column[: self.size].clone() for name, column in self.columns.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if self.stock is not None and not self.stock.has(state["place"], state["y"]):
            raise ValueError("the memory's rows are none of the training data's")
        self._refill({name: state[name] for name in self.columns})

    def _refill(self, columns: Mapping[str, Tensor]) -> None:
        """Keep these rows and no others. They must not be views of the table itself."""
        self.size = len(columns["y"])
        self.y.fill_(-1)
        self._forget_features(slice(None))
        for name, values in columns.items():
            self.columns[name][: self.size] = values

    def refresh(self, evaluate: Evaluate) -> None:
        """Store the features that the net gives every row now, if a term asked for them."""
        if "features" in self.columns and self.size:
            self.columns["features"][: self.size] = evaluate(self.images()).features.cpu()

    def _forget_features(self, rows: Tensor | slice) -> None:
        if "features" in self.columns:
            self.columns["features"][rows] = torch.nan

    def _write(self, slots: Rows, images: Images, logits: Tensor) -> None:
        """Row i of the batch goes to slots[i]; where a slot is named twice the later row stays."""
        last = {int(slot): i for i, slot in enumerate(slots)}
        into, source = torch.tensor(list(last)), torch.tensor(list(last.values()))
        for name, values in self.columns_of(images.take(source)).items():
            self.columns[name][into] = values
        self._forget_features(into)
        if self.logits is not None:
            self.logits[into] = logits.detach()[source.to(logits.device)].to("cpu", torch.float32)


def with_rows(state: Mapping[str, Any], kept: Tensor) -> dict[str, Any]:
    """The state of a memory with these rows, (n,) bool, and no others."""
    found = {name: value[kept] for name, value in state.items() if name not in ("order", "seen")}
    if "order" in state:
        places = kept.cumsum(0) - 1
        found["order"] = places[state["order"][kept[state["order"]]]]
    if "seen" in state:  # a reservoir with room takes every row that is offered
        found["seen"] = state["seen"] if bool(kept.all()) else int(kept.sum())
    return found


class Reservoir(Memory):
    """Reservoir sampling: every row offered so far is kept with the same probability."""

    seen = 0  # rows offered so far, in every pass over the data

    def observe(self, images: Images, logits: Tensor, rng: np.random.Generator) -> None:
        n = len(images)
        place = self.seen + np.arange(n)
        # A random number for every row, needed or not: what is drawn depends on nothing but n.
        slots = rng.integers(0, place + 1)
        slots = np.where(place < self.capacity, place, slots)
        accepted = np.flatnonzero(slots < self.capacity)
        self.seen += n
        self.size = min(self.seen, self.capacity)
        if len(accepted):
            rows = torch.from_numpy(accepted)
            kept, said = images.take(rows), logits[rows.to(logits.device)]
            self._write(self._settle(slots[accepted], kept, said, rng), kept, said)

    def _settle(
        self, slots: Rows, images: Images, logits: Tensor, rng: np.random.Generator
    ) -> Rows:
        """Where the accepted rows really go, one after another."""
        return slots

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"seen": self.seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.seen = int(state["seen"])


class BalancedReservoir(Reservoir):
    """Reservoir sampling that evicts from a largest class (Algorithm 2 of the paper).

    Where classes tie for the largest, the evicted sample is drawn from all of them ("all_largest",
    the authors' code) or from the one with the smallest label ("one_largest", the argmax of the
    paper's text); D9.
    """

    def __init__(
        self,
        shape: Shape,
        classes: int,
        capacity: int,
        columns: Collection[str] = (),
        stock: Stock | None = None,
        evict: Evict = "all_largest",
    ) -> None:
        super().__init__(shape, classes, capacity, columns, stock)
        self.evict = evict
        self._members: list[list[int]] = [[] for _ in range(classes)]  # rows of each class
        self._counts = np.zeros(classes, np.int64)

    def _settle(
        self, slots: Rows, images: Images, logits: Tensor, rng: np.random.Generator
    ) -> Rows:
        filled = sum(map(len, self._members))  # grows to the capacity, then stays
        settled = slots.copy()
        for i, label in enumerate(images.y.numpy()):
            if filled < self.capacity:
                filled += 1
            else:
                settled[i] = self._evict(int(label), rng)
            self._members[label].append(int(settled[i]))
            self._counts[label] += 1
        return settled

    def _evict(self, newcomer: int, rng: np.random.Generator) -> int:
        """Take out a row of a largest class; O(1) by putting the class's last in its place.

        Equally large classes have equally many rows, so choosing a class and then a row of it is
        choosing among all their rows.
        """
        largest = self._largest(newcomer)
        if self.evict == "one_largest":
            largest = largest[:1]  # the argmax of Algorithm 2: the first of the tied ones
        label = largest[rng.integers(len(largest))]
        rows = self._members[label]
        k = self._pick(rows, rng)
        row, rows[k] = rows[k], rows[-1]
        rows.pop()
        self._counts[label] -= 1
        return row

    def _largest(self, newcomer: int) -> Rows:
        """The classes that a row may be taken from, for one of the newcomer's class."""
        return np.flatnonzero(self._counts == self._counts.max())

    def _pick(self, rows: Sequence[int], rng: np.random.Generator) -> int:
        """Which of a class's rows goes."""
        return int(rng.integers(len(rows)))

    def state_dict(self) -> dict[str, Any]:
        # The order within a class decides what later choices hit, so it is part of the state.
        order = torch.tensor([row for rows in self._members for row in rows], dtype=torch.int64)
        return super().state_dict() | {"order": order}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._members = [[] for _ in range(self.classes)]
        for row in state["order"].tolist():
            self._members[int(self.y[row])].append(row)
        self._counts = np.array([len(rows) for rows in self._members], np.int64)


class LossAware(BalancedReservoir):
    """A balanced reservoir in which, within a largest class, easy rows go sooner than hard ones.

    Row i of the class goes with a probability proportional to max(L) - L_i: the hardest one stays.
    L_i is its cross-entropy when it was last in a batch, of the stream or replayed. A newcomer
    whose own class is a largest one takes the place of one of its own, so that classes with rows
    enough differ by one at most. After Buzzega et al. (2020), "a bag of tricks".
    """

    own: ClassVar = {"loss": 0.0}

    def replayed(self, rows: Tensor, logits: Tensor) -> None:
        self.columns["loss"][rows] = _losses(self.y[rows], logits)

    def _settle(
        self, slots: Rows, images: Images, logits: Tensor, rng: np.random.Generator
    ) -> Rows:
        losses, settled = _losses(images.y, logits), slots.copy()
        for i in range(len(slots)):  # one by one: each competes with those that came before it
            one = torch.tensor([i])
            settled[i] = super()._settle(slots[i : i + 1], images.take(one), logits, rng)[0]
            self.columns["loss"][settled[i]] = losses[i]
        return settled

    def _largest(self, newcomer: int) -> Rows:
        largest = super()._largest(newcomer)
        return np.array([newcomer]) if newcomer in largest else largest

    def _pick(self, rows: Sequence[int], rng: np.random.Generator) -> int:
        losses = self.columns["loss"][rows].double().numpy()
        ease = losses.max() - losses
        return int(rng.choice(len(rows), p=ease / ease.sum() if ease.any() else None))


def _losses(y: Tensor, logits: Tensor) -> Tensor:
    """Each row's cross-entropy, on the host."""
    said = logits.detach().to("cpu", torch.float32)
    return F.cross_entropy(said, y, reduction="none")
