"""Section 3.3 of the paper: what BFP keeps, and what it leaves free."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from linsep.learning.projection import BackwardProjection, Kind

SEEDS = st.integers(0, 2**32 - 1)
D = st.integers(2, 8)
F64 = torch.float64


def normal(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.from_numpy(rng.standard_normal(shape))


def orthogonal(rng: np.random.Generator, d: int) -> Tensor:
    return torch.linalg.qr(normal(rng, d, d))[0]


def best_map(z: Tensor, old: Tensor) -> tuple[Tensor, Tensor]:
    """A and b of the least squares from z, with its entry of 1, to the old features."""
    ones = torch.ones(len(z), 1, dtype=F64)
    solution = torch.linalg.lstsq(torch.cat([z, ones], 1), old, driver="gelsd").solution
    return solution[:-1].T, solution[-1]


def loss_of(a: Tensor, b: Tensor, z: Tensor, old: Tensor) -> float:
    bfp = BackwardProjection(z.shape[1]).double()
    with torch.no_grad():
        for parameter, value in zip(bfp.parameters(), (a, b), strict=True):
            parameter.copy_(value)
    return float(bfp(z, old).detach())


@settings(max_examples=60, deadline=None)
@given(SEEDS, D, st.integers(0, 8))
def test_affine_features_can_be_read_back_and_keep_every_separator(
    seed: int, d: int, rank: int
) -> None:
    """z' = M z + m, of any rank: the best A has loss 0, and w, c on z' is A^T w, c - w b on z."""
    rng = np.random.default_rng(seed)
    rank = min(rank, d)
    z = normal(rng, 4 * d, d)
    m = normal(rng, d, rank) @ normal(rng, rank, d)
    old = z @ m.T + normal(rng, d)
    a, b = best_map(z, old)
    assert loss_of(a, b, z, old) < 1e-9
    w = normal(rng, d)
    score = old @ w
    c = (score.min() + score.max()) / 2
    margin = (score - c).abs().min()
    assume(margin > 1e-6)  # the two sides of the hyperplane are the classes C1 and C2
    assert torch.equal(z @ (a.T @ w) > c - w @ b, score > c)


@settings(max_examples=60, deadline=None)
@given(SEEDS, D, st.floats(1e-3, 0.5))
def test_separators_with_a_margin_survive_a_small_loss(seed: int, d: int, share: float) -> None:
    """If every row of A z + b is within e of z', a separator of margin above e |w| still holds."""
    rng = np.random.default_rng(seed)
    z, m, w = normal(rng, 4 * d, d), normal(rng, d, d), normal(rng, d)
    score = z @ m.T @ w
    c, margin = float(score.mean()), float((score - score.mean()).abs().min() / w.norm())
    assume(margin > 1e-9)
    off = normal(rng, 4 * d, d)
    off = share * margin * off / off.norm(dim=1, keepdim=True)
    old = z @ m.T + off
    assert loss_of(m, torch.zeros(d), z, old) == pytest.approx(share * margin / d**0.5)
    assert torch.equal(z @ (m.T @ w) > c, old @ w > c)


@settings(max_examples=60, deadline=None)
@given(SEEDS, D)
def test_new_classes_may_use_a_direction_that_the_past_did_not(seed: int, d: int) -> None:
    """v^T z' = 0 and z = R (z' + s v), R a rotation: A = (1 - v v^T) R^T has loss 0, blind to R v.

    Along R v, which is in A's null space and so outside its row space, the new classes C3 and C4
    (s = 2 and s = -2) are separated, and the old ones (s = 0) stay as separable as they were. v is
    not in A's column space. Feature distillation charges for it, whether turned or not.
    """
    rng = np.random.default_rng(seed)
    v = normal(rng, d)
    v = v / v.norm()
    blind = torch.eye(d, dtype=F64) - torch.outer(v, v)
    old = normal(rng, 30, d) @ blind
    s = torch.tensor([0.0] * 10 + [2.0] * 10 + [-2.0] * 10, dtype=F64)
    for turn in (torch.eye(d, dtype=F64), orthogonal(rng, d)):
        z = (old + s[:, None] * v) @ turn.T
        a, direction = blind @ turn.T, turn @ v
        assert loss_of(a, torch.zeros(d), z, old) < 1e-9
        assert float((a @ direction).norm()) < 1e-9
        assert float((a.T @ v).norm()) < 1e-9
        along = z @ direction
        assert along[10:20].min() > along[:10].max()
        assert along[20:].max() < along[:10].min()
        w = normal(rng, d)
        separated = old[:10] @ w > 0
        assume(float((old[:10] @ w).abs().min()) > 1e-6)
        assert torch.equal(z[:10] @ (a.T @ w) > 0, separated)
        fd = BackwardProjection(d, "identity", scale="none")
        # Of z turned back the distance is |s| exactly; turned, it is at least what lengths differ.
        least = (z.norm(dim=1) - old.norm(dim=1)).abs().mean()
        assert float(fd(z, old)) >= float(least) - 1e-9
        assert float(fd(z, old)) > 0.01
    unturned = old + s[:, None] * v
    assert float(fd(unturned, old)) == pytest.approx(4 / 3)  # (0 + 2 + 2) / 3


def learned(kind: Kind, z: Tensor, old: Tensor) -> tuple[float, float]:
    """First and last loss of a map trained by its own optimiser, the rate falling at the end."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        bfp = BackwardProjection(z.shape[1], kind)
    optimizer = bfp.optimizer(lr=0.1, momentum=0.9)
    assert optimizer is not None
    history = []
    for step in range(600):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * 0.98 ** max(0, step - 200)
        loss = bfp(z, old)
        history.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return history[0], history[-1]


def test_a_learned_map_finds_affine_features_and_no_others() -> None:
    g = torch.Generator().manual_seed(0)
    z, m, shift = (torch.randn(s, generator=g) for s in ((64, 6), (6, 6), (6,)))
    first, last = learned("linear", z, z @ m.T + shift)
    assert last < 1e-3 * first
    first, last = learned("linear", z, torch.randn(64, 6, generator=g))
    assert last > 0.5 * first
    first, last = learned("linear", z, (3 * z).abs())  # of z and -z there is no linear map to |z|
    assert last > 0.2 * first
    assert float(BackwardProjection(6, "identity")(z, z @ m.T + shift)) > 0.5
