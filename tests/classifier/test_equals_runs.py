"""`partial_fit` over a scenario's tasks, with announced classes, is `linsep run`, bit for bit."""

from typing import Any

import pytest
import torch

from linsep import Config, IncrementalClassifier
from linsep.prepare import prepare
from tests.helpers.combinations import LEARNING

MEMORY = 20
TRAINING: dict[str, Any] = {"epochs": 1, "batch_size": 8}
SCENARIO = {"name": "fashion-mini", "per_class": 8, "test_per_class": 3}
QUICK = {"gdumb": {"epochs": 2}, "bic": {"bias_epochs": 2}, "lucir": {"fitting_epochs": 1}}


@pytest.mark.parametrize("method", [*LEARNING, "derpp+bfp"])
def test_on_fashion_mini(method: str) -> None:
    options = {name: own for name, own in QUICK.items() if name == method}
    memory = {} if method in ("ft", "lwf", "ewc", "si") else {"memory": MEMORY}
    config = Config(
        scenario=SCENARIO, net={"name": "cnn", "width": 4}, method=method, training=TRAINING,
        options=options, seed=3, **memory,
    )  # fmt: skip
    run = prepare(config).build()
    for _ in run:
        pass
    clf = IncrementalClassifier(
        method, "cnn", memory=MEMORY, test_share=0.0, like="fashion-mini", random_state=3,
        settings={"net": {"width": 4}, "options": options}, **TRAINING,
    )  # fmt: skip
    for task in run.scenario.tasks:
        clf.partial_fit(task.train.pixels().numpy(), task.train.y.numpy(), classes=range(10))
    assert clf.course_.learner is not None
    wanted, found = run.learner.net.state_dict(), clf.course_.learner.net.state_dict()
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        assert torch.equal(value, wanted[name]), name
