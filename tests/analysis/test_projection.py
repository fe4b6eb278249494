"""What A learned: exact cases."""

import pytest
import torch
from torch import Tensor

from linsep.analysis.projection import describe_projection, old_head_on_projected


def normal(*shape: int, seed: int) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=g, dtype=torch.float64)


def test_identity_rotation_scale_and_zero() -> None:
    eye = torch.eye(4)
    got = describe_projection(eye)
    assert (got.to_identity, got.to_orthogonal) == (0, 0)
    assert got.effective_rank == pytest.approx(4)
    turned = describe_projection(torch.linalg.qr(normal(4, 4, seed=0))[0])
    assert turned.to_orthogonal == pytest.approx(0, abs=1e-12)
    assert turned.to_identity > 0.1
    assert describe_projection(3 * eye).to_orthogonal == pytest.approx(2)
    zero = describe_projection(0 * eye)
    assert (zero.to_identity, zero.to_orthogonal, zero.effective_rank) == (1, 1, 0)


def test_nearest_orthogonal_is_not_beaten() -> None:
    a = normal(5, 5, seed=1)
    got = describe_projection(a)
    u, s, vh = torch.linalg.svd(a)
    torch.testing.assert_close(got.singular_values, s)
    assert got.to_orthogonal == pytest.approx(float((a - u @ vh).norm()) / 5**0.5)
    for seed in range(20):
        q = torch.linalg.qr(normal(5, 5, seed=seed + 2))[0]
        assert got.to_orthogonal <= float((a - q).norm()) / 5**0.5


def test_old_separators_survive_when_the_old_features_are_affine_in_the_new() -> None:
    z_old, w, b = normal(300, 6, seed=0), normal(4, 6, seed=1), normal(4, seed=2)
    y = (z_old @ w.T + b + 0.5 * normal(300, 4, seed=3)).argmax(1)
    mix = normal(6, 6, seed=4)
    z = (z_old - 0.7) @ torch.linalg.inv(mix).T  # so z_old = mix z + 0.7
    got = old_head_on_projected(z, z_old, y, mix, torch.full((6,), 0.7, dtype=torch.float64), w, b)
    assert got.residual == pytest.approx(0, abs=1e-12)
    assert got.agreement == 1
    assert got.accuracy == got.accuracy_before
    assert got.accuracy == float(((z_old @ w.T + b).argmax(1) == y).double().mean())
    lost = old_head_on_projected(z, z_old, y, 0 * mix, z_old.mean(0), w, b)
    assert lost.residual == pytest.approx(1)
    assert lost.accuracy < got.accuracy


def test_by_hand_with_allowed_classes_and_another_width() -> None:
    z, z_old = torch.tensor([[1.0], [-1.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    a = torch.tensor([[1.0], [-1.0]])  # back: (1, -1) right, (-1, 1) taken by class 2
    w, y = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 5.0]]), torch.tensor([0, 1])
    got = old_head_on_projected(z, z_old, y, a, None, w, None)
    assert (got.accuracy, got.accuracy_before, got.agreement) == (0.5, 0.5, 1)
    assert got.residual == pytest.approx(2)  # 1 + 1 over 4 * 0.25
    seen = torch.tensor([True, True, False])
    got = old_head_on_projected(z, z_old, y, a, None, w, None, allowed=seen)
    assert (got.accuracy, got.accuracy_before, got.agreement) == (1, 1, 1)


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    z, z_old, a, w = (normal(*s, seed=i) for i, s in enumerate(((50, 3), (50, 4), (4, 3), (5, 4))))
    y = torch.arange(50) % 5
    whole = old_head_on_projected(z, z_old, y, a, None, w, None)
    monkeypatch.setattr("linsep.analysis.matrix.ROWS", 7)
    parts = old_head_on_projected(z, z_old, y, a, None, w, None)
    assert parts.residual == pytest.approx(whole.residual)
    assert parts.accuracy == whole.accuracy


def test_bad_input_is_refused() -> None:
    z, y, w = normal(10, 3, seed=0), torch.arange(10) % 2, normal(2, 3, seed=1)
    eye = torch.eye(3).double()
    for wrong, message in (
        (lambda: describe_projection(z), "square"),
        (lambda: describe_projection(eye / 0), "NaN"),
        (lambda: old_head_on_projected(z, z[:9], y, eye, None, w, None), "10 rows of new"),
        (lambda: old_head_on_projected(z, z, y, eye[:2], None, w, None), r"want \(3, 3\)"),
        (lambda: old_head_on_projected(z, z, y, eye, z[0, :2], w, None), "offset: want 3"),
        (lambda: old_head_on_projected(z, z, y, eye, None, w[:, :2], None), "reads 2 features"),
        (lambda: old_head_on_projected(z, z * 0, y, eye, None, w, None), "nothing to recover"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
