"""The probe against scikit-learn's optimum, on real images' features; draws; bad input."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import linsep
from linsep.analysis.probe import PORTIONS, draw_rows, probe, probe_draws
from linsep.learning.logistic import fit_logistic


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def blobs(n: int, d: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % classes
    centres = torch.randn(classes, d, generator=torch.Generator().manual_seed(5))
    return centres[y] + torch.randn(n, d, generator=g), y


def fashion(filters: int, part: str = "train") -> tuple[Tensor, Tensor]:
    """Real pictures behind a random convolution: 4 x `filters` correlated features, one dead."""
    with np.load(Path(linsep.__file__).parent / "data" / "fashion_mini.npz") as arrays:
        x, y = arrays[f"{part}_x"], arrays[f"{part}_y"]
    g = torch.Generator().manual_seed(0)
    kernels = torch.randn(filters, 1, 6, 6, generator=g)
    maps = F.conv2d(torch.from_numpy(x)[:, None].float() / 255 - 0.5, kernels, stride=2).relu()
    z = F.adaptive_avg_pool2d(maps, 2).flatten(1)
    z[:, 1] = 0.0
    return z, torch.from_numpy(y).long()


def standardised(z: Tensor) -> Tensor:
    deviation = z.double().std(0, correction=0)
    return ((z - z.double().mean(0)) / deviation.masked_fill(deviation == 0, 1)).float()


def sklearn_fit(x: Tensor, y: Tensor, tol: float, solver: str = "lbfgs") -> tuple[Tensor, Tensor]:
    linear: Any = pytest.importorskip("sklearn.linear_model")
    model = linear.LogisticRegression(C=1.0, tol=tol, solver=solver, max_iter=10_000)
    fit = model.fit(x.numpy(), y.numpy())
    w, b = torch.from_numpy(fit.coef_).double(), torch.from_numpy(fit.intercept_).double()
    return (w, b) if len(w) > 1 else (torch.cat([-w, w]) / 2, torch.cat([-b, b]) / 2)


def losses(x: Tensor, y: Tensor, w: Tensor, b: Tensor) -> tuple[float, float]:
    """Mean loss, and with scikit-learn's penalty on top: on the difference if there are two."""
    loss = float(F.cross_entropy(F.linear(x.double(), w, b), y))
    squares = float((w[1] - w[0]).square().sum() if len(w) == 2 else w.square().sum())
    return loss, loss + squares / (2 * len(x))


@pytest.mark.parametrize(
    ("classes", "rows", "filters"),
    [(10, 2000, 32), (10, 90, 32), (10, 40, 5), (3, 300, 16), (2, 300, 32), (2, 30, 32)],
)
def test_reaches_scikit_learn_s_optimum(classes: int, rows: int, filters: int) -> None:
    z, y = fashion(filters)
    z, y = z[y < classes], y[y < classes]
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(0))
    x, y = standardised(z[order]), y[order]
    (x, xt), (y, yt) = (torch.tensor_split(t, [rows]) for t in (x, y))
    fit = fit_logistic(x, y, classes)
    w, b = sklearn_fit(x.double(), y, 1e-8, "newton-cg")
    loss, objective = losses(x, y, fit.weight, fit.bias)
    best_loss, best = losses(x, y, w, b)
    assert fit.converged
    assert fit.gap <= 1e-5
    assert (fit.loss, fit.objective) == pytest.approx((loss, objective), abs=1e-6)
    assert -1e-7 < objective - best < 2 * fit.gap  # b's share of it is an estimate
    close = fit_logistic(x, y, classes, gap=1e-6)  # the gap bounds the objective, not the loss
    assert abs(close.loss - best_loss) < 1e-4
    right = [
        float((F.linear(xt.double(), *head).argmax(1) == yt).double().mean())
        for head in ((fit.weight, fit.bias), (w, b))
    ]
    assert abs(right[0] - right[1]) <= 0.003


