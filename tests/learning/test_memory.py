"""What is kept of the past: which rows, in which proportion, and at what cost."""

import gc
import io
import sys
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import comb
from types import FrameType
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from linsep.data.images import Images
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
    found: list[int] = memory.x[: memory.size].numpy().reshape(-1, 4).view("<i4")[:, 0].tolist()
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


@pytest.mark.parametrize("batches", [(6,), (1,) * 6, (4, 2)], ids=str)
def test_every_set_of_rows_is_equally_likely_in_a_reservoir(batches: tuple[int, ...]) -> None:
    """Also if offered as one batch, in which a slot is written several times."""
    capacity, rows = 3, 6
    found = kept(lambda: Reservoir(SHAPE, CLASSES, capacity), [0] * rows, batches, 1500)
    share = Fraction(1, comb(rows, capacity))
    every = {frozenset(c): share for c in combinations(range(rows), capacity)}
    assert fits(found, every) > 1e-3


def test_inclusion_is_uniform_over_a_long_stream() -> None:
    """Each of 60 rows is kept with probability 10 / 60, by chi-square.

    Counts of rows drawn without replacement: with p = B / N over R trials their covariance is
    R p (1 - p) N / (N - 1) (I - 1 1^T / N), so that is what the squares are divided by.
    """
    total, capacity, trials = 60, 10, 1500
    found = kept(lambda: Reservoir(SHAPE, CLASSES, capacity), [0] * total, [30, 30], trials)
    counts = np.zeros(total)
    for rows, times in found.items():
        counts[list(rows)] += times
    p = capacity / total
    square = ((counts - trials * p) ** 2).sum() / (trials * p * (1 - p) * total / (total - 1))
    assert 1e-3 < stats.chi2.sf(square, total - 1) < 1 - 1e-3


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
        lambda: BalancedReservoir(SHAPE, CLASSES, capacity, evict=evict), labels, batches, 2000
    )
    assert fits(found, expected) > 1e-3


def test_the_two_ways_to_break_a_tie_differ() -> None:
    """Two classes of two rows: the text evicts from the first of them, the program from either."""
    labels = [0, 1, 0, 1, 2]
    victims: dict[str, set[int]] = {}
    for evict in ("all_largest", "one_largest"):
        found = kept(
            lambda evict=evict: BalancedReservoir(SHAPE, CLASSES, 4, evict=evict), labels, [5], 200
        )
        victims[evict] = {i for state in found for i in set(range(5)) - state if i != 4}
    assert victims == {"all_largest": {0, 1, 2, 3}, "one_largest": {0, 2}}


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


