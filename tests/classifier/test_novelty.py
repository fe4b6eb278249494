"""Novelty: by formulas worked by hand, and on clothes that were never shown."""

import numpy as np
import pytest
import torch

from linsep import IncrementalClassifier
from linsep.classifier.novelty import Known, energy
from linsep.data.images import Images
from linsep.learning.model import Model

from .test_estimator import fashion


def test_energy() -> None:
    scores = torch.tensor([[0.0, 0.0, -torch.inf], [2.0, -torch.inf, -torch.inf]])
    assert energy(scores) == pytest.approx([-np.log(2), -2.0])
    assert energy(scores, 2.0) == pytest.approx([-2 * np.log(2), -2.0])


def test_distance_is_mahalanobis() -> None:
    """Against the textbook formula, with the covariance that scikit-learn shrinks."""
    from sklearn.covariance import LedoitWolf

    rng = np.random.default_rng(0)
    y = np.repeat([0, 3], 50)
    z = rng.normal(size=(100, 4)) * [1, 2, 3, 4] + y[:, None]
    means = np.stack([z[y == c].mean(0) for c in (0, 3)])
    within = z - np.repeat(means, 50, axis=0)
    precision = LedoitWolf(assume_centered=True).fit(within).precision_
    asked = rng.normal(size=(5, 4))
    wanted = [min(np.sqrt((a - m) @ precision @ (a - m)) for m in means) for a in asked]
    known = Known.of(torch.from_numpy(z), torch.from_numpy(y))
    assert known.distance(torch.from_numpy(asked)) == pytest.approx(wanted)


def test_clothes_that_were_never_shown_are_stranger() -> None:
    known, y = fashion((0, 1), 80)
    strange, _ = fashion((8, 9), 40)
    clf = IncrementalClassifier("er", "cnn", memory=60, epochs=4).fit(known[::2], y[::2])
    usual, unusual = clf.novelty(known[1::2]), clf.novelty(strange)
    assert np.mean(unusual[:, None] > usual) > 0.8  # of the pairs
    assert np.array_equal(clf.novelty(strange), clf.novelty(strange, by="distance"))


def test_kept_images_pass_once_after_each_lesson(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = fashion((0, 1), 40)
    clf = IncrementalClassifier("er", "cnn", memory=20, epochs=1).fit(x[:60], y[:60])
    passed: list[int] = []
    embed = Model.embed

    def counting(model: Model, images: Images) -> torch.Tensor:
        passed.append(len(images))
        return embed(model, images)

    monkeypatch.setattr(Model, "embed", counting)
    first, again = clf.novelty(x[60:]), clf.novelty(x[60:])
    assert np.array_equal(first, again)
    assert passed[1:] == [20, 20]
    assert passed[0] >= 20  # those of the memory, and those held out
    clf.partial_fit(*fashion((2,), 30))
    passed.clear()
    assert not np.array_equal(clf.novelty(x[60:]), first)
    assert len(passed) == 2
