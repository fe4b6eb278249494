"""Embeddings: shared axes, determinism, PCA by hand; t-SNE where something installed makes it."""

from typing import get_args

import pytest
import torch
from torch import Tensor

from linsep.analysis.similarity import Engine, embed, principal_components

MODULES = {"opentsne": "openTSNE", "sklearn": "sklearn"}


def clusters(seed: int, n: int = 60) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, 8, generator=g) + 20 * (torch.arange(n) % 3)[:, None] * torch.ones(8)


@pytest.mark.parametrize("engine", get_args(Engine))
def test_same_axes_determinism_and_neighbourhoods(engine: Engine) -> None:
    if engine != "pca":
        pytest.importorskip(MODULES[engine])
    before, after = clusters(0), clusters(1, 30)
    got = embed([before, after], engine=engine, seed=3)
    again = embed([before, after], engine=engine, seed=3)
    assert got.engine == engine
    assert [tuple(p.shape) for p in got.points] == [(60, 2), (30, 2)]
    for a, b in zip(got.points, again.points, strict=True):
        assert torch.equal(a, b)
        assert a.isfinite().all()
    # a row of `after` lies nearest to a row of the same cluster in `before`
    nearest = torch.cdist(got.points[1], got.points[0]).argmin(1)
    assert torch.equal(nearest % 3, torch.arange(30) % 3)


def test_pca_by_hand() -> None:
    z = torch.tensor([[0.0, 1.0], [0.0, -1.0], [5.0, 0.0], [-5.0, 0.0]]) + 7
    got = principal_components(z, 2)
    want = torch.tensor([[0.0, 1.0], [0.0, -1.0], [5.0, 0.0], [-5.0, 0.0]]).double()
    torch.testing.assert_close(got, want)
    points = embed([z[:2], z[2:]], engine="pca").points
    torch.testing.assert_close(torch.cat(points).double(), want)


def test_too_little_to_embed_falls_back_to_pca() -> None:
    assert embed([torch.eye(3)], engine="sklearn").engine == "pca"
    same = embed([torch.ones(9, 1), torch.ones(4, 1)], engine="sklearn")
    assert same.engine == "pca"
    assert float(torch.cat(same.points).abs().max()) == 0


def test_bad_input_is_refused() -> None:
    z = clusters(0)
    with pytest.raises(ValueError, match="features 1: the matrix is empty"):
        embed([z, z[:0]], engine="pca")
    with pytest.raises(ValueError, match="want one of"):
        embed([z], engine="umap")  # type: ignore[arg-type]
