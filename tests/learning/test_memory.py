"""What is kept of the past: which rows, in which proportion, and at what cost."""

import io
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from linsep.data.images import Images
from linsep.learning import exemplars
from linsep.learning.exemplars import POLICIES
from linsep.learning.memory import BalancedReservoir, LossAware, Memory, Reservoir
from linsep.methods import assemble
from linsep.testing import same, toy_run

SHAPE = (1, 1, 4)
CLASSES = 5
Evict = Literal["all_largest", "one_largest"]


def rows_of(labels: Sequence[int], first: int = 0) -> tuple[Images, Tensor]:
    """Images and logits that carry their own number, so that a row can be told from any other."""
    number = np.arange(first, first + len(labels), dtype="<i4")
    x = torch.from_numpy(number.view(np.uint8).reshape(-1, *SHAPE))
    logits = torch.from_numpy(number)[:, None].float().expand(-1, CLASSES).clone()
    return Images.of(x, torch.tensor(labels)), logits


def numbers(memory: Memory) -> list[int]:
    """Which rows are kept: four bytes of pixels are one number."""
    pixels = memory.images().pixels().numpy()
    found: list[int] = pixels.reshape(-1, 4).view("<i4")[:, 0].tolist()
    return found


def offer(
    memory: Memory, labels: Sequence[int], batches: Sequence[int], rng: np.random.Generator
) -> None:
    first = 0
    for n in batches:
        memory.observe(*rows_of(labels[first : first + n], first), rng)
        first += n
    assert first == len(labels)


def kept(
    make: Any, labels: Sequence[int], batches: Sequence[int], trials: int
) -> Counter[frozenset[int]]:
    """How often each set of rows is what is left, of many tables and one long generator."""
    found: Counter[frozenset[int]] = Counter()
    rng, ends = np.random.default_rng(0), np.cumsum(batches)
    parts = [rows_of(labels[e - n : e], e - n) for n, e in zip(batches, ends, strict=True)]
    for _ in range(trials):
        memory = make()
        for part in parts:
            memory.observe(*part, rng)
        found[frozenset(numbers(memory))] += 1
    return found


def fits(found: Counter[frozenset[int]], expected: dict[frozenset[int], Fraction]) -> float:
    """The p-value of the counts, none of which may be of an impossible outcome."""
    assert found.keys() <= expected.keys()
    assert sum(expected.values()) == 1
    trials = sum(found.values())
    outcomes = sorted(expected, key=sorted)
    shares = [float(expected[o]) * trials for o in outcomes]
    assert min(shares) >= 5, "too few trials for a chi-square test"
    return float(stats.chisquare([found[o] for o in outcomes], shares).pvalue)


# --- which rows ----------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", [(6,), (1,) * 6], ids=str)
def test_every_set_of_rows_is_equally_likely_in_a_reservoir(batches: tuple[int, ...]) -> None:
    """Also if offered as one batch, in which a slot is written several times."""
    capacity, rows = 3, 6
    found = kept(lambda: Reservoir(SHAPE, CLASSES, capacity), [0] * rows, batches, 600)
    share = Fraction(1, comb(rows, capacity))
    every = {frozenset(c): share for c in combinations(range(rows), capacity)}
    assert fits(found, every) > 1e-3


def algorithm_2(
    labels: Sequence[int], capacity: int, evict: Evict
) -> dict[frozenset[int], Fraction]:
    """The distribution of what balanced reservoir sampling keeps, by following every branch."""
    states = {frozenset[int](): Fraction(1)}
    for n in range(len(labels)):  # n rows were seen before this one
        after: defaultdict[frozenset[int], Fraction] = defaultdict(Fraction)
        for state, share in states.items():
            if n < capacity:
                after[state | {n}] += share
                continue
            accepted = Fraction(capacity, n + 1)  # RandInt([0, N]) < |M|
            after[state] += share * (1 - accepted)
            count = Counter(labels[i] for i in state)
            most = max(count.values())
            largest = sorted(c for c in count if count[c] == most)
            if evict == "one_largest":  # the argmax is one class; of the tied ones the first
                largest = largest[:1]
            victims = [i for i in state if labels[i] in largest]
            for victim in victims:
                after[state - {victim} | {n}] += share * accepted / len(victims)
        states = dict(after)
    return states


