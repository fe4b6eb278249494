"""Randomness has a name and a place, and nobody disturbs anybody else's."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from linsep.data.images import Batch, Dataset, Images
from linsep.learning.method import BoundStage
from linsep.learning.run import Run
from linsep.prepare import build
from linsep.randomness import Cursor, Randomness
from linsep.settings.config import from_settings

NAMES = ["order", "augment", "memory", "bfp/rows", "bfp/augment", "backbone", ""]
SEEDS = [0, 1, 2, 2**31, 2**32, 2**32 + 1, 2**63, 2**64]
PLACES: list[tuple[int, ...]] = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0, 1), (2**32,)]


def drawn(seed: int, name: str, place: tuple[int, ...]) -> bytes:
    return Randomness(seed).at(name, *place).bytes(16)


def initialised(seed: int, name: str, place: tuple[int, ...]) -> bytes:
    with Randomness(seed).keyed(name, *place):
        return nn.Linear(3, 2).weight.detach().numpy().tobytes()


@pytest.mark.parametrize("kind", [drawn, initialised])
def test_a_name_and_place_give_the_same_numbers_however_often_asked(kind: Any) -> None:
    assert kind(3, "bfp/rows", (1, 2)) == kind(3, "bfp/rows", (1, 2))
    cursor = Cursor(task=1, step=2)
    assert kind(3, "order", tuple(cursor)) == kind(3, "order", (1, 0, 0, 2))
    numpy_place = tuple(np.array([1, 2]))
    assert kind(3, "order", numpy_place) == kind(3, "order", (1, 2))


@pytest.mark.parametrize("kind", [drawn, initialised])
def test_another_seed_name_or_place_gives_other_numbers(kind: Any) -> None:
    """Also for seeds that agree in their low 32 bits, all that torch's generator reads of one."""
    every = [(seed, name, place) for seed in SEEDS for name in NAMES for place in PLACES]
    assert len({kind(*one) for one in every}) == len(every)


Key = st.tuples(
    st.integers(0, 2**70), st.text(max_size=8), st.lists(st.integers(0, 2**40), max_size=4)
)


@given(Key, Key)
def test_keys_are_equal_only_if_all_of_their_parts_are(
    a: tuple[int, str, list[int]], b: tuple[int, str, list[int]]
) -> None:
    same = drawn(a[0], a[1], tuple(a[2])) == drawn(b[0], b[1], tuple(b[2]))
    assert same == (a == b)


def global_states() -> list[Any]:
    kind, keys, *rest = np.random.get_state()
    return [torch.get_rng_state().tolist(), random.getstate(), kind, list(keys), rest]


def test_the_global_generators_are_left_alone() -> None:
    before = global_states()
    Randomness(5).at("order", 0).random(7)
    with Randomness(5).keyed("backbone"):
        nn.Linear(3, 3)
    assert global_states() == before


def test_the_global_generator_comes_back_after_an_error() -> None:
    before = global_states()
    with pytest.raises(TypeError), Randomness(0).keyed("backbone"):
        nn.Linear(2, torch.rand(3))  # type: ignore[arg-type]
    assert global_states() == before


# --- in a run ------------------------------------------------------------------------------------

Steps = list[tuple[Batch, dict[str, Batch]]]
ROWS = 8  # of the stream's batch, and of every draw


def one_picture() -> Dataset:
    """The same picture under every label: what differs between two batches is augmentation."""
    picture = (torch.arange(64) * 4).to(torch.uint8).view(1, 1, 8, 8)
    y = torch.arange(4).repeat_interleave(ROWS * 2)
    images = Images.of(picture.expand(len(y), 1, 8, 8), y)
    return Dataset(images, images.take(torch.arange(0, len(y), 4)), ("a", "b", "c", "d"))


def watched(
    monkeypatch: pytest.MonkeyPatch, method: str, seed: int = 0, data: Dataset | None = None
) -> tuple[Run, Steps]:
    """A run, and the list that its steps' batches and draws go to."""
    settings: dict[str, Any] = {
        "method": method,
        "seed": seed,
        "scenario": {"name": "arrays", "per_task": 2} if data else "blobs",
        "net": {"name": "cnn", "width": 2},
        "training": {"epochs": 4, "batch_size": ROWS, "lr": 0.001},
        "compute": {"device": "cpu"},
    }
    if data is None:
        settings["scenario"] = {"name": "blobs", "classes": 4, "train": 16, "test": 4}
    if not method.startswith("ft"):
        settings["memory"] = {"size": 16, "replay_batch_size": ROWS}
    run = build(from_settings(settings), data=data)
    steps: Steps = []
    original = run.learner.step

    def spy(at: BoundStage, batch: Batch, draws: Mapping[str, Batch], epoch: int) -> Any:
        steps.append((batch, dict(draws)))
        return original(at, batch, draws, epoch)

    monkeypatch.setattr(run.learner, "step", spy)
    return run, steps


def test_steps_and_draws_do_not_share_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch of a run, stream or draw, is cut and flipped like another one."""
    run, steps = watched(monkeypatch, "er+bfp", data=one_picture())
    assert list(run)
    every = [b.x for batch, draws in steps for b in (batch, *draws.values())]
    full = [x.numpy().tobytes() for x in every if len(x) == ROWS]
    assert len(full) > 40
    assert len(set(full)) == len(full)


def test_a_new_consumer_disturbs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding replay leaves the stream as it was, adding BFP leaves ER's draws as they were."""
    seen = {}
    for method in ("ft", "er", "er+bfp", "derpp+bfp"):
        run, steps = watched(monkeypatch, method)
        initial = [p.detach().clone() for p in run.learner.net.parameters()]
        assert list(run)
        seen[method] = initial, steps
    for method in ("er", "er+bfp", "derpp+bfp"):
        assert all(map(torch.equal, seen["ft"][0], seen[method][0])), f"{method} starts elsewhere"
        for (a, _), (b, _) in zip(seen["ft"][1], seen[method][1], strict=True):
            assert torch.equal(a.x, b.x), f"{method} moves the stream"
            assert torch.equal(a.y, b.y), f"{method} moves the stream"
    replayed = 0
    for method in ("er+bfp", "derpp+bfp"):
        for (_, few), (_, more) in zip(seen["er"][1], seen[method][1], strict=True):
            assert few.keys() <= more.keys()
            for name in few:
                replayed += 1
                assert torch.equal(few[name].x, more[name].x), f"{method} moves ER's draw"
                assert torch.equal(few[name].y, more[name].y), f"{method} moves ER's draw"
    assert replayed > 20
