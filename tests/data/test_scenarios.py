"""Which images come when: splits, subsets, streams, fingerprints, and what is refused."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linsep.data.images import Dataset, Images, Tasks, check, join, pixel_statistics
from linsep.data.registry import SOURCES
from linsep.data.scenarios import TaskWarning, fingerprint, open_scenario
from linsep.data.standard import blobs, fashion_mini
from linsep.data.tasks import Scenario, split, streamed
from linsep.errors import DataError
from linsep.resolve import resolve
from linsep.settings import sections
from linsep.settings.config import Config
from linsep.settings.sections import Schedule

CLASSES = 6


def numbered(per_class: int, first: int = 0, classes: int = CLASSES) -> Images:
    """Images that carry their own number in two bytes, classes in turn."""
    number = np.arange(first, first + per_class * classes, dtype="<u2")
    x = torch.from_numpy(number.view(np.uint8).reshape(-1, 1, 1, 2))
    return Images.of(x, torch.arange(per_class * classes) % classes)


def numbers(images: Images) -> list[int]:
    found: list[int] = images.pixels().numpy().reshape(-1, 2).view("<u2")[:, 0].tolist()
    return found


def dataset(train: int = 10, test: int = 3) -> Dataset:
    """Numbers below 1000 are for training, from 1000 on for testing."""
    names = tuple(f"class {c}" for c in range(CLASSES))
    return Dataset(numbered(train), numbered(test, 1000), names)


def wanted(**given: Any) -> sections.Scenario:
    return sections.Scenario.model_validate({"name": "arrays"} | given)


def opened(data: Dataset, **given: Any) -> Scenario:
    return open_scenario(wanted(per_task=2) if not given else wanted(**given), data).scenario


def rows_learned(scenario: Scenario) -> list[int]:
    return [n for task in scenario.tasks for n in numbers(task.train)]


def rows_tested(scenario: Scenario) -> list[int]:
    return [n for group in scenario.groups for n in numbers(group.test)]


# --- splits --------------------------------------------------------------------------------------


@given(st.permutations(range(CLASSES)), st.sampled_from([[6], [2, 2, 2], [3, 3], [4, 1, 1]]))
def test_every_image_is_learned_once_and_relabelled_by_the_order(
    order: list[int], counts: list[int]
) -> None:
    scenario = split("toy", dataset(), counts, order)
    assert sorted(rows_learned(scenario)) == list(range(60))
    assert sorted(rows_tested(scenario)) == list(range(1000, 1018))
    assert [len(task.classes) for task in scenario.tasks] == counts
    assert [c for task in scenario.tasks for c in task.classes] == list(range(CLASSES))
    assert scenario.names == tuple(f"class {c}" for c in order)
    for t, (task, group) in enumerate(zip(scenario.tasks, scenario.groups, strict=True)):
        assert (group.classes, task.index) == (task.classes, t)
        assert task.earlier == tuple(range(task.classes[0]))
        for images in (task.train, group.test):
            # Number n was of class n % 6 before; its new label is the place of that in the order.
            original = [(n - 1000 if n >= 1000 else n) % CLASSES for n in numbers(images)]
            assert images.y.tolist() == [order.index(c) for c in original]


def test_the_order_is_shuffled_by_its_own_seed() -> None:
    data = dataset()
    names = {
        seed: opened(data, per_task=2, order="shuffled", order_seed=seed).names for seed in range(4)
    }
    assert len(set(names.values())) == 4
    assert all(sorted(found) == sorted(data.names) for found in names.values())
    assert opened(data, per_task=2, order="shuffled", order_seed=2).names == names[2]
    assert opened(data, per_task=2, order_seed=3).names == data.names  # natural unless asked for


def test_the_seed_of_the_order_may_be_the_runs() -> None:
    wanted: Any = {"name": "blobs", "order": "shuffled", "order_seed": "seed"}
    assert resolve(Config(scenario=wanted, seed=3)).scenario.order_seed == 3


# --- subsets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["natural", "shuffled"])
def test_a_subset_is_the_same_for_every_run(order: str) -> None:
    """So many of each class, chosen by the data alone."""
    data = dataset()
    few = opened(data, per_task=2, per_class=4, test_per_class=2, order=order, order_seed=5)
    again = opened(dataset(), per_task=3, per_class=4, test_per_class=2)
    assert sorted(rows_learned(few)) == sorted(rows_learned(again))
    assert sorted(rows_tested(few)) == sorted(rows_tested(again))
    for images, n in ((few.tasks[0].train, 4), (few.groups[0].test, 2)):
        assert images.y.bincount().tolist() == [n, n]
    more = rows_learned(opened(data, per_task=2, per_class=6))
    assert set(rows_learned(few)) < set(more) < set(rows_learned(opened(data)))


def test_validation_never_touches_the_test_images() -> None:
    scenario = opened(dataset(train=20), per_task=2, validation=0.25)
    train, held = set(rows_learned(scenario)), set(rows_tested(scenario))
    assert not train & held
    assert train | held == set(range(120))  # all of the training images, and none from 1000 on
    for group, task in zip(scenario.groups, scenario.tasks, strict=True):
        assert [group.test.y.tolist().count(c) for c in group.classes] == [5, 5]
        assert set(task.train.y.tolist()) == set(task.classes)


def test_validation_is_the_same_for_every_order_and_with_fewer_images() -> None:
    held = {
        tuple(sorted(rows_tested(opened(dataset(20), validation=0.2, **given))))
        for given in (
            {"per_task": 2},
            {"per_task": 3, "order": "shuffled", "order_seed": 1},
            {"per_task": 2, "per_class": 5},
        )
    }
    assert len(held) == 1


# --- views ---------------------------------------------------------------------------------------


def sources(scenario: Scenario) -> set[int]:
    parts = [task.train for task in scenario.tasks]
    return {source.data_ptr() for images in parts for source in images.sources}


def test_joint_training_sees_everything_so_far() -> None:
    scenario = split("toy", dataset(), [2, 2, 2])
    seen: list[int] = []
    for before, task in zip(scenario.tasks, scenario.cumulative().tasks, strict=True):
        seen += numbers(before.train)
        assert numbers(task.train) == seen
        assert task.train.y.tolist() == [n % CLASSES for n in seen]
        assert task.train.sources == before.train.sources  # nothing is copied
        assert (task.classes, task.earlier, task.index) == (
            before.classes, before.earlier, before.index,
        )  # fmt: skip


def test_joint_training_at_once_is_one_task_tested_group_by_group() -> None:
    scenario = split("toy", dataset(), [2, 2, 2])
    (task,) = scenario.at_once().tasks
    assert sorted(numbers(task.train)) == list(range(60))
    assert (task.classes, task.earlier) == (tuple(range(CLASSES)), ())
    assert task.index == 2  # it fills the last row of the accuracy matrix
    assert scenario.at_once().groups == scenario.groups


def test_views_of_several_sources() -> None:
    """Rows keep their source through taking, selecting and joining; each source is held once."""
    a, b = numbered(2), numbered(2, 500)
    both = join([a, b, a.take(torch.tensor([3]))])
    assert len(both.sources) == 2
    assert numbers(both) == [*range(12), *range(500, 512), 3]
    assert numbers(both.take(torch.tensor([13, 0, 24]))) == [501, 0, 3]
    chosen = both.select([3])
    assert numbers(chosen) == [3, 9, 503, 509, 3]
    assert [n for part in both.chunks(7) for n in numbers(part)] == numbers(both)
    assert [len(part) for part in both.chunks(7, fewest=3)] == [7, 7, 7, 4]
    assert [len(part) for part in both.chunks(7, fewest=5)] == [7, 7, 11]  # 4 are too few
    assert [len(part) for part in both.chunks(1, fewest=30)] == [25]
    assert [n for part in both.chunks(7, fewest=5) for n in numbers(part)] == numbers(both)
    again = join([both, b])
    assert len(again.sources) == 2
    assert numbers(again) == numbers(both) + numbers(b)


# --- streams of one's own ------------------------------------------------------------------------


def repeating() -> tuple[Dataset, Tensor, Tensor]:
    """Task 0 has classes 0 and 1, task 1 has 1 and 2, task 2 only 0 again."""
    y = torch.tensor([0, 1, 1, 2, 0, 0])
    x = torch.arange(6, dtype=torch.uint8).view(6, 1, 1, 1)
    data = Dataset(Images.of(x, y), Images.of(x + 100, y), ("a", "b", "c"))
    return data, torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([0, 0, 1, 1, 2, 2])


def test_a_class_is_new_in_the_first_task_it_comes_in() -> None:
    data, train, test = repeating()
    scenario = streamed("mine", data, Tasks(tuple("123"), train, test))
    assert [task.classes for task in scenario.tasks] == [(0, 1), (2,), ()]
    assert [task.earlier for task in scenario.tasks] == [(), (0, 1), (0, 1, 2)]
    assert [group.classes for group in scenario.groups] == [(0, 1), (1, 2), (0,)]
    assert [task.train.pixels().flatten().tolist() for task in scenario.tasks] == [
        [0, 1], [2, 3], [4, 5],
    ]  # fmt: skip
    assert [group.test.pixels().flatten().tolist() for group in scenario.groups] == [
        [100, 101], [102, 103], [104, 105],
    ]  # fmt: skip
    assert scenario.num_classes == 3
    assert sources(scenario) == {data.train.sources[0].data_ptr()}
    orders = ([0, 0, 1, 1, 2, 2], [1, 1, 0, 0, 2, 2])
    prints = {fingerprint(own_tasks(order, test.tolist())) for order in orders}
    assert len(prints) == 2  # images that come in other tasks are other data


def own_tasks(train: list[int], test: list[int]) -> Dataset:
    names = ("x", "y", "z")
    return repeating()[0]._replace(tasks=Tasks(names, torch.tensor(train), torch.tensor(test)))


@pytest.mark.parametrize("one", [[0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1], [0, 0, 1, 1, 1, 2]])
def test_a_task_that_cannot_be_learned_is_named(one: list[int]) -> None:
    with pytest.raises(DataError, match=r"task '[yz]' has [01] training images"):
        open_scenario(wanted(name="table"), own_tasks(one, [0, 0, 1, 1, 2, 2]))


def test_a_task_without_test_images_is_warned_of() -> None:
    with pytest.warns(TaskWarning, match="task 'z' has no test images"):
        open_scenario(wanted(name="table"), own_tasks([0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 1, 0]))


# --- fingerprints --------------------------------------------------------------------------------


def of(x: Tensor, y: Tensor) -> Dataset:
    return Dataset(Images.of(x, y), Images.of(x.clone(), y.clone()), ("a", "b"))


def test_a_fingerprint_changes_with_one_pixel_or_label_and_nothing_else() -> None:
    x, y = torch.arange(64, dtype=torch.uint8).view(4, 1, 4, 4), torch.tensor([0, 1, 0, 1])
    base = fingerprint(of(x, y))
    pixel, label = x.clone(), y.clone()
    pixel[3, 0, 3, 3] ^= 1
    label[2] = 1
    made = of(x, y)
    whole = join([made.train, made.test])
    others = {
        "training pixel": of(pixel, y)._replace(test=made.test),
        "test pixel": made._replace(test=Images.of(pixel, y)),
        "training label": of(x, label)._replace(test=made.test),
        "test label": made._replace(test=Images.of(x, label)),
        "order": made._replace(train=made.train.take(torch.tensor([1, 0, 2, 3]))),
        "fewer": made._replace(train=made.train.take(torch.arange(3))),
        "shape": of(x.view(4, 1, 2, 8), y),
        "parts": Dataset(whole.take(torch.arange(5)), whole.take(torch.arange(5, 8)), made.names),
    }
    found = {name: fingerprint(data) for name, data in others.items()}
    assert len({base, *found.values()}) == len(others) + 1
    # The same content by other means: a view of a larger source.
    padded = torch.cat([torch.zeros(2, 1, 4, 4, dtype=torch.uint8), x])
    view = Images.of(padded, torch.cat([torch.zeros(2, dtype=torch.int64), y]))
    same = made._replace(train=view.take(torch.arange(2, 6)))
    assert fingerprint(same) == base
    assert fingerprint(made._replace(names=("other", "names"))) == base


# --- what is refused -----------------------------------------------------------------------------


X, Y = torch.zeros(4, 1, 3, 3, dtype=torch.uint8), torch.tensor([0, 1, 0, 1])


def bad(**change: Any) -> Dataset:
    check(of(X, Y))
    return of(X, Y)._replace(**change)


BAD = [
    (bad(train=Images.of(X, torch.tensor([0, 1, 2, 1]))), ["training labels", "2", "0 to 1"]),
    (bad(test=Images.of(X, torch.tensor([0, -1, 0, 1]))), ["test labels", "-1", "0 to 1"]),
    (bad(train=Images.of(X[:0], Y[:0])), ["no training images"]),
    (bad(test=Images.of(X[:0], Y[:0])), ["no test images"]),
    (bad(train=Images.of(X, torch.zeros(4, dtype=torch.int64))), ["'b'", "no training image"]),
    (bad(test=Images.of(X, torch.ones(4, dtype=torch.int64))), ["'a'", "no test image"]),
    (bad(train=Images.of(X.float(), Y)), ["training images", "uint8", "float32"]),
    (bad(test=Images.of(X[:, 0], Y)), ["test images", "(4, 3, 3)"]),
    (bad(test=Images.of(X[:, :, :2], Y)), ["(1, 3, 3)", "(1, 2, 3)", "one shape"]),
]


@pytest.mark.parametrize(("data", "words"), BAD, ids=[words[0] for _, words in BAD])
def test_data_that_no_run_should_be_made_of(data: Dataset, words: list[str]) -> None:
    for attempt in (lambda: check(data), lambda: open_scenario(wanted(per_task=1), data)):
        with pytest.raises(DataError) as caught:
            attempt()
        line = str(caught.value)
        assert "\n" not in line
        assert all(word in line for word in words), line


# --- measured pixels -----------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [1, 200, 2**24])
def test_pixel_statistics_are_exact_however_they_are_chunked(
    copied: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole numbers are summed, and rounded once; no more than a chunk is copied at a time."""
    monkeypatch.setattr("linsep.data.images.COPIED", copied)
    g = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (40, 2, 5, 6), generator=g, dtype=torch.uint8)
    view = join([Images.of(x[:30], torch.zeros(30)), Images.of(x[30:], torch.zeros(10))])
    found = pixel_statistics(view)
    for c in range(2):
        values = x[:, c].flatten().tolist()
        mean, squares = (sum(v**k for v in values) / len(values) for k in (1, 2))
        assert found.mean[c] == mean / 255
        assert found.std[c] == math.sqrt(squares - mean**2) / 255
    assert max(part.numel() for part in view.copies()) <= max(copied, x[0].numel())


