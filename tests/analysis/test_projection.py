"""What A learned: exact cases."""

import pytest
import torch
from torch import Tensor

from linsep.analysis.drift import describe_map, old_head_on_projected
from linsep.analysis.features import Rule


def normal(*shape: int, seed: int) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=g, dtype=torch.float64)


def test_identity_rotation_scale_and_zero() -> None:
    eye = torch.eye(4)
    got = describe_map(eye)
    assert (got["to_identity"], got["to_orthogonal"]) == (0, 0)
    assert got["effective_rank"] == pytest.approx(4)
    turned = describe_map(torch.linalg.qr(normal(4, 4, seed=0))[0])
    assert turned["to_orthogonal"] == pytest.approx(0, abs=1e-12)
    assert turned["to_identity"] > 0.1
    assert describe_map(3 * eye)["to_orthogonal"] == pytest.approx(2)
    zero = describe_map(0 * eye)
    assert (zero["to_identity"], zero["to_orthogonal"], zero["effective_rank"]) == (1, 1, 0)


def test_nearest_orthogonal_is_not_beaten() -> None:
    a = normal(5, 5, seed=1)
    got = describe_map(a)
    u, s, vh = torch.linalg.svd(a)
    torch.testing.assert_close(got["singular_values"], s)
    assert got["to_orthogonal"] == pytest.approx(float((a - u @ vh).norm()) / 5**0.5)
    for seed in range(20):
        q = torch.linalg.qr(normal(5, 5, seed=seed + 2))[0]
        assert got["to_orthogonal"] <= float((a - q).norm()) / 5**0.5


def test_old_separators_survive_when_the_old_features_are_affine_in_the_new() -> None:
    z_old, w, b = normal(300, 6, seed=0), normal(4, 6, seed=1), normal(4, seed=2)
    y = (z_old @ w.T + b + 0.5 * normal(300, 4, seed=3)).argmax(1)
    mix = normal(6, 6, seed=4)
    z = (z_old - 0.7) @ torch.linalg.inv(mix).T  # so z_old = mix z + 0.7
    old = Rule(w, b, torch.ones(4, dtype=torch.bool))
    got = old_head_on_projected(z, z_old, y, mix, torch.full((6,), 0.7).double(), old)
    assert got["residual"] == pytest.approx(0, abs=1e-12)
    assert got["agreement"] == 1
    assert got["accuracy"] == got["accuracy_before"]
    assert got["accuracy"] == float(((z_old @ w.T + b).argmax(1) == y).double().mean())
    lost = old_head_on_projected(z, z_old, y, 0 * mix, z_old.mean(0), old)
    assert lost["residual"] == pytest.approx(1)
    assert lost["accuracy"] < got["accuracy"]


def test_by_hand_with_allowed_classes_and_another_width() -> None:
    z, z_old = torch.tensor([[1.0], [-1.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    a = torch.tensor([[1.0], [-1.0]])  # back: (1, -1) right, (-1, 1) taken by class 2
    w, y = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 5.0]]), torch.tensor([0, 1])
    every, seen = torch.tensor([True, True, True]), torch.tensor([True, True, False])
    got = old_head_on_projected(z, z_old, y, a, torch.zeros(2), Rule(w, torch.zeros(3), every))
    assert (got["accuracy"], got["accuracy_before"], got["agreement"]) == (0.5, 0.5, 1)
    assert got["residual"] == pytest.approx(2)  # 1 + 1 over 4 * 0.25
    got = old_head_on_projected(z, z_old, y, a, torch.zeros(2), Rule(w, torch.zeros(3), seen))
    assert (got["accuracy"], got["accuracy_before"], got["agreement"]) == (1, 1, 1)


def test_bad_input_is_refused() -> None:
    z, y, eye = normal(10, 3, seed=0), torch.arange(10) % 2, torch.eye(3).double()
    old = Rule(normal(2, 3, seed=1), torch.zeros(2), torch.ones(2, dtype=torch.bool))
    with pytest.raises(ValueError, match="square"):
        describe_map(z)
    with pytest.raises(ValueError, match="NaN"):
        describe_map(eye / 0)
    with pytest.raises(ValueError, match="nothing to recover"):
        old_head_on_projected(z, z * 0, y, eye, eye[0] * 0, old)
