"""Lessons: equal to runs where classes are announced, and lawful where the head grows."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from linsep.classifier.course import Course
from linsep.learning.run import Run
from linsep.nets.heads import ByRow, CorrectedHead, CosineHead, LinearHead
from linsep.prepare import Prepared, prepare
from linsep.randomness import Randomness
from linsep.settings.config import from_settings
from tests.helpers.combinations import LEARNING

WITHOUT_MEMORY = ("ft", "lwf", "ewc", "si")
ADDED = ("derpp+bfp", "er+fd", "icarl+bfp2", "derpp+ser+lode+star+wa")


def prepared(method: str, **more: Any) -> Prepared:
    settings = {
        "scenario": {"name": "fashion-mini", "per_class": 9, "test_per_class": 3},
        "net": {"name": "cnn", "width": 4},
        "method": method,
        "training": {"epochs": 1, "batch_size": 8} | more.pop("training", {}),
        **more,
    }
    base = method.partition("+")[0]
    if base not in WITHOUT_MEMORY:
        settings["memory"] = {"size": 20}
    quick = {"gdumb": {"epochs": 2}, "bic": {"bias_epochs": 2}, "lucir": {"fitting_epochs": 1}}
    options = {name: own for name, own in quick.items() if name == base}
    return prepare(from_settings(settings | {"options": options | more.get("options", {})}))


def course(found: Prepared) -> Course:
    return Course(found.config, found.data.augment, found.data.scenario.shape, labels=[])


def appended(taught: Course, found: Prepared, number: int) -> Run:
    """The run of a scenario's task as the course's next one, not trained yet."""
    scenario = found.data.scenario
    task, group = scenario.tasks[number], scenario.groups[number]
    return taught.run_for(task.train, group.test, len(task.seen))


def learned(taught: Course, run: Run) -> Course:
    return taught.learned(run, list(range(run.learner.spec.classes)))


def teach(taught: Course, found: Prepared, tasks: range = range(3)) -> Course:
    for number in tasks:
        run = appended(taught, found, number)
        for _ in run:
            pass
        taught = learned(taught, run)
    return taught


def weights(taught: Course) -> dict[str, torch.Tensor]:
    assert taught.learner is not None
    return dict(taught.learner.net.state_dict())


def assert_same(a: Mapping[str, torch.Tensor], b: Mapping[str, torch.Tensor]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


@pytest.mark.parametrize("method", [*LEARNING, *ADDED])
def test_a_growing_head_is_deterministic_and_resumes(method: str) -> None:
    """A task that is stopped anywhere and resumed in another object ends at the same bits."""
    found = prepared(method)
    whole = teach(course(found), found)
    two = teach(course(found), found, range(2))
    copied = copy.deepcopy(two)
    third = appended(two, found, 2)
    for step, _ in enumerate(third):
        if step == 1:
            break
    again = appended(copied, found, 2)
    again.load_state_dict(copy.deepcopy(third.state_dict()))
    for _ in again:
        pass
    resumed = learned(copied, again)
    assert resumed.seen == (0, 1, 2, 3, 4, 5)
    assert_same(weights(whole), weights(resumed))
    assert resumed.history[-1]["groups"] == whole.history[-1]["groups"]


@pytest.mark.parametrize(("base", "term"), [("ft", "bfp2"), ("er", "bfp"), ("derpp", "fd")])
def test_weight_0_changes_nothing(base: str, term: str) -> None:
    training = {"bn_updates": "stream"}
    plain = prepared(base, training=training)
    off = prepared(f"{base}+{term}", training=training, options={term: {"weight": 0.0}})
    assert_same(weights(teach(course(plain), plain)), weights(teach(course(off), off)))


@pytest.mark.parametrize("method", LEARNING)
def test_growing_in_one_go_equals_growing_in_parts(method: str) -> None:
    found = prepared(method)
    taught = teach(course(found), found, range(1))
    at_once = copy.deepcopy(taught).learner_for(7)
    bit_by_bit = copy.deepcopy(taught)
    for columns in (3, 4, 7):
        bit_by_bit.learner = bit_by_bit.learner_for(columns)
    assert bit_by_bit.learner is not None
    a, b = at_once.state_dict(), bit_by_bit.learner.state_dict()
    assert_same(a["net"], b["net"])
    assert_same(a["predictor"], b["predictor"])
    for name in a["terms"]:
        assert_same(a["terms"][name], b["terms"][name])
    for name, value in a["memory"].items():
        if name == "logits":  # a product with more columns rounds differently
            torch.testing.assert_close(value, b["memory"][name], rtol=0, atol=1e-6)
        elif isinstance(value, torch.Tensor):
            assert torch.equal(value, b["memory"][name]), name


@pytest.mark.parametrize("head", [LinearHead, CosineHead, CorrectedHead])
def test_a_row_knows_its_class_and_not_how_many_there_are(head: Any) -> None:
    made = []
    for classes in (2, 3, 5):
        with Randomness(7).keyed("head"):
            made.append(ByRow(head)(4, classes).state_dict())
    for name, value in made[0].items():
        for other in made[1:]:
            same = other[name] if value.shape == other[name].shape else other[name][: len(value)]
            assert torch.equal(value, same), name


def test_what_was_learned_survives_growth() -> None:
    """Old logits, old rows of the memory and the old net's outputs are what they were."""
    found = prepared("derpp+bfp")
    taught = teach(course(found), found, range(2))
    narrow = taught.learner
    assert narrow is not None
    images = found.data.scenario.groups[0].test
    wide = taught.learner_for(9)
    assert torch.equal(narrow.evaluate(images).logits, wide.evaluate(images).logits[:, :4])
    assert torch.equal(narrow.memory.columns["x"], wide.memory.columns["x"])
    assert narrow.memory.logits is not None
    assert wide.memory.logits is not None
    stored = wide.memory.logits[: len(wide.memory)]
    assert torch.equal(narrow.memory.logits[: len(narrow.memory)], stored[:, :4])
    # New columns of stored logits: what the grown net says of the stored rows.
    assert torch.equal(stored[:, 4:], wide.evaluate(wide.memory.images()).logits[:, 4:])
    assert wide.previous_net is not None
    assert_same(dict(wide.net.state_dict()), dict(wide.previous_net.state_dict()))
    assert wide.seen.tolist() == [True] * 4 + [False] * 5