# --- the embedded data ---------------------------------------------------------------------------


def test_fashion_mini_is_what_it_says() -> None:
    """500 + 100 of each of ten classes, 28x28 grey; the recipe's statistics are its own."""
    data = fashion_mini()
    check(data)
    assert data.train.y.bincount().tolist() == [500] * 10
    assert data.test.y.bincount().tolist() == [100] * 10
    assert data.train.shape == data.test.shape == (1, 28, 28)
    assert len(data.names) == len(set(data.names)) == 10
    augment = SOURCES["fashion-mini"].augment
    assert augment is not None
    found = pixel_statistics(data.train)
    assert (augment.mean, augment.std) == (
        tuple(round(v, 4) for v in found.mean), tuple(round(v, 4) for v in found.std),
    )  # fmt: skip
    scenario = open_scenario(sections.Scenario(name="fashion-mini")).scenario
    assert [task.classes for task in scenario.tasks] == [(2 * t, 2 * t + 1) for t in range(5)]
    assert [len(task.train) for task in scenario.tasks] == [1000] * 5


def test_blobs_are_the_same_every_time_and_learnable() -> None:
    a, b = blobs(), blobs()
    assert fingerprint(a) == fingerprint(b)
    other = blobs(classes=4, train=3, test=2, image_size=5, channels=3)
    assert (len(other.train), len(other.test), other.train.shape) == (12, 8, (3, 5, 5))
    # The nearest class mean of the training images knows nearly every test image.
    x, held = (images.pixels().flatten(1).double() for images in (a.train, a.test))
    means = torch.stack([x[a.train.y == c].mean(0) for c in range(10)])
    right = torch.cdist(held, means).argmin(1) == a.test.y
    assert float(right.double().mean()) > 0.95


