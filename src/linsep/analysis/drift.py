"""What the backward projection z' = A z + a learned (section 3.3).

Knows a matrix, feature matrices, labels and a linear head's weights. Knows nothing of runs, files,
nets or how A was trained.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .spectrum import ROWS, allowed_logits, check_features, check_head, check_labels, effective_rank


@dataclass(frozen=True, eq=False)
class Projection:
    """The shape of A. Distances are Frobenius norms over sqrt(d), so that A = 0 is 1 from both."""

    singular_values: Tensor  # (d,) largest first
    effective_rank: float  # 0 for A = 0
    to_identity: float  # ||A - I||: 0 means plain feature distillation
    to_orthogonal: float  # ||A - Q|| for the nearest orthogonal Q: 0 means a rotation


def describe_projection(a: Tensor) -> Projection:
    """With A = U S V^T the nearest orthogonal matrix is U V^T, at distance ||S - I||."""
    check_features(a, "projection")
    if a.shape[0] != a.shape[1]:
        raise ValueError(f"projection: want a square matrix, got {tuple(a.shape)}")
    a = a.detach().to("cpu", torch.float64)
    values = torch.linalg.svdvals(a)
    size = len(a) ** 0.5
    return Projection(
        singular_values=values,
        effective_rank=effective_rank(values) if float(values[0]) > 0 else 0.0,
        to_identity=float((a - torch.eye(len(a), dtype=a.dtype)).norm()) / size,
        to_orthogonal=float((values - 1).norm()) / size,
    )


@dataclass(frozen=True)
class OldHead:
    """How the old head g' does when the new features are projected back. Shares in [0, 1]."""

    accuracy: float  # of g'(A h(x) + a)
    accuracy_before: float  # of g'(h'(x)), what there was to keep
    agreement: float  # rows on which the two decide alike
    residual: float  # sum |A z + a - z'|^2 / sum |z' - mean z'|^2: 0 is perfect, 1 is the mean


def old_head_on_projected(
    z: Tensor,
    z_old: Tensor,
    y: Tensor,
    a: Tensor,
    offset: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    *,
    allowed: Tensor | None = None,
) -> OldHead:
    """Equations 5 and 6: do the old separators w survive as A^T w?

    `z` are the new net's features (n, d) and `z_old` the old net's (n, d') of the same rows, A is
    (d', d), and `weight`, `bias` are the old head's. `allowed` is as in `spectrum.proj_acc`: give
    the classes the old head knew.
    """
    for matrix, name in ((z, "new features"), (z_old, "old features"), (a, "projection")):
        check_features(matrix, name)
    check_labels(y, len(z))
    if len(z_old) != len(z):
        raise ValueError(f"there are {len(z)} rows of new features and {len(z_old)} of old ones")
    if a.shape != (z_old.shape[1], z.shape[1]):
        raise ValueError(
            f"projection: want ({z_old.shape[1]}, {z.shape[1]}) to map new features to old ones, "
            f"got {tuple(a.shape)}"
        )
    if offset is not None and offset.shape != (len(a),):
        raise ValueError(f"offset: want {len(a)} numbers, got {tuple(offset.shape)}")
    check_head(weight, bias, len(a), y)
    mask = allowed_logits(allowed, len(z), len(weight)).expand(len(z), -1)
    matrix, w = (t.detach().to("cpu", torch.float64) for t in (a, weight))
    shift, b = (
        torch.zeros(k, dtype=torch.float64) if t is None else t.detach().to("cpu", torch.float64)
        for t, k in ((offset, len(a)), (bias, len(weight)))
    )
    mean = z_old.detach().cpu().mean(0, dtype=torch.float64)
    sums = torch.zeros(5, dtype=torch.float64)
    for rows in torch.split(torch.arange(len(z)), ROWS):
        new, old = (t[rows.to(t.device)].detach().to("cpu", torch.float64) for t in (z, z_old))
        back, labels = new @ matrix.T + shift, y.cpu()[rows]
        now, then = ((t @ w.T + b + mask[rows]).argmax(1) for t in (back, old))
        right = [(now == labels).sum(), (then == labels).sum(), (now == then).sum()]
        sums += torch.stack([*right, (back - old).square().sum(), (old - mean).square().sum()])
    if float(sums[4]) == 0:
        raise ValueError("old features: the same in every row, so there is nothing to recover")
    accuracy, before, agreement = (sums[:3] / len(z)).tolist()
    return OldHead(accuracy, before, agreement, float(sums[3] / sums[4]))
