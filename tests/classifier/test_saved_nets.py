"""Saved classifiers with a frozen backbone, or with a module that was handed in."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from linsep import IncrementalClassifier, LinsepError
from linsep.classifier.teaching import Teaching
from linsep.errors import StateError
from linsep.storage.manifest import Params
from tests.helpers.made_data import noise

X = noise(0, 40, 12, 12, 3)
Y = np.array(["ant", "bee"] * 10 + ["cow", "ant"] * 10)
NEW = noise(1, 9, 12, 12, 3)
SMALL: dict[str, Any] = {"memory": 9, "epochs": 1, "batch_size": 8}


class Tied(nn.Module):
    """Two layers that share their weights, and a buffer that is not finite."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, width, 3, 2, 1)
        self.second = nn.Conv2d(width, width, 3, 1, 1)
        self.third = nn.Conv2d(width, width, 3, 1, 1)
        self.third.weight = self.second.weight
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(self.second(self.first(x)).relu())


def first(net: Any = "cnn", method: str = "derpp+bfp", **more: Any) -> IncrementalClassifier:
    settings = {"net": {"width": 8}} if net == "cnn" else {}
    clf = IncrementalClassifier(method, net, settings=settings, **SMALL, **more)
    return clf.fit(X[:20], Y[:20])


KINDS: dict[str, dict[str, Any]] = {
    "frozen": {"train": "head"},
    "frozen, by the nearest mean": {"train": "head", "method": "icarl"},
    "own": {"net": Tied()},
    "own and frozen": {"net": Tied(), "train": "head"},
}


@pytest.mark.parametrize("chosen", KINDS.values(), ids=KINDS)
def test_saved_and_loaded_it_predicts_and_learns_the_same(
    chosen: dict[str, Any], tmp_path: Path
) -> None:
    clf = first(**chosen)
    clf.save(tmp_path / "model")
    net = Tied().requires_grad_(True) if "net" in chosen else None
    if net is not None:
        nn.init.zeros_(net.first.weight)  # whatever it holds is replaced
    again = IncrementalClassifier.load(tmp_path / "model", net=net)
    assert np.array_equal(again.predict_proba(NEW), clf.predict_proba(NEW))
    for one in (clf, again):
        one.partial_fit(X[20:], Y[20:])
        one.save(tmp_path / "both" / str(one is clf))
    assert np.array_equal(again.predict_proba(NEW), clf.predict_proba(NEW))
    same = [load_file(tmp_path / "both" / k / "model.safetensors") for k in ("True", "False")]
    assert same[0].keys() == same[1].keys()
    assert all(torch.equal(v, same[1][n]) for n, v in same[0].items())


def test_weights_of_a_file_are_needed_once(tmp_path: Path) -> None:
    """A frozen net that started from a file: the saved model stands for itself."""
    start = first("cnn", "er")
    assert start.course_.learner is not None
    torch.save(start.course_.learner.net.backbone.state_dict(), tmp_path / "start.pt")
    settings = {"net": {"width": 8, "weights": str(tmp_path / "start.pt")}}
    clf = IncrementalClassifier("er", "cnn", train="head", settings=settings, **SMALL)
    clf.fit(X[:20], Y[:20])
    assert clf.course_.learner is not None
    kept = clf.course_.learner.net.backbone.state_dict()
    for name, value in start.course_.learner.net.backbone.state_dict().items():
        assert torch.equal(value, kept[f"module.{name}"]), name
    clf.save(tmp_path / "model")
    (tmp_path / "start.pt").unlink()
    again = IncrementalClassifier.load(tmp_path / "model").partial_fit(X[20:], Y[20:])
    assert np.array_equal(again.predict(NEW), clf.partial_fit(X[20:], Y[20:]).predict(NEW))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    first(Tied()).save(folder)
    return folder


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frozen")
    first(train="head").save(folder)
    return folder


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (None, r"made with a module of yours, Tied, .* net=module\) reads it"),
        (Tied(16), r"does not fit this Tied: net.backbone.module.first.weight is .* should be"),
        (nn.Sequential(nn.Conv2d(3, 8, 3)), "does not fit this Tied: .* is missing"),
        (nn.Flatten(0), "does not fit this Tied: .* must return features"),
        ("cnn", "net: should be the module it was made with, not str"),
    ],
)
def test_a_module_that_is_missing_or_another_is_one_line(net: Any, reason: str, own: Path) -> None:
    with pytest.raises(LinsepError, match=reason) as caught:
        IncrementalClassifier.load(own, net=net)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ({"config.net.train": None}, "net.backbone.blocks.block1.0.weight is missing"),
        ({"shape": [32]}, "shape: should be that of an image"),
        ({"shape": [2, 12, 12]}, "shape: should be that of an image"),
        ({"augment.cut": [12, 12], "augment.size": [4000, 4000]}, "at most 1024"),
        ({"augment.columns": True}, "shape: should be that of a row of 3 numbers"),
    ],
)
def test_a_hostile_manifest_of_a_frozen_net_is_refused(
    damage: dict[str, Any], reason: str, frozen: Path, tmp_path: Path
) -> None:
    shutil.copytree(frozen, tmp_path, dirs_exist_ok=True)
    told = json.loads((tmp_path / "manifest.json").read_text())
    for place, value in damage.items():
        *outer, name = place.split(".")
        inner = told["classifier"]
        for part in outer:
            inner = inner[part]
        inner[name] = value
    (tmp_path / "manifest.json").write_text(json.dumps(told))
    with pytest.raises(StateError, match=reason) as caught:
        IncrementalClassifier.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_an_interrupted_lesson_on_features_resumes_bit_for_bit(tmp_path: Path) -> None:
    whole = first(train="head")
    whole.save(tmp_path)
    whole.partial_fit(X[20:], Y[20:])
    how: dict[str, Any] = {"new": Params(), "save_every": 0.0}
    for _ in range(2):
        with Teaching(tmp_path, X[20:], Y[20:], **how) as lesson:
            next(iter(lesson))
            lesson.save()
    with Teaching(tmp_path, X[20:], Y[20:], **how) as lesson:
        assert lesson.resumed
        for _ in lesson:
            pass
    again = IncrementalClassifier.load(tmp_path)
    assert np.array_equal(again.predict_proba(NEW), whole.predict_proba(NEW))


@pytest.mark.slow
def test_resizing_for_the_net_is_in_the_exported_file(tmp_path: Path) -> None:
    settings = {"scenario": {"augment": {"size": 20, "mean": [0.5], "std": [0.25]}}}
    clf = IncrementalClassifier("er", "cnn", settings=settings, **SMALL).fit(X[:20], Y[:20])
    clf.export(tmp_path / "model.pt2")
    found, _ = torch.export.load(tmp_path / "model.pt2").module()(torch.from_numpy(NEW))
    assert np.abs(found.numpy() - clf.predict_proba(NEW)).max() < 1e-4
    clf.save(tmp_path / "model")
    again = IncrementalClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(NEW), clf.predict_proba(NEW))
