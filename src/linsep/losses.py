"""Losses as pure functions of tensors. Nothing here knows tasks, memories, nets or parameters."""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

Scale = Literal["root_d", "none"]
Distance = Literal["mse", "squared", "norm"]


def _same_shape(a: Tensor, b: Tensor) -> None:
    if a.shape != b.shape:
        raise ValueError(f"shapes differ: {tuple(a.shape)} and {tuple(b.shape)}")


def feature_match(z: Tensor, z_old: Tensor, scale: Scale = "root_d") -> Tensor:
    """Mean Euclidean distance between rows: E ||z - z_old||_2, by default per root-dimension.

    Eq. 4 of Gu et al. (2023); dividing by sqrt(d) is what the authors' program does (D1).
    """
    _same_shape(z, z_old)
    distance = (z - z_old).norm(dim=1).mean()
    return distance / z.shape[1] ** 0.5 if scale == "root_d" else distance


def logit_match(logits: Tensor, target: Tensor, distance: Distance = "mse") -> Tensor:
    """How far logits are from their target, averaged over rows.

    "mse" is the mean over classes of the squared differences (DER's program and the authors'),
    "squared" their sum (eq. 10 of Gu et al.), "norm" its root (their Algorithm 1; D11).
    """
    _same_shape(logits, target)
    match distance:
        case "mse":
            return F.mse_loss(logits, target)
        case "squared":
            return (logits - target).square().sum(1).mean()
        case "norm":
            return (logits - target).norm(dim=1).mean()