@pytest.mark.parametrize("evict", ["all_largest", "one_largest"])
def test_plentiful_classes_come_into_balance(evict: Evict) -> None:
    """Once every class has had its chance, counts differ by at most one, or for a moment by two.

    Two is what Algorithm 2 does: of counts (3, 3, 2) the first class loses a row to a newcomer of
    the second, and they are (2, 4, 2). Then the newest row's class is the only one on top, and the
    next row to be accepted takes from it.
    """
    task_rows, capacity = 300, 23
    memory = BalancedReservoir(SHAPE, CLASSES, capacity, evict=evict)
    rng, labels = np.random.default_rng(0), list[int]()
    for classes in ([0, 1], [2, 3], [4]):
        labels += rng.permutation(np.repeat(classes, task_rows // len(classes))).tolist()
    spread, newest = set(), 0
    for n, label in enumerate(labels):
        before = set(numbers(memory))
        memory.observe(*rows_of([label], n), rng)
        newest = label if set(numbers(memory)) != before else newest
        seen = sorted(set(labels[: n + 1]))
        counts = {c: int((memory.y[: memory.size] == c).sum()) for c in seen}
        if n % task_rows > task_rows * 0.8:
            spread.add(max(counts.values()) - min(counts.values()))
            if max(counts.values()) - min(counts.values()) == 2:
                assert [c for c in seen if counts[c] == max(counts.values())] == [newest]
    assert spread <= {0, 1, 2}
    assert min(spread) <= 1


def test_a_plain_reservoir_does_not_balance() -> None:
    """It keeps classes as they come: of 90 % of the stream about 90 % of the rows."""
    labels = [0] * 900 + [1] * 100
    memory = Reservoir(SHAPE, CLASSES, 100)
    offer(memory, labels, [50] * 20, np.random.default_rng(0))
    assert 80 <= int((memory.y == 0).sum()) <= 97


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
        drawn = Images.of(memory.x, memory.y).take(torch.tensor([0]))
        memory.replayed(drawn, hardness([0.5], [0]))
        memory.observe(rows_of([1], 2)[0], hardness([1], [1]), rng)
        lost |= {0, 1} - set(numbers(memory))
    assert lost == {0}


def test_rows_of_one_batch_compete_too() -> None:
    """Of three rows that come together into a room for one, the last is never the only rival."""
    for seed in range(200):
        memory, rng = LossAware(SHAPE, CLASSES, 2), np.random.default_rng(seed)
        memory.observe(rows_of([0] * 4)[0], hardness([1, 9, 1, 1], [0] * 4), rng)
        assert 1 in numbers(memory)  # the hardest of its class at every moment


def test_the_rows_that_are_kept_are_balanced_and_harder() -> None:
    """Four classes come one after another, in 3 epochs; each row has a hardness of its own."""
    per_class, capacity, rng = 400, 160, np.random.default_rng(0)
    hard = 0.1 + 2 * rng.random(4 * per_class)
    memory, plain = (kind(SHAPE, CLASSES, capacity) for kind in (LossAware, BalancedReservoir))
    for label in range(4):
        own = np.arange(label * per_class, (label + 1) * per_class)
        order = np.concatenate([rng.permutation(own) for _ in range(3)])
        for step, rows in enumerate(np.split(order, 60)):
            one = [rows_of([label], row)[0].pixels() for row in rows.tolist()]
            images = Images.of(torch.cat(one), torch.full((len(rows),), label))
            logits = hardness(hard[rows].tolist(), [label] * len(rows))
            for m in (memory, plain):
                m.observe(images, logits, np.random.default_rng((label, step)))
    counts = memory.y.bincount(minlength=4).tolist()[:4]
    assert max(counts) - min(counts) <= 1
    kept, usual = (hard[numbers(m)] for m in (memory, plain))
    assert stats.mannwhitneyu(kept, hard, alternative="greater").pvalue < 1e-3
    assert kept.mean() > usual.mean()
    assert stats.kstest(usual, hard).pvalue > 1e-3  # without losses, hardness does not matter


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, CLASSES - 1), min_size=1, max_size=60),
    st.integers(1, 12),
    st.integers(0, 2**32),
)
def test_only_a_largest_class_loses_a_row_of_those_that_are_not_its_hardest(
    labels: list[int], capacity: int, seed: int
) -> None:
    memory, rng = LossAware(SHAPE, CLASSES, capacity), np.random.default_rng(seed)
    losses = rng.random(len(labels)) + 0.1
    for n, label in enumerate(labels):
        before = set(numbers(memory))
        memory.observe(rows_of([label], n)[0], hardness([losses[n]], [label]), rng)
        for lost in before - set(numbers(memory)):
            count = Counter(labels[i] for i in before)
            assert count[labels[lost]] == max(count.values())
            rivals = [losses[i] for i in before if labels[i] == labels[lost]]
            assert losses[lost] < max(rivals) or len(rivals) == 1


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


@pytest.mark.parametrize("kind", KINDS)
def test_a_slot_named_twice_in_a_batch_keeps_the_later_row(kind: type[Reservoir]) -> None:
    """A table of one row and a batch of three: row n is kept with probability 1 / 3 each."""
    found = Counter[int]()
    for trial in range(600):
        memory = kind(SHAPE, CLASSES, 1, ("logits",))
        offer(memory, [0, 1, 2], [3], np.random.default_rng(trial))
        (row,) = numbers(memory)
        assert int(memory.y[0]) == row
        assert memory.logits is not None
        assert float(memory.logits[0, 0]) == row
        found[row] += 1
    assert stats.chisquare([found[i] for i in range(3)]).pvalue > 1e-3


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
    assert memory.x.dtype == torch.uint8


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_stored_only_when_asked_for(kind: type[Reservoir]) -> None:
    plain, asked = kind(SHAPE, CLASSES, 4), kind(SHAPE, CLASSES, 4, ("logits",))
    for memory in (plain, asked):
        offer(memory, [0, 1, 2, 3, 4, 0], [6], np.random.default_rng(0))
    assert plain.logits is None
    assert "logits" not in plain.state_dict()
    assert numbers(plain) == numbers(asked)  # and the choice of rows does not depend on it


@pytest.mark.parametrize(
    ("method", "options", "stored"),
    [
        ("er", {}, False),
        ("er+bfp", {}, False),
        ("der", {}, True),
        ("derpp", {"target": "stored"}, True),
        ("derpp", {"target": "old_net", "first_task": True}, True),  # the first task has no old net
        ("derpp", {"target": "old_net", "first_task": False}, False),
    ],
)
def test_terms_say_whether_logits_are_stored(
    method: str, options: dict[str, object], stored: bool
) -> None:
    run = toy_run(assemble(method, {method.split("+")[0]: options}))
    assert (run.learner.memory.logits is not None) == stored


