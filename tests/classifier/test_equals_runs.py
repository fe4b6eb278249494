"""`partial_fit` over a scenario's tasks, with announced classes, is `linsep run`, bit for bit."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from linsep import Config, IncrementalClassifier
from linsep.prepare import prepare
from linsep.storage.session import Session

METHODS = ("ft", "er", "derpp+bfp", "icarl", "lucir", "bic")
MEMORY = 20
TRAINING: dict[str, Any] = {"epochs": 1, "batch_size": 8}
SCENARIO = {"name": "fashion-mini", "per_class": 8, "test_per_class": 3}


def options(method: str) -> dict[str, Any]:
    quick = {"bic": {"bias_epochs": 2}, "lucir": {"fitting_epochs": 1}}
    return {name: own for name, own in quick.items() if name == method}


def run_folder(method: str, runs: Path) -> Path:
    """The folder that `linsep run` writes."""
    memory = {} if method == "ft" else {"memory": MEMORY}
    config = Config(
        scenario=SCENARIO, net={"name": "cnn", "width": 8}, method=method, training=TRAINING,
        options=options(method), seed=3, **memory,
    )  # fmt: skip
    with Session(prepare(config), runs) as session:
        for _ in session:
            pass
    return session.folder


def classifier(method: str) -> IncrementalClassifier:
    """The same settings; its lessons are the scenario's tasks."""
    clf = IncrementalClassifier(
        method, "cnn", memory=MEMORY, test_share=0.0, like="fashion-mini", random_state=3,
        **TRAINING, settings={"net": {"width": 8}, "options": options(method)},
    )  # fmt: skip
    tasks = prepare(Config(scenario=SCENARIO, method="ft")).data.scenario.tasks
    for task in tasks:
        clf.partial_fit(task.train.pixels().numpy(), task.train.y.numpy(), classes=range(10))
    return clf


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_on_fashion_mini(method: str, tmp_path: Path) -> None:
    wanted = load_file(run_folder(method, tmp_path) / "model.safetensors")
    learner = classifier(method).course_.learner
    assert learner is not None
    found = learner.net.state_dict()
    shared = {name.removeprefix("net."): value for name, value in wanted.items()}
    assert found.keys() <= shared.keys()
    for name, value in found.items():
        assert torch.equal(value, shared[name]), name
