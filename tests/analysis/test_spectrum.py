"""Spectrum and proj-acc against slow direct computations, and numbers worked by hand."""

from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linsep.analysis.features import Rule, mean_row
from linsep.analysis.spectrum import Spectrum, effective_rank, proj_acc, spectrum


def features(n: int, d: int, seed: int = 0, mean: float = 0.0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    mix = torch.randn(d, d, generator=g, dtype=torch.float64)
    return torch.randn(n, d, generator=g, dtype=torch.float64) @ mix + mean


def head(classes: int, d: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    weight = torch.randn(classes, d, generator=g, dtype=torch.float64)
    return weight, torch.randn(classes, generator=g, dtype=torch.float64)


def rule(w: Tensor, b: Tensor, seen: Tensor | None = None) -> Rule:
    return Rule(w, b, torch.ones(len(w), dtype=torch.bool) if seen is None else seen)


def direct(z: Tensor, y: Tensor, w: Tensor, b: Tensor, basis: Spectrum, k: int) -> float:
    u = basis.directions[:, :k]
    projected = torch.stack([basis.centre + u @ (u.T @ (row - basis.centre)) for row in z])
    return float(((projected @ w.T + b).argmax(1) == y).double().mean())


@pytest.mark.parametrize("centred", [False, True])
def test_singular_values_and_directions_are_those_of_the_svd(centred: bool) -> None:
    z = features(50, 7, mean=3.0)
    got = spectrum(z, centred=centred)
    _, s, vh = torch.linalg.svd(z - z.mean(0) if centred else z, full_matrices=False)
    torch.testing.assert_close(got.values, s)
    torch.testing.assert_close((got.directions.T @ vh.T).abs(), torch.eye(7).double())
    assert (got.directions.abs().amax(0) == got.directions.amax(0)).all()


def test_effective_rank_by_hand() -> None:
    assert effective_rank(torch.ones(5)) == pytest.approx(5)
    assert effective_rank(torch.tensor([2.0, 0, 0])) == pytest.approx(1)
    # p = 1/2, 1/4, 1/4: H = 1.5 ln 2
    assert effective_rank(torch.tensor([2.0, 1, 1])) == pytest.approx(2**1.5)
    assert effective_rank(spectrum(torch.eye(3)).values) == pytest.approx(3)


@given(rows=st.integers(1, 60), mean=st.sampled_from([0.0, 1.0, 1e6]))
def test_blocks_of_any_size_give_the_spectrum_of_the_whole(rows: int, mean: float) -> None:
    z = features(60, 4, mean=mean)
    with patch("linsep.analysis.features.ROWS", rows):
        torch.testing.assert_close(mean_row(z), z.mean(0))
        for centred, whole in ((True, z - z.mean(0)), (False, z)):
            got, want = spectrum(z, centred=centred), torch.linalg.svdvals(whole)
            largest = float(want[0])
            assert torch.allclose(got.values, want, rtol=1e-6, atol=1e-7 * largest)


@pytest.mark.parametrize("centred", [False, True])
def test_proj_acc_equals_the_direct_computation_at_every_k(centred: bool) -> None:
    z, (w, b) = features(200, 9, mean=2.0), head(5, 9)
    y = (z @ w.T + b + features(200, 5, 3)).argmax(1)
    basis = spectrum(z, centred=centred)
    got = proj_acc(z, y, rule(w, b), basis)
    assert got.shape == (10,)
    for k in range(10):
        assert float(got[k]) == direct(z, y, w, b, basis, k)
    assert float(got[9]) == float(((z @ w.T + b).argmax(1) == y).double().mean())


def test_proj_acc_by_hand() -> None:
    # u_1 = e_2, u_2 = e_1. k=0: bias says class 2; k=1: second feature only; k=2: all.
    z, y = torch.tensor([[3.0, 0.0], [0.0, 4.0]]), torch.tensor([0, 1])
    w, b = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), torch.tensor([0.0, 0.0, 0.5])
    got = proj_acc(z, y, rule(w, b), spectrum(z))
    assert got.tolist() == [0, 0.5, 1]
    seen = proj_acc(z, y, rule(w, b, torch.tensor([True, True, False])), spectrum(z))
    assert seen.tolist() == [0.5, 1, 1]  # a tie goes to class 0


def test_ties_count_as_argmax_does() -> None:
    z, same = torch.zeros(4, 2), rule(torch.ones(3, 2), torch.zeros(3))
    assert proj_acc(z, torch.tensor([0, 1, 2, 0]), same, spectrum(z)).tolist() == [0.5, 0.5, 0.5]
    assert proj_acc(z, torch.tensor([1, 1, 2, 2]), same, spectrum(z)).tolist() == [0, 0, 0]


def test_bad_input_is_refused() -> None:
    z = features(10, 3)
    nan = z.clone()
    nan[4, 1] = torch.nan
    for wrong, message in (
        (lambda: spectrum(nan), "NaN or infinite"),
        (lambda: spectrum(z[:0]), "empty"),
        (lambda: spectrum(z.long()), r"want a float matrix"),
        (lambda: effective_rank(torch.zeros(3)), "all singular values are zero"),
        (lambda: effective_rank(torch.tensor([1.0, -1.0])), "none negative"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