@pytest.mark.parametrize("batches", [(7,), (5, 1, 1)], ids=str)
@pytest.mark.parametrize("evict", ["all_largest", "one_largest"])
def test_a_balanced_reservoir_follows_algorithm_2(evict: Evict, batches: tuple[int, ...]) -> None:
    labels, capacity = [2, 1, 1, 2, 0, 0, 1], 4
    expected = algorithm_2(labels, capacity, evict)
    found = kept(
        lambda: BalancedReservoir(SHAPE, CLASSES, capacity, evict=evict), labels, batches, 1000
    )
    assert fits(found, expected) > 1e-3


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, CLASSES - 1), min_size=1, max_size=60),
    st.integers(1, 12),
    st.integers(0, 2**32),
    st.sampled_from(["all_largest", "one_largest"]),
)
def test_only_a_largest_class_loses_a_row(
    labels: list[int], capacity: int, seed: int, evict: Evict
) -> None:
    memory = BalancedReservoir(SHAPE, CLASSES, capacity, evict=evict)
    rng = np.random.default_rng(seed)
    for n, label in enumerate(labels):
        before = set(numbers(memory))
        memory.observe(*rows_of([label], n), rng)
        after = set(numbers(memory))
        assert len(after) == min(n + 1, capacity)
        lost = before - after
        if lost:
            count = Counter(labels[i] for i in before)
            assert len(lost) == 1
            assert count[labels[lost.pop()]] == max(count.values())
            assert after - before == {n}
        if n < capacity:
            assert after == before | {n}


# --- hard rows stay ------------------------------------------------------------------------------


def hardness(losses: Sequence[float], labels: Sequence[int]) -> Tensor:
    """Logits of two classes' softmax whose cross-entropy, at each label, is the given loss."""
    logits = torch.full((len(labels), CLASSES), -1e9)
    for row, (loss, label) in enumerate(zip(losses, labels, strict=True)):
        p = np.exp(-loss)
        logits[row, label] = float(np.log(p))
        logits[row, (label + 1) % CLASSES] = float(np.log1p(-p))
    return logits


def test_easy_rows_go_first_by_hand() -> None:
    """A full class with losses 1, 2, 4: it loses them with probabilities 3/5, 2/5 and 0."""
    lost = Counter[int]()
    for seed in range(600):
        memory, rng = LossAware(SHAPE, CLASSES, 3), np.random.default_rng(seed)
        memory.observe(rows_of([0, 0, 0])[0], hardness([1, 2, 4], [0, 0, 0]), rng)
        memory.observe(rows_of([1], 3)[0], hardness([9], [1]), rng)
        gone = {0, 1, 2} - set(numbers(memory))
        lost.update(gone)
    assert lost[2] == 0
    assert stats.binomtest(lost[0], lost[0] + lost[1], 3 / 5).pvalue > 1e-3


def test_rows_compete_by_their_latest_losses() -> None:
    """A draw tells the memory that the hardest row has become the easiest."""
    lost = set()
    for seed in range(40):
        memory, rng = LossAware(SHAPE, CLASSES, 2), np.random.default_rng(seed)
        memory.observe(rows_of([0, 0])[0], hardness([5, 1], [0, 0]), rng)
        memory.replayed(torch.tensor([0]), hardness([0.5], [0]))
        memory.observe(rows_of([1], 2)[0], hardness([1], [1]), rng)
        lost |= {0, 1} - set(numbers(memory))
    assert lost == {0}


# --- the table -----------------------------------------------------------------------------------

KINDS = [Reservoir, BalancedReservoir, LossAware]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_image_label_and_logits_stay_together(kind: type[Reservoir], data: st.DataObject) -> None:
    labels = data.draw(st.lists(st.integers(0, CLASSES - 1), min_size=1, max_size=80))
    capacity, size = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 80))
    memory = kind(SHAPE, CLASSES, capacity, ("logits",))
    batches = [len(labels[i : i + size]) for i in range(0, len(labels), size)]
    offer(memory, labels, batches, np.random.default_rng(data.draw(st.integers(0, 99))))
    rows = numbers(memory)
    assert len(memory) == len(rows) == len(set(rows)) == min(capacity, len(labels))
    assert memory.y[: memory.size].tolist() == [labels[i] for i in rows]
    assert memory.logits is not None
    assert memory.logits[: memory.size].tolist() == [[float(i)] * CLASSES for i in rows]
    assert (memory.y[memory.size :] == -1).all()


