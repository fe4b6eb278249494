"""Feature matrices in blocks of rows, and checks of them, of labels and of linear heads.

Arithmetic on features is done in float64 on the host, a block of rows at a time, so that it needs
O(d^2) memory whatever the number of rows.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

ROWS = 4096  # rows turned to float64 at a time


def double(x: Tensor) -> Tensor:
    """Return the tensor on the host, in float64 unless it holds integers."""
    return x.detach().to("cpu", torch.float64 if x.is_floating_point() else torch.int64)


def blocks(*tensors: Tensor) -> Iterator[list[Tensor]]:
    """The same rows of each, block by block, as `double`."""
    for parts in zip(*(torch.split(x, ROWS) for x in tensors), strict=True):
        yield list(map(double, parts))


def mean_row(z: Tensor) -> Tensor:
    """Return the mean of the rows, (d,) float64."""
    return torch.stack([len(b) / len(z) * b.mean(0) for (b,) in blocks(z)]).sum(0)


def six_digits(values: Tensor) -> list[float]:
    """Round to six digits: enough for figures and tables, at half the size."""
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


def checked_head(
    z: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None, allowed: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """A head that fits these rows: (C, d), (C,) and what to add to logits, (n, C), in float64.

    `allowed` is (C,) for Class-IL (the classes seen) or (n, C) for Task-IL (each row's own task's);
    the logits of other classes become -inf, so that they are never predicted.
    """
    check_features(z)
    check_labels(y, len(z))
    check_features(weight, "head weight")
    classes, width = weight.shape
    if width != z.shape[1]:
        raise ValueError(f"head weight: reads {width} features, there are {z.shape[1]}")
    bias = torch.zeros(classes) if bias is None else bias
    if bias.shape != (classes,) or not bias.isfinite().all():
        raise ValueError(f"head bias: want {classes} finite numbers, got {tuple(bias.shape)}")
    if int(y.max()) >= classes:
        raise ValueError(f"labels: {int(y.max())} is beyond the head's {classes} classes")
    allowed = torch.ones(classes, dtype=torch.bool) if allowed is None else allowed.cpu()
    if allowed.dtype != torch.bool or allowed.shape not in {(classes,), (len(z), classes)}:
        raise ValueError(
            f"allowed: want booleans ({classes},) or ({len(z)}, {classes}), "
            f"got {allowed.dtype} {tuple(allowed.shape)}"
        )
    if not allowed.any(-1).all():
        raise ValueError("allowed: a row has no class to choose from")
    barred = torch.zeros(allowed.shape, dtype=torch.float64).masked_fill(~allowed, -torch.inf)
    return double(weight), double(bias), barred.expand(len(z), -1)
