"""CKA against the n x n kernels it stands for."""

import math
from collections.abc import Callable
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linsep.analysis.similarity import ESTIMATORS, Estimator, cka


def pair(n: int = 40, d1: int = 5, d2: int = 7, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Related features, neither centred."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d1, generator=g, dtype=torch.float64) + 1.5
    noise = torch.randn(n, d2, generator=g, dtype=torch.float64)
    return x, (x @ torch.randn(d1, d2, generator=g, dtype=torch.float64) + 2 * noise).relu()


def rotation(d: int) -> Tensor:
    g = torch.Generator().manual_seed(9)
    q, _ = torch.linalg.qr(torch.randn(d, d, generator=g, dtype=torch.float64))
    return torch.as_tensor(q)


def naive_hsic(x: Tensor, y: Tensor) -> float:
    n = len(x)
    h = torch.eye(n, dtype=torch.float64) - 1 / n
    return float((x @ x.T @ h @ y @ y.T @ h).trace())


def naive_unbiased_hsic(x: Tensor, y: Tensor) -> float:
    """As an average over all quadruples of different rows, in its matrix form."""
    n = len(x)
    k, m = (z @ z.T for z in (x, y))
    k.fill_diagonal_(0)
    m.fill_diagonal_(0)
    ones = torch.ones(n, dtype=torch.float64)
    value = (k @ m).trace() + (ones @ k @ ones) * (ones @ m @ ones) / ((n - 1) * (n - 2))
    return float(value - 2 / (n - 2) * (ones @ k @ m @ ones)) / (n * (n - 3))


def quadruple_hsic(x: Tensor, y: Tensor) -> float:
    """The definition itself: E k l + E k E l - 2 E k l' over rows i, j, q, r all different."""
    k, m = (x @ x.T).tolist(), (y @ y.T).tolist()
    terms = [
        k[i][j] * m[i][j] + k[i][j] * m[q][r] - 2 * k[i][j] * m[i][q]
        for i in range(len(x))
        for j in range(len(x))
        for q in range(len(x))
        for r in range(len(x))
        if len({i, j, q, r}) == 4
    ]
    return math.fsum(terms) / len(terms)


def test_centred_equals_the_gram_matrix_version() -> None:
    x, y = pair()
    want = naive_hsic(x, y) / math.sqrt(naive_hsic(x, x) * naive_hsic(y, y))
    assert cka(x, y) == pytest.approx(want, rel=1e-10)
    assert 0.05 < want < 0.95


def test_debiased_equals_the_gram_matrix_version_and_the_definition() -> None:
    x, y = pair(n=7)
    assert naive_unbiased_hsic(x, y) == pytest.approx(quadruple_hsic(x, y), rel=1e-9)
    for n in (7, 40):
        x, y = pair(n)
        u = naive_unbiased_hsic
        want = u(x, y) / math.sqrt(u(x, x) * u(y, y))
        assert cka(x, y, "debiased") == pytest.approx(want, rel=1e-9)


def test_printed_is_the_paper_s_formula_and_differs() -> None:
    x, y = pair()
    norm = torch.linalg.matrix_norm
    want = norm(x.T @ y) ** 2 / (norm(x.T @ x) ** 2 * norm(y.T @ y) ** 2)
    assert cka(x, y, "printed") == pytest.approx(float(want), rel=1e-10)
    assert cka(x, x, "printed") == pytest.approx(float(1 / norm(x.T @ x) ** 2), rel=1e-10)
    assert cka(2 * x, y, "printed") == pytest.approx(cka(x, y, "printed") / 4)


@pytest.mark.parametrize("estimator", ["centred", "debiased"])
def test_invariant_to_rotation_scale_and_shift_and_one_with_itself(estimator: Estimator) -> None:
    x, y = pair()
    value = cka(x, y, estimator)
    assert cka(x, x, estimator) == pytest.approx(1, abs=1e-12)
    assert cka(y, x, estimator) == pytest.approx(value, abs=1e-12)
    assert cka(x, 3 * x @ rotation(5) + 10, estimator) == pytest.approx(1, abs=1e-10)
    assert cka(x @ rotation(5), 0.01 * y @ rotation(7), estimator) == pytest.approx(
        value, abs=1e-10
    )
    assert cka(x + 1e5, y - 1e5, estimator) == pytest.approx(value, abs=1e-8)
    stretched = cka(x * torch.tensor([9.0, 1, 1, 1, 1]), y, estimator)
    assert abs(stretched - value) > 1e-3  # any other linear map does change it


@given(rows=st.integers(1, 40))
def test_blocks_of_rows_change_nothing(rows: int) -> None:
    x, y = pair()
    for estimator in ESTIMATORS:
        want = cka(x, y, estimator)
        with patch("linsep.analysis.features.ROWS", rows):
            assert cka(x, y, estimator) == pytest.approx(want, rel=1e-9)


def test_bad_input_is_refused() -> None:
    x, y = pair()
    cases: list[tuple[Callable[[], float], str]] = [
        (lambda: cka(x / 0, y), "first features: there are NaN or infinite"),
        (lambda: cka(x, y[:, :0]), "second features: the matrix is empty"),
        (lambda: cka(x, torch.full_like(y, 0.1)), "second features are the same in every row"),
        (lambda: cka(x[:1], y[:1]), "at least 2 rows"),
        (lambda: cka(x[:3], y[:3], "debiased"), "at least 4 rows"),
        (lambda: cka(x, 0 * y, "printed"), "zero in every row"),
    ]
    for wrong, message in cases:
        with pytest.raises(ValueError, match=message):
            wrong()
