"""Memories that are filled at a task's end, and the rule that reads them."""

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linsep.data.images import Images
from linsep.data.tasks import Task
from linsep.learning.exemplars import (
    Greedy,
    HeldOut,
    Herding,
    RawHerding,
    TaskShares,
    greedy,
    herd,
    hold_out,
)
from linsep.learning.memory import Memory
from linsep.learning.model import NearestMean
from linsep.nets.net import Output, Spec

SHAPE = (1, 2, 2)
PER_CLASS = 20


def fresh(seed: int) -> Callable[[], np.random.Generator]:
    return lambda: np.random.default_rng(seed)


def task(index: int) -> Task:
    """Two classes; every pixel of an image is its row's number in the task."""
    classes = (2 * index, 2 * index + 1)
    y = torch.tensor(classes).repeat_interleave(PER_CLASS)
    x = torch.arange(len(y), dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, *SHAPE)
    return Task(index, classes, tuple(range(2 * index)), Images.of(x, y))


def evaluate(images: Images) -> Output:
    """Logits and features that say which image it was."""
    rows = images.pixels()[:, 0, 0, 0].float()
    angle = rows / 10
    logits = torch.stack([rows, images.y.float()], dim=1)
    return Output(logits, torch.stack([angle.cos(), angle.sin()], dim=1), {})


def filled(kind: type[Memory], tasks: int, capacity: int, columns: tuple[str, ...] = ()) -> Memory:
    memory = kind(SHAPE, 2, capacity, columns)
    for t in range(tasks):
        memory.consolidate(task(t), evaluate, fresh(t))
    return memory


def rows(memory: Memory) -> list[tuple[int, int]]:
    """(label, row of its task) of what is stored."""
    images = memory.images()
    return list(zip(images.y.tolist(), images.pixels()[:, 0, 0, 0].tolist(), strict=True))


def brute_force(z: Tensor, n: int) -> list[int]:
    """Algorithm 4 of iCaRL, word for word."""
    chosen: list[int] = []
    for _ in range(n):
        free = [i for i in range(len(z)) if i not in chosen]
        chosen.append(min(free, key=lambda i: float((z.mean(0) - z[[*chosen, i]].mean(0)).norm())))
    return chosen


