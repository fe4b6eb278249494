"""How many directions the features fill, and how many of them the head needs (section 3.2).

Knows feature matrices, labels and a linear head's weights. Knows nothing of runs, files or nets.
Sums are kept in float64 on the host and taken over blocks of rows, so memory is O(d^2) whatever n.
Singular values are square roots of the Gram matrix's eigenvalues: below about 1e-8 of the largest
one they are rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

ROWS = 4096  # rows turned to float64 at a time


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


class Moments:
    """Count, mean and centred scatter of rows that arrive in blocks, in float64.

    Blocks are joined by the pairwise update (Chan, Golub and LeVeque 1983), so a large mean does
    not eat the digits of a small variance.
    """

    def __init__(self, width: int) -> None:
        if width < 1:
            raise ValueError(f"want at least one feature, got {width}")
        self.count = 0
        self.mean = torch.zeros(width, dtype=torch.float64)  # (d,)
        self.scatter = torch.zeros(width, width, dtype=torch.float64)  # (d, d), about the mean

    @classmethod
    def of(cls, z: Tensor) -> Moments:
        check_features(z)
        moments = cls(z.shape[1])
        moments.add(z)
        return moments

    @property
    def width(self) -> int:
        return len(self.mean)

    def add(self, z: Tensor) -> None:
        check_features(z)
        for rows in torch.split(z, ROWS):
            block = rows.detach().to("cpu", torch.float64)  # (r, d)
            mean = block.mean(0)
            block = block - mean
            self._join(len(block), mean, block.T @ block)

    def _join(self, count: int, mean: Tensor, scatter: Tensor) -> None:
        if len(mean) != self.width:
            raise ValueError(f"rows have {len(mean)} features, earlier ones {self.width}")
        total = self.count + count
        shift = mean - self.mean
        self.scatter += scatter + torch.outer(shift, shift) * (self.count * count / total)
        self.mean += shift * (count / total)
        self.count = total

    def products(self, centred: bool) -> Tensor:
        """Z^T Z of all rows so far, with their mean taken off or not: (d, d)."""
        if self.count == 0:
            raise ValueError("no rows were added yet")
        if centred:
            return self.scatter.clone()
        return self.scatter + self.count * torch.outer(self.mean, self.mean)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Singular values and principal directions of a feature matrix, largest first."""

    values: Tensor  # (d,) s_l; values^2 / count are variances when centred
    directions: Tensor  # (d, d), column l is u_l
    centre: Tensor  # (d,) the mean, or zeros when not centred
    count: int

    @property
    def relative(self) -> Tensor:
        """As a share of the largest: the lower row of figure 2."""
        return self.values / self.values[0] if self.values[0] > 0 else self.values

    @property
    def effective_rank(self) -> float:
        return effective_rank(self.values)


def spectrum(moments: Moments, *, centred: bool = False) -> Spectrum:
    """Z = U S V^T by the eigenvectors of Z Z^T.

    Not centred, as in the text; the authors' program centres (D17). Each u_l is signed so
    that its largest entry is positive.
    """
    squares, vectors = torch.linalg.eigh(moments.products(centred))  # ascending
    vectors = vectors.flip(1)
    peak = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))  # (1, d)
    centre = moments.mean.clone() if centred else torch.zeros_like(moments.mean)
    return Spectrum(
        squares.flip(0).clamp(min=0).sqrt(), vectors * peak.sign(), centre, moments.count
    )


def effective_rank(values: Tensor) -> float:
    """exp(H(p)) with p_l = s_l / sum(s) and H in nats (Roy and Vetterli 2007).

    r equal singular values give r; values, not their squares, are normalised.
    """
    if values.ndim != 1 or not values.isfinite().all() or bool((values < 0).any()):
        raise ValueError("singular values must be a vector of finite numbers, none negative")
    if len(values) == 0 or float(values.sum()) == 0:
        raise ValueError("all singular values are zero: the rank's entropy is undefined")
    share = values.double() / values.double().sum()
    return float(torch.special.entr(share).sum().exp())


@dataclass(frozen=True, eq=False)
class ProjAcc:
    """proj-acc(k) at index k, for k = 0..d: entry 0 sees no direction, entry d is the accuracy."""

    accuracy: Tensor  # (d + 1,) shares in [0, 1]

    @property
    def relative(self) -> Tensor:
        """As a share of the curve's maximum (figure 2, below); zeros if nothing is ever right."""
        return self.accuracy / self.accuracy.max().clamp(min=1e-300)


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


def check_head(weight: Tensor, bias: Tensor | None, width: int, y: Tensor) -> None:
    check_features(weight, "head weight")
    classes = len(weight)
    if weight.shape[1] != width:
        raise ValueError(f"head weight: reads {weight.shape[1]} features, there are {width}")
    if bias is not None and (bias.shape != (classes,) or not bias.isfinite().all()):
        raise ValueError(f"head bias: want {classes} finite numbers, got {tuple(bias.shape)}")
    if int(y.max()) >= classes:
        raise ValueError(f"labels: {int(y.max())} is beyond the head's {classes} classes")


def proj_acc(
    z: Tensor,
    y: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    basis: Spectrum,
    *,
    allowed: Tensor | None = None,
) -> ProjAcc:
    """Equation 1, acc(y, g(U_1:k U_1:k^T z)), for every k in one pass.

    Projecting on one more direction adds one outer product to the logits:
    logits_k = logits_(k-1) + (u_k^T (z - m)) W u_k, from logits_0 = W m + b, where m is the basis's
    centre (zero unless centred). Ties go to the first class, as in argmax.
    """
    check_features(z)
    check_labels(y, len(z))
    check_head(weight, bias, z.shape[1], y)
    if z.shape[1] != len(basis.centre):
        raise ValueError(f"features have {z.shape[1]} columns, the basis {len(basis.centre)}")
    w = weight.detach().to("cpu", torch.float64)  # (C, d)
    start = w @ basis.centre  # (C,)
    if bias is not None:
        start += bias.detach().to("cpu", torch.float64)
    steps = w @ basis.directions  # (C, d), column k is W u_k
    table = (start + allowed_logits(allowed, len(z), len(w))).expand(len(z), -1)  # (n, C)
    right = torch.zeros(z.shape[1] + 1, dtype=torch.int64)
    for rows in torch.split(torch.arange(len(z)), ROWS):
        block = z[rows.to(z.device)].detach().to("cpu", torch.float64) - basis.centre
        along = (block @ basis.directions).T.contiguous()  # (d, r)
        logits, labels = table[rows].T.contiguous(), y.cpu()[rows].long()  # (C, r), (r,)
        right[0] += _count_right(logits, labels)
        for k in range(len(along)):
            logits.addcmul_(steps[:, k, None], along[k])
            right[k + 1] += _count_right(logits, labels)
    return ProjAcc(right.double() / len(z))


def _count_right(logits: Tensor, y: Tensor) -> int:
    """Columns of (C, r) whose first largest entry is at y; argmax itself is slow on few rows."""
    best = logits.amax(0)  # (r,)
    if int((logits == best).sum()) > len(y):  # ties
        return int((logits.argmax(0) == y).sum())
    return int((logits.gather(0, y[None])[0] == best).sum())
