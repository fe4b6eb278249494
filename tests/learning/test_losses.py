"""The equations, by hand: every number here was worked out on paper, as the comments show."""

from typing import Any, Literal, get_args

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from linsep.learning.losses import (
    Distance,
    Scale,
    anchored,
    distilled_bce,
    feature_match,
    less_forget,
    logit_match,
    probability_match,
    soft_cross_entropy,
)
from linsep.learning.projection import BackwardProjection

F64 = torch.float64
# What to divide by: the plain mean of norms, or the mean per root-dimension with d = 2.
DIVISOR = {"none": 1.0, "root_d": 2**0.5}


def matrix(*rows: tuple[float, ...], grad: bool = False) -> Tensor:
    return torch.tensor(rows, dtype=F64, requires_grad=grad)


def with_parameters(kind: Literal["linear", "mlp"], scale: Scale, *values: Tensor) -> Any:
    bfp = BackwardProjection(2, kind, scale=scale).double()
    with torch.no_grad():
        for parameter, value in zip(bfp.parameters(), values, strict=True):
            parameter.copy_(value)
    return bfp


@pytest.mark.parametrize("scale", get_args(Scale))
def test_bfp_and_its_gradients_by_hand(scale: Scale) -> None:
    """A = [1 2; 0 1], b = (1, -1), and two rows:

    z1 = (1, 1): A z1 + b = (4, 0);  z1' = (1, -4); r1 = (3, 4),   |r1| = 5,  u1 = (3/5, 4/5)
    z2 = (2, 0): A z2 + b = (3, -1); z2' = (-9, 4); r2 = (12, -5), |r2| = 13, u2 = (12/13, -5/13)

    L = (5 + 13) / 2 = 9, and with d L / d (A z_i + b) = u_i / 2:
    dL/dA  = (u1 z1^T + u2 z2^T) / 2 = [3/5 + 24/13, 3/5; 4/5 - 10/13, 4/5] / 2
           = [159/130, 3/10; 1/65, 2/5]
    dL/db  = (u1 + u2) / 2 = (99/65, 27/65) / 2 = (99/130, 27/130)
    dL/dz1 = A^T u1 / 2 = (3/5, 6/5 + 4/5) / 2 = (3/10, 1)
    dL/dz2 = A^T u2 / 2 = (12/13, 24/13 - 5/13) / 2 = (6/13, 19/26)
    """
    bfp = with_parameters("linear", scale, matrix((1, 2), (0, 1)), torch.tensor([1, -1], dtype=F64))
    z = matrix((1, 1), (2, 0), grad=True)
    old = matrix((1, -4), (-9, 4))
    loss = bfp(z, old)
    loss.backward()
    weight, bias = (p.grad for p in bfp.parameters())
    root = DIVISOR[scale]
    assert_close(loss.detach(), torch.tensor(9 / root, dtype=F64))
    assert_close(weight, matrix((159 / 130, 3 / 10), (1 / 65, 2 / 5)) / root)
    assert_close(bias, torch.tensor([99 / 130, 27 / 130], dtype=F64) / root)
    assert_close(z.grad, matrix((3 / 10, 1), (6 / 13, 19 / 26)) / root)


