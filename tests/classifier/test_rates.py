"""The rate of a lesson, where the user leaves it open."""

from typing import Any

import pytest

from linsep.classifier.estimator import resolved
from linsep.settings.sections import Training
from linsep.storage.manifest import Params


def training(method: str, like: str | None = None, **chosen: Any) -> Training:
    params = Params(method=method, net="cnn", like=like, settings={"training": chosen})
    return resolved(params).training


@pytest.mark.parametrize(
    ("method", "chosen", "rate"),
    [
        ("er", {}, 0.2),
        ("derpp+bfp", {}, 0.2),
        ("lucir", {}, 0.02),  # which has a momentum of 0.9
        ("icarl", {}, 1.0),  # whose loss is a mean over classes
        ("er", {"momentum": 0.9}, 0.02),  # steps of the same length
        ("lucir", {"momentum": 0.0}, 0.2),
        ("er", {"lr": 0.05, "momentum": 0.9}, 0.05),
        ("er", {"optimizer": "adamw"}, 0.001),
    ],
)
def test_it_is_in_proportion_to_how_the_method_trains(
    method: str, chosen: dict[str, Any], rate: float
) -> None:
    found = training(method, **chosen)
    assert found.lr == pytest.approx(rate)
    assert found.epochs == 20
    assert found.schedule.milestones == (16,)


def test_a_scenario_brings_its_own() -> None:
    """So that announced classes equal a run of it."""
    assert training("er", "split-cifar10").lr == 0.1
    assert training("er", "split-cifar10").schedule.milestones == ()