def test_what_is_stored_is_a_copy() -> None:
    images, logits = rows_of([0, 1, 2])
    memory = Reservoir(SHAPE, CLASSES, 3, ("logits",))
    memory.observe(images, logits.requires_grad_(), np.random.default_rng(0))
    images.sources[0].fill_(9)
    with torch.no_grad():
        logits.fill_(9)
    assert numbers(memory) == [0, 1, 2]
    assert memory.logits is not None
    assert memory.logits[:, 0].tolist() == [0, 1, 2]
    assert not memory.logits.requires_grad


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cut", [0, 5, 20, 60])
def test_a_state_goes_on_as_if_nothing_had_happened(kind: type[Reservoir], cut: int) -> None:
    """From a file, into a fresh table or into one that was used for something else."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, 120).tolist()
    straight = kind(SHAPE, CLASSES, 12, ("logits",))
    offer(straight, labels[:cut], [5] * (cut // 5), np.random.default_rng(1))
    file = io.BytesIO()
    torch.save(straight.state_dict(), file)
    fresh, used = (kind(SHAPE, CLASSES, 12, ("logits",)) for _ in range(2))
    offer(used, [4] * 40, [40], np.random.default_rng(9))
    for other in (fresh, used):
        file.seek(0)
        other.load_state_dict(torch.load(file, weights_only=True))
        assert same(other.state_dict(), straight.state_dict())
    for memory in (straight, fresh, used):
        for first in range(cut, 120, 4):
            memory.observe(*rows_of(labels[first : first + 4], first), np.random.default_rng(first))
    for other in (fresh, used):
        assert same(other.state_dict(), straight.state_dict())
        draws = [m.sample(5, np.random.default_rng(2)) for m in (straight, other)]
        assert torch.equal(*draws)


# --- a run's table names rows of its data ---------------------------------------------------------


def every_policy() -> list[tuple[str, str]]:
    """With a method that works with it."""
    bases = {"task_shares": "fdr", "held_out": "bic", "greedy": "gdumb"}
    herding = {"herding": "icarl", "raw_herding": "icarl"}
    return [(policy, (bases | herding).get(policy, "derpp")) for policy in POLICIES]


@pytest.mark.parametrize(("policy", "base"), every_policy())
def test_naming_rows_is_keeping_them(
    policy: str, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = replace(assemble(f"{base}+bfp", {}), memories=(policy,))
    named = toy_run(method)
    monkeypatch.setattr(exemplars, "Stock", lambda tasks: None)
    copied = toy_run(method)
    for a, b in zip(named, copied, strict=True):
        assert same(vars(a), vars(b)) or type(a).__name__ == "StepEnd"
        one, other = named.learner.memory.images(), copied.learner.memory.images()
        assert torch.equal(one.pixels(), other.pixels())
        assert torch.equal(one.y, other.y)
    first, second = named.state_dict()["learner"], copied.state_dict()["learner"]
    for part in ("net", "terms", "predictor", "optimizers"):
        assert same(first[part], second[part])
    assert first["memory"].keys() ^ second["memory"].keys() == {"place", "x"}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: state["place"].__setitem__(0, -1),
        lambda state: state["place"].__setitem__(0, 10**6),
        lambda state: state["y"].__setitem__(0, 5 - state["y"][0]),
        lambda state: state.update(place=state["place"].float()),
        lambda state: state.update(place=state["place"][:2]),
    ],
)
def test_a_state_that_names_no_such_rows_is_refused(spoil: Any) -> None:
    run = toy_run(assemble("er", {}))
    for _ in zip(range(4), run, strict=False):
        pass
    state = run.state_dict()
    spoil(state["learner"]["memory"])
    with pytest.raises(ValueError, match="none of the training data's"):
        toy_run(assemble("er", {})).load_state_dict(state)


# --- drawing -------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 30), st.integers(1, 15), st.integers(1, 40), st.integers(0, 99))
def test_a_draw_has_no_row_twice_and_at_most_as_many_as_there_are(
    offered: int, capacity: int, n: int, seed: int
) -> None:
    memory = Reservoir(SHAPE, CLASSES, capacity)
    if offered:
        offer(memory, [0] * offered, [offered], np.random.default_rng(0))
    rows = memory.sample(n, np.random.default_rng(seed)).tolist()
    assert len(rows) == len(set(rows)) == min(n, offered, capacity)
    assert set(rows) <= set(range(len(memory)))
