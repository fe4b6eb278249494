"""The baselines' equations: numbers worked by hand, gradients by finite differences, refusals."""

from collections.abc import Callable
from math import log, sqrt

import pytest
import torch
from torch import Tensor

from linsep.learning import losses


def tensor(*rows: object) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def test_cross_entropy_among_leaves_the_others_out() -> None:
    logits, y = tensor([0.0, log(3.0), 50.0]), torch.tensor([0])
    assert float(losses.cross_entropy_among(logits, y, (0, 1))) == pytest.approx(log(4))


def test_asymmetric_ce_spares_seen_classes_that_are_absent() -> None:
    """Four classes, three seen, class 1 in the batch: 1 and 3 compete, 0 and 2 do not."""
    logits = tensor([9.0, 0.0, 9.0, log(3.0)], [9.0, log(2.0), 9.0, 0.0])
    y = torch.tensor([1, 1])
    expected = (log(4) + log(3 / 2)) / 2
    assert float(losses.asymmetric_ce(logits, y, (0, 1, 2))) == pytest.approx(expected)


def test_distilled_bce_by_hand() -> None:
    """Old class 0 towards sigmoid(log 3) = 3/4, new class 1 towards its label, class 2 unseen."""
    logits, old = tensor([0.0, log(3.0), 7.0]), tensor([log(3.0), 5.0, 5.0])
    found = losses.distilled_bce(logits, torch.tensor([1]), (0, 1), old, (0,))
    assert float(found) == pytest.approx((log(2) + log(4 / 3)) / 2)
    first = losses.distilled_bce(logits, torch.tensor([1]), (0, 1), None, ())
    assert float(first) == pytest.approx((log(2) + log(4 / 3)) / 2)


def test_probability_match_by_hand() -> None:
    logits, target = tensor([0.0, 0.0], [log(3.0), 0.0]), tensor([log(3.0), 0.0], [log(3.0), 0.0])
    assert float(losses.probability_match(logits, target)) == pytest.approx(sqrt(2) / 4 / 2)


def test_soft_cross_entropy_by_hand() -> None:
    """At T = 2 logits of 2 log 3 become log 3; class 2 takes no part."""
    logits, old = tensor([0.0, 0.0, 4.0]), tensor([2 * log(3.0), 0.0, -4.0])
    assert float(losses.soft_cross_entropy(logits, old, (0, 1), 2.0)) == pytest.approx(log(2))
    own = losses.soft_cross_entropy(old, old, (0, 1), 2.0)
    assert float(own) == pytest.approx(-(0.75 * log(0.75) + 0.25 * log(0.25)))


def test_less_forget_sees_directions_only() -> None:
    z, old = tensor([3.0, 0.0], [0.0, 2.0]), tensor([1.0, 0.0], [5.0, 5.0])
    assert float(losses.less_forget(z, old)) == pytest.approx((0 + 1 - sqrt(0.5)) / 2)


def test_margin_ranking_by_hand() -> None:
    """Custom cosines .4 and .9; the two nearest of the rivals 2, 3, 4 count."""
    cosines = tensor([0.4, 0.0, 0.2, 0.8, -0.5], [0.1, 0.9, 0.3, 0.1, 0.2])
    found = losses.margin_ranking(cosines, torch.tensor([0, 1]), (2, 3, 4), nearest=2, margin=0.5)
    assert float(found) == pytest.approx(((0.5 - 0.4 + 0.8) + (0.5 - 0.4 + 0.2) + 0 + 0) / 4)


def test_anchored_by_hand() -> None:
    theta, anchor, importance = tensor(1.0, 2.0), tensor(0.0, 4.0), tensor(3.0, 0.5)
    assert float(losses.anchored(theta, anchor, importance)) == pytest.approx(3 + 2)


SEEN, EARLIER, Y = (0, 1, 2), (0, 1), torch.tensor([2, 0, 1])
OF_LOGITS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy_among": lambda a, b: losses.cross_entropy_among(a, Y, SEEN),
    "asymmetric_ce": lambda a, b: losses.asymmetric_ce(a, Y, SEEN),
    "distilled_bce": lambda a, b: losses.distilled_bce(a, Y, SEEN, b, EARLIER),
    "probability_match": losses.probability_match,
    "soft_cross_entropy": lambda a, b: losses.soft_cross_entropy(a, b, EARLIER, 2.0),
    "less_forget": losses.less_forget,
    "margin_ranking": lambda a, b: losses.margin_ranking(a, Y, (2, 3), nearest=1, margin=0.5),
    "anchored": lambda a, b: losses.anchored(a, b, torch.ones_like(a)),
}


@pytest.mark.parametrize("name", OF_LOGITS)
def test_gradients_are_right(name: str) -> None:
    g = torch.Generator().manual_seed(0)
    a = torch.randn(3, 4, generator=g, dtype=torch.float64, requires_grad=True)
    b = torch.randn(3, 4, generator=g, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a: OF_LOGITS[name](a, b), (a,))


@pytest.mark.parametrize(
    "name", ["distilled_bce", "probability_match", "soft_cross_entropy", "less_forget", "anchored"]
)
def test_shapes_that_differ_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"shapes differ: \(3, 4\) and \(1, 4\)"):
        OF_LOGITS[name](torch.zeros(3, 4), torch.zeros(1, 4))