@pytest.mark.parametrize("scale", get_args(Scale))
def test_bfp2_and_its_gradients_by_hand(scale: Scale) -> None:
    """W1 = [1 -1; 1 1], c1 = (0, -4), W2 = [2 1; 0 1], c2 = (0, 1), ReLU between.

    z1 = (2, 1): W1 z1 + c1 = (1, -1) -> (1, 0) -> (2, 1); z1' = (-1, -3): r1 = (3, 4)
    z2 = (1, 2): W1 z2 + c1 = (-1, -1) -> (0, 0) -> (0, 1); z2' = (-12, 6): r2 = (12, -5)

    L = (5 + 13) / 2 = 9; u1 = (3/5, 4/5), u2 = (12/13, -5/13) as above.
    dL/dc2 = (u1 + u2) / 2 = (99/130, 27/130)
    dL/dW2 = (u1 (1, 0) + u2 (0, 0)) / 2 = [3/10, 0; 4/10, 0]
    Row 1 goes back as W2^T u1 / 2 = (6/5, 7/5) / 2 through the open first unit: (3/5, 0);
    row 2 has both units shut. dL/dc1 = (3/5, 0), dL/dW1 = (3/5, 0) (2, 1) = [6/5, 3/5; 0, 0],
    dL/dz1 = W1^T (3/5, 0) = (3/5, -3/5), dL/dz2 = 0.
    """
    values = matrix((1, -1), (1, 1)), torch.tensor([0, -4]), matrix((2, 1), (0, 1))
    bfp2 = with_parameters("mlp", scale, *values, torch.tensor([0, 1]))
    z = matrix((2, 1), (1, 2), grad=True)
    loss = bfp2(z, matrix((-1, -3), (-12, 6)))
    loss.backward()
    root = DIVISOR[scale]
    assert_close(loss.detach(), torch.tensor(9 / root, dtype=F64))
    w1, c1, w2, c2 = (p.grad * root for p in bfp2.parameters())
    assert_close(w1, matrix((6 / 5, 3 / 5), (0, 0)))
    assert_close(c1, torch.tensor([3 / 5, 0], dtype=F64))
    assert_close(w2, matrix((3 / 10, 0), (4 / 10, 0)))
    assert_close(c2, torch.tensor([99 / 130, 27 / 130], dtype=F64))
    assert z.grad is not None
    assert_close(z.grad * root, matrix((3 / 5, -3 / 5), (0, 0)))


def test_a_row_that_is_met_exactly_has_no_gradient() -> None:
    """The norm has a kink at zero: a match must give 0 there, not NaN."""
    z = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    feature_match(z, torch.tensor([[1.0, 2.0], [0.0, 0.0]]), "none").backward()
    assert_close(z.grad, torch.tensor([[0.0, 0.0], [0.3, 0.4]]))  # (3/5, 4/5) / 2


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        ("mse", 48.5),  # (9 + 16 + 25 + 144) / 4
        ("squared", 97.0),  # (25 + 169) / 2
        ("norm", 9.0),  # (5 + 13) / 2
    ],
)
def test_logit_match_by_hand(distance: Distance, expected: float) -> None:
    """Differences (3, 4) and (5, 12)."""
    logits, target = torch.tensor([[4.0, 2.0], [5.0, 10.0]]), torch.tensor([[1.0, -2.0], [0, -2]])
    assert float(logit_match(logits, target, distance)) == pytest.approx(expected)
    assert float(logit_match(target, logits, distance)) == pytest.approx(expected)


@pytest.mark.parametrize("distance", get_args(Distance))
def test_gradients_of_logit_match_are_right(distance: Distance) -> None:
    a, b = torch.randn(2, 4, 3, dtype=F64, generator=torch.Generator().manual_seed(0))
    assert torch.autograd.gradcheck(lambda a: logit_match(a, b, distance), (a.requires_grad_(),))


PAIRS: list[Any] = [
    feature_match, logit_match, less_forget, probability_match, BackwardProjection(3, "identity"),
    lambda a, b: soft_cross_entropy(a, b, (0,), 2.0), lambda a, b: anchored(a, b, a),
    lambda a, b: distilled_bce(a, torch.tensor([0, 1]), (0, 1), b, (0,)),
]  # fmt: skip


@pytest.mark.parametrize("loss", PAIRS)
@pytest.mark.parametrize("shape", [(2, 2), (1, 3), (2, 1), (3,), (2, 3, 1), (3, 2)])
def test_shapes_that_differ_are_refused(loss: Any, shape: tuple[int, ...]) -> None:
    """Also those that would broadcast, in silence, to something else."""
    with pytest.raises(ValueError, match=r"shapes differ: \(2, 3\) and "):
        loss(torch.zeros(2, 3), torch.zeros(shape))