@pytest.mark.parametrize("seed", range(5))
def test_herding_equals_brute_force(seed: int) -> None:
    z = torch.randn(30, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    assert herd(F.normalize(z), 12).tolist() == brute_force(F.normalize(z), 12)


def test_herding_keeps_the_best_when_it_must_drop_some() -> None:
    memory = filled(Herding, 1, 16)
    before = rows(memory)
    images = task(0).train.select([0])
    order = brute_force(F.normalize(evaluate(images).features.double()), 8)
    assert [row for label, row in before if label == 0] == order
    memory.consolidate(task(1), evaluate, fresh(0))
    kept = [row for label, row in rows(memory) if label == 0]
    assert kept == order[:4]
    assert Counter(label for label, _ in rows(memory)) == dict.fromkeys(range(4), 4)


def test_raw_herding_compares_features_as_they_are() -> None:
    """Angles as before, lengths that grow with the row: normalising them changes the choice."""

    def longer(images: Images) -> Output:
        out = evaluate(images)
        rows = images.pixels()[:, 0, 0, :1].float()
        return out._replace(features=out.features * (1 + rows))

    memory = RawHerding(SHAPE, 2, 16)
    memory.consolidate(task(0), longer, fresh(0))
    z = longer(task(0).train.select([0])).features.double()
    assert [row for label, row in rows(memory) if label == 0] == brute_force(z, 8)
    assert brute_force(z, 8) != brute_force(F.normalize(z), 8)


def test_nearest_mean_by_hand() -> None:
    """Class 0 has exemplars at 0 and 90 degrees, class 1 at 180: their lengths do not matter."""
    z = torch.tensor([[1.0, 0.0], [0.0, 5.0], [-2.0, 0.0]])
    exemplars = Images.of(torch.zeros(3, *SHAPE, dtype=torch.uint8), torch.tensor([0, 0, 1]))
    rule = NearestMean(Spec(SHAPE, SHAPE, 3, {"features": 2}))
    context: Any = SimpleNamespace(evaluate=lambda images: Output(torch.zeros(3, 3), z, {}))
    rule.fit(context, exemplars)
    root = 0.5**0.5
    assert torch.allclose(rule.means[:2], torch.tensor([[root, root], [-1.0, 0.0]]))
    scores = rule(Output(torch.zeros(1, 3), torch.tensor([[0.0, 3.0]]), {}))
    expected = torch.tensor([(root**2 + (1 - root) ** 2) ** 0.5, 2**0.5])
    assert torch.allclose(-scores[0, :2], expected)


def test_task_shares_are_equal_and_keep_the_outputs_of_their_own_time() -> None:
    memory = filled(TaskShares, 2, 12, ("logits",))
    assert isinstance(memory, TaskShares)
    assert memory.logits is not None
    before = dict(zip(rows(memory), memory.logits.tolist(), strict=True))

    def shifted(images: Images) -> Output:
        return evaluate(images)._replace(logits=evaluate(images).logits + 100)

    memory.consolidate(task(2), shifted, fresh(9))
    assert memory.columns["task"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert len(set(rows(memory))) == 12
    for (label, row), stored in zip(rows(memory), memory.logits.tolist(), strict=True):
        new = label in task(2).classes
        expected = [row + 100.0, label + 100.0] if new else before[label, row]
        assert stored == expected


@given(st.lists(st.integers(0, 4), max_size=60), st.integers(5, 20), st.integers(0, 3))
def test_the_greedy_memory_balances_what_it_can(labels: list[int], room: int, seed: int) -> None:
    """It is full if it can be; a class is below its share only if no more rows of it came."""
    kept = greedy(np.array(labels), [], range(len(labels)), room, np.random.default_rng(seed))
    assert len(set(kept)) == len(kept) <= room
    offered, held = Counter(labels), Counter(labels[i] for i in kept)
    share = room / max(1, len(offered))
    assert all(held[c] >= min(offered[c], int(share)) for c in offered)


def test_the_greedy_memory_makes_room_by_the_largest_class() -> None:
    memory = filled(Greedy, 1, 10)
    assert Counter(label for label, _ in rows(memory)) == {0: 5, 1: 5}
    old = set(rows(memory))
    memory.consolidate(task(1), evaluate, fresh(5))
    counts = Counter(label for label, _ in rows(memory))
    assert sum(counts.values()) == 10
    assert set(counts) == {0, 1, 2, 3}
    assert max(counts.values()) <= 3
    assert {r for r in rows(memory) if r[0] < 2} <= old


def test_a_tenth_is_held_out_and_stays_so() -> None:
    """Rows that are held out in their own task are held out in the memory ever after."""
    memory = HeldOut(SHAPE, 2, 40)
    held_ever: set[tuple[int, int]] = set()
    trained_ever: set[tuple[int, int]] = set()
    for t in range(3):
        now = task(t)
        kept, held = hold_out(now.train, np.random.default_rng(t))
        assert (len(kept), len(held)) == (36, 4)
        assert not set(_named(kept)) & set(_named(held))
        trained_ever |= set(_named(kept))
        held_ever |= set(_named(held))
        memory.consolidate(now, evaluate, fresh(t))
        to_train, to_fit = map(_named, memory.parts())
        assert set(to_train) <= trained_ever
        assert set(to_fit) <= held_ever
        share = 40 // len(now.seen)
        spare = max(1, round(share / 10))
        assert Counter(c for c, _ in to_train) == dict.fromkeys(now.seen, share - spare)
        assert Counter(c for c, _ in to_fit) == dict.fromkeys(now.seen, spare)


def _named(images: Images) -> list[tuple[int, int]]:
    return list(zip(images.y.tolist(), images.pixels()[:, 0, 0, 0].tolist(), strict=True))


def test_a_class_with_one_image_is_trained_on() -> None:
    labels = torch.tensor([0, 1, 1, 1])
    rows = Images.of(torch.zeros(4, *SHAPE, dtype=torch.uint8), labels)
    kept, held = hold_out(rows, np.random.default_rng(0))
    assert kept.y.tolist().count(0) == 1
    assert held.y.tolist() == [1]