def test_solved_to_the_gap_asked_for_and_stationary() -> None:
    x, y = blobs(200, 6, 4)
    fit = fit_logistic(x.double(), y, 4, c=0.3, gap=1e-13)
    w, b = fit.weight.requires_grad_(), fit.bias.requires_grad_()
    objective = F.cross_entropy(F.linear(x.double(), w, b), y) + w.square().sum() / (2 * 0.3 * 200)
    objective.backward()
    assert w.grad is not None
    assert b.grad is not None
    assert float(w.grad.abs().max()) < 1e-7
    assert float(b.grad.abs().max()) < 1e-7
    assert float(objective.detach()) == pytest.approx(fit.objective, abs=1e-12)
    short = fit_logistic(x, y, 4, max_iter=1)
    assert not short.converged
    assert short.iterations == 1


def test_draws_are_per_class_and_at_least_one() -> None:
    y = torch.tensor([7] * 100 + [2] * 10 + [5])
    for portion, want in ((0.01, [1, 1, 1]), (0.33, [33, 3, 1]), (1.0, [100, 10, 1])):
        rows = draw_rows(y, portion, rng())
        assert len(set(rows.tolist())) == len(rows)
        assert [int((y[rows] == c).sum()) for c in (7, 2, 5)] == want
    assert torch.equal(draw_rows(y, 0.33, rng()), draw_rows(y, 0.33, rng()))
    assert not torch.equal(draw_rows(y, 0.33, rng()), draw_rows(y, 0.33, rng(1)))


def test_probe_learns_from_any_labels_and_ignores_scale_and_dead_features() -> None:
    z, y = blobs(600, 8, 3)
    test, test_y = blobs(300, 8, 3, seed=1)
    names = torch.tensor([4, 9, 40])
    got = probe((z, names[y]), (test, names[test_y]), 0.5, rng())
    assert got.rows == 300
    assert got.accuracy > 0.85
    assert got.train_accuracy > 0.85
    assert float((got.predicted == names[test_y]).double().mean()) == got.accuracy

    def spoil(m: Tensor) -> Tensor:
        return F.pad(m * torch.logspace(-3, 3, 8) + 5, (0, 2), value=0.1)

    again = probe((spoil(z), names[y]), (spoil(test), names[test_y]), 0.5, rng())
    assert again.fit.objective == pytest.approx(got.fit.objective, abs=2e-5)
    assert (again.predicted == got.predicted).double().mean() > 0.99


def test_repeated_draws_are_keyed_not_sequential() -> None:
    z, y = blobs(400, 5, 4)
    test, test_y = blobs(100, 5, 4, seed=1)
    every = list(probe_draws((z, y), (test, test_y), draws=2, seed=3))
    assert [r.portion for r in every] == [p for p in PORTIONS for _ in range(2)][:-1]
    alone = next(probe_draws((z, y), (test, test_y), portions=[0.1], draws=1, seed=3))
    assert torch.equal(alone.fit.weight, every[4].fit.weight)
    assert not torch.equal(every[5].fit.weight, every[4].fit.weight)
    other = next(probe_draws((z, y), (test, test_y), portions=[0.1], draws=1, seed=4))
    assert not torch.equal(alone.fit.weight, other.fit.weight)


def test_bad_input_is_refused() -> None:
    z, y = blobs(20, 3, 2)
    for wrong, message in (
        (lambda: probe((z / 0, y), (z, y), 1, rng()), "training features: there are NaN"),
        (lambda: probe((z, y), (z[:0], y[:0]), 1, rng()), "test features: the matrix is empty"),
        (lambda: probe((z, 0 * y), (z, 0 * y), 1, rng()), "at least two classes"),
        (lambda: probe((z, y), (z, y + 1), 1, rng()), r"without training rows: \[2\]"),
        (lambda: probe((z, y), (z, y), 0, rng()), "portion: want a share"),
        (lambda: probe((z, y), (z, y), 1.1, rng()), "portion: want a share"),
        (lambda: fit_logistic(z, y + 1, 2), "beyond 2 classes"),
        (lambda: fit_logistic(z, y, 2, c=0), "c > 0"),
        (lambda: list(probe_draws((z, y), (z, y), draws=0)), "at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
