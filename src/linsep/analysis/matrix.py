"""Feature matrices in blocks of rows, and checks of them, of labels and of linear heads.

Arithmetic on features is done in float64 on the host, a block of rows at a time, so that it needs
O(d^2) memory whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

ROWS = 4096  # rows turned to float64 at a time


def blocks(*matrices: Tensor) -> Iterator[list[Tensor]]:
    """The same rows of each matrix, block by block, as float64."""
    for parts in zip(*(torch.split(z, ROWS) for z in matrices), strict=True):
        yield [part.detach().to("cpu", torch.float64) for part in parts]


def mean_row(z: Tensor) -> Tensor:
    """(d,) float64."""
    return torch.stack([len(b) / len(z) * b.mean(0) for (b,) in blocks(z)]).sum(0)


def six_digits(values: Tensor) -> list[float]:
    """What figures and tables need, at half the size of all digits."""
    return [float(f"{v:.6g}") for v in values.tolist()]


def check_features(z: Tensor, name: str = "features") -> None:
    """Refuse what is not a non-empty matrix of finite numbers."""
    if z.ndim != 2 or not z.is_floating_point():
        raise ValueError(f"{name}: want a float matrix (n, d), got {z.dtype} {tuple(z.shape)}")
    if z.numel() == 0:
        raise ValueError(f"{name}: the matrix is empty, {tuple(z.shape)}")
    for rows in torch.split(z, ROWS):
        if not rows.isfinite().all():
            raise ValueError(f"{name}: there are NaN or infinite values")


def check_labels(y: Tensor, n: int, name: str = "labels") -> None:
    """Refuse what is not n whole numbers from 0 on."""
    if y.shape != (n,) or y.is_floating_point() or y.dtype == torch.bool:
        raise ValueError(f"{name}: want {n} integers, got {y.dtype} {tuple(y.shape)}")
    if int(y.min()) < 0:
        raise ValueError(f"{name}: {int(y.min())} is not a class; classes count from 0")


def check_head(weight: Tensor, bias: Tensor | None, width: int, y: Tensor) -> None:
    """Refuse a head that does not read `width` features or does not know a label."""
    check_features(weight, "head weight")
    classes = len(weight)
    if weight.shape[1] != width:
        raise ValueError(f"head weight: reads {weight.shape[1]} features, there are {width}")
    if bias is not None and (bias.shape != (classes,) or not bias.isfinite().all()):
        raise ValueError(f"head bias: want {classes} finite numbers, got {tuple(bias.shape)}")
    if int(y.max()) >= classes:
        raise ValueError(f"labels: {int(y.max())} is beyond the head's {classes} classes")


def head_in_double(weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """(C, d) and (C,); without a bias, zeros."""
    w = weight.detach().to("cpu", torch.float64)
    return w, w.new_zeros(len(w)) if bias is None else bias.detach().to("cpu", torch.float64)


def allowed_logits(allowed: Tensor | None, rows: int, classes: int) -> Tensor:
    """What to add to logits so that other classes are never predicted: (1 or n, C) of 0 and -inf.

    `allowed` is (C,) for Class-IL (the classes seen) or (n, C) for Task-IL (each row's own task's).
    """
    if allowed is None:
        return torch.zeros(1, classes, dtype=torch.float64)
    if allowed.dtype != torch.bool or allowed.shape not in {(classes,), (rows, classes)}:
        raise ValueError(
            f"allowed: want booleans ({classes},) or ({rows}, {classes}), "
            f"got {allowed.dtype} {tuple(allowed.shape)}"
        )
    table = allowed.cpu().reshape(-1, classes)
    if not table.any(1).all():
        raise ValueError("allowed: a row has no class to choose from")
    return torch.zeros(table.shape, dtype=torch.float64).masked_fill(~table, -torch.inf)