def test_a_method_without_replay_keeps_no_table() -> None:
    memory = toy_run(assemble("ft+bfp", {})).learner.memory
    assert memory.capacity == len(memory) == memory.x.numel() == 0


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


def test_a_state_is_not_tied_to_the_table() -> None:
    memory = BalancedReservoir(SHAPE, CLASSES, 3)
    offer(memory, [0, 1, 2], [3], np.random.default_rng(0))
    state = memory.state_dict()
    before = {k: v.clone() if isinstance(v, Tensor) else v for k, v in state.items()}
    for first in range(3, 30):
        memory.observe(*rows_of([3], first), np.random.default_rng(first))
    assert not same(memory.state_dict(), before)
    assert same(state, before)


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


def test_every_draw_of_two_rows_is_equally_likely() -> None:
    memory = Reservoir(SHAPE, CLASSES, 8)
    offer(memory, [0] * 5, [5], np.random.default_rng(0))
    found = Counter(
        frozenset(memory.sample(2, np.random.default_rng(t)).tolist()) for t in range(2000)
    )
    assert len(found) == comb(5, 2)
    assert stats.chisquare(list(found.values())).pvalue > 1e-3


def test_images_are_a_view_of_the_filled_rows() -> None:
    memory = Reservoir(SHAPE, CLASSES, 8)
    offer(memory, [0, 1, 2], [3], np.random.default_rng(0))
    images = memory.images()
    assert images.sources[0] is memory.x
    assert images.y.tolist() == [0, 1, 2]
    assert torch.equal(images.pixels(), memory.x[:3])


# --- the cost of an insertion --------------------------------------------------------------------


class Accepting:
    """A generator of nothing but zeros: every row is accepted, whatever the capacity."""

    def __init__(self) -> None:
        self.numbers = 0

    def integers(self, low: Any, high: Any = None, *_: Any, **__: Any) -> Any:
        size = np.broadcast(low, 0 if high is None else high).shape
        self.numbers += int(np.prod(size))
        return np.zeros(size, np.int64) if size else 0


class Sizes(TorchDispatchMode):
    """The operations that torch is asked for, with the sizes of all they make or read.

    An operation in place on the table is told by its index: the table's own size does not count.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[tuple[str, list[int]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = str(func)
        table = {id(args[0])} if args and name.split(".")[1].endswith("_") else set()
        flat: list[Any] = []
        for value in (*args, result):
            flat += value if isinstance(value, list | tuple) else [value]
        sizes = [v.numel() for v in flat if isinstance(v, Tensor) and id(v) not in table]
        self.seen.append((name, sizes))
        return result


def work(kind: type[Reservoir], capacity: int, batch: int) -> tuple[int, int, list[Any], int]:
    """Of one insertion into a full table: bytecodes, random numbers, torch's work, memory."""
    memory = kind(SHAPE, CLASSES, capacity, ("logits",))
    rng = np.random.default_rng(0)
    memory.observe(*rows_of([i % CLASSES for i in range(capacity)]), rng)
    assert len(memory) == capacity
    images, logits = rows_of([i % CLASSES for i in range(batch)], capacity)
    accepting, sizes, bytecodes = Accepting(), Sizes(), 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal bytecodes
        if "linsep" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        bytecodes += event == "opcode"
        return trace

    def insert() -> None:
        memory.observe(images, logits, accepting)  # type: ignore[arg-type]

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # else Python 3.12 counts none the first time
    sys.settrace(trace)
    try:
        insert()
    finally:
        sys.settrace(before)
    drawn = accepting.numbers
    with sizes:
        insert()
    gc.collect()
    tracemalloc.start()
    try:
        insert()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return bytecodes, drawn, sizes.seen, peak


@pytest.mark.parametrize("kind", [Reservoir, BalancedReservoir])
def test_the_work_of_an_insertion_does_not_depend_on_the_capacity(kind: type[Reservoir]) -> None:
    """Bytecodes, random numbers and torch operations are counted; no clock is read."""
    small, large = (work(kind, capacity, batch=10) for capacity in (200, 100_000))
    assert small[0] > 100
    assert small[:3] == large[:3]
    assert large[3] < 100_000  # bytes at the same time: no numpy array of the table's length
    twice = work(kind, 200, batch=20)
    assert twice[0] <= 2 * small[0]
