"""Nets of a classifier: by name, a module of your own, and a backbone that does not learn."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from linsep import IncrementalClassifier
from linsep.nets.frozen import Centring, FrozenBackbone

from .test_estimator import images, small


def own() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1))


def state(clf: IncrementalClassifier) -> dict[str, torch.Tensor]:
    assert clf.course_.learner is not None
    backbone = clf.course_.learner.net.backbone
    assert isinstance(backbone, FrozenBackbone)
    return {k: v.clone() for k, v in backbone.state_dict().items()}


def test_a_module_of_your_own_learns_and_stays_as_it_was() -> None:
    module = own()
    clf = IncrementalClassifier("er", module, memory=12, epochs=1)
    clf.fit(images(20), ["a", "b"] * 10).partial_fit(images(10, 1), ["c"] * 10)
    assert clf.predict_proba(images(4)).shape == (4, 3)
    for name, value in own().state_dict().items():
        assert torch.equal(module.state_dict()[name], value), name
    assert clf.course_.learner is not None
    learned = clf.course_.learner.net.backbone.state_dict()
    assert not torch.equal(learned["module.0.weight"], own().state_dict()["0.weight"])
    assert isinstance(clone(clf).net, nn.Module)


@pytest.mark.parametrize("method", ["ewc", "icarl", "bic"])
def test_a_frozen_backbone_never_changes(method: str) -> None:
    clf = small(method, train="head").fit(images(20), ["a", "b"] * 10)
    before = state(clf)
    clf.partial_fit(images(10, 1), ["c", "a"] * 5)
    for name, value in state(clf).items():
        assert torch.equal(value, before[name]), name
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert np.isfinite(clf.predict_proba(images(4))).all()


@pytest.mark.parametrize(("count", "squared"), [(16, 16), (64, 64), (1280, 64)])
def test_many_features_are_no_longer_than_64(count: int, squared: float) -> None:
    """A head's steps grow with the squared length; at 1280 the usual rate would diverge."""
    z = np.random.default_rng(0).normal(3.0, 5.0, (400, count)).astype(np.float32)
    found = Centring.of(torch.from_numpy(z))
    rows = (torch.from_numpy(z) - found.mean) / found.scale
    assert rows.mean(0).abs().max() < 1e-4
    assert rows.square().sum(1).mean().item() == pytest.approx(squared, rel=1e-4)


def test_frozen_predictions_are_those_of_the_head_on_the_features() -> None:
    """By hand: features of the frozen net, standardised, times the head's weights."""
    clf = small("er", train="head").fit(images(20), ["a", "b"] * 10)
    course = clf.course_
    assert course.learner is not None
    x = torch.from_numpy(images(5, 3)).permute(0, 3, 1, 2)
    backbone, head = course.learner.net.backbone.eval(), course.learner.net.head
    assert isinstance(backbone, FrozenBackbone)
    with torch.no_grad():
        z = backbone.module(course.augment.eval(x))["features"]
        p = (head((z - backbone.mean) / backbone.scale) / clf.temperature_).softmax(1)
    assert np.allclose(clf.predict_proba(images(5, 3)), p.numpy(), atol=1e-5)