# --- the learning rate ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({}, {0: 1, 49: 1}),
        ({"milestones": (35, 45)}, {0: 1, 34: 1, 35: 0.1, 44: 0.1, 45: 0.01, 49: 0.01}),
        ({"milestones": (2,), "factor": 0.5}, {1: 1, 2: 0.5, 9: 0.5}),
        ({"warmup": 3}, {0: 1 / 4, 1: 2 / 4, 2: 3 / 4, 3: 1, 9: 1}),
        ({"warmup": 5, "milestones": (15,)}, {4: 5 / 6, 5: 1, 14: 1, 15: 0.1, 19: 0.1}),
        (
            {"warmup": 5, "milestones": (15,), "milestones_from": "warmup_end"},
            {4: 5 / 6, 5: 1, 15: 1, 19: 1, 20: 0.1},
        ),
        ({"milestones": (4,), "milestones_from": "warmup_end"}, {3: 1, 4: 0.1}),
        ({"milestones": (45, 35)}, {34: 1, 35: 0.1, 45: 0.01}),  # in any order
    ],
    ids=str,
)
def test_the_rate_by_hand(schedule: dict[str, Any], expected: dict[int, float]) -> None:
    """Epochs count from 0: "after 35" is from the 36th epoch on."""
    made = Schedule.model_validate(schedule)
    assert {e: made.rate(e) for e in expected} == pytest.approx(expected)
