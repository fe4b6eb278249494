"""Losses as pure functions of tensors. Nothing here knows tasks, memories, nets or parameters.

Where classes are named, the others take no part: a head may be wider than what has been seen.
"""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Scale = Literal["root_d", "none"]
Distance = Literal["mse", "squared", "norm"]


def _same_shape(a: Tensor, b: Tensor) -> None:
    if a.shape != b.shape:
        raise ValueError(f"shapes differ: {tuple(a.shape)} and {tuple(b.shape)}")


def _rows_of(logits: Tensor, y: Tensor) -> None:
    if logits.ndim != 2 or y.shape != logits.shape[:1]:
        raise ValueError(f"need (n, classes) and (n,), not {tuple(logits.shape)} and {y.shape}")


# --- features ------------------------------------------------------------------------------------


def feature_match(z: Tensor, z_old: Tensor, scale: Scale = "root_d") -> Tensor:
    """Mean Euclidean distance between rows: E ||z - z_old||_2, by default per root-dimension.

    Eq. 4 of Gu et al. (2023); dividing by sqrt(d) is what the authors' program does (D1).
    """
    _same_shape(z, z_old)
    distance = (z - z_old).norm(dim=1).mean()
    return distance / z.shape[1] ** 0.5 if scale == "root_d" else distance


def less_forget(z: Tensor, z_old: Tensor) -> Tensor:
    """E [1 - cos(z, z_old)]: features may change their length but not their direction.

    Hou et al. (2019), LUCIR.
    """
    _same_shape(z, z_old)
    return (1 - F.cosine_similarity(z, z_old, dim=1)).mean()


def margin_ranking(
    cosines: Tensor, y: Tensor, rivals: Sequence[int], *, nearest: int, margin: float
) -> Tensor:
    """E max(margin - cos_y + cos_k, 0), the mean over rows and over the nearest rivals k of each.

    Hou et al. (2019), LUCIR: rows are of old classes, their rivals are the new ones.
    """
    _rows_of(cosines, y)
    own = cosines.gather(1, y[:, None])  # (n, 1)
    hardest = cosines[:, list(rivals)].topk(min(nearest, len(rivals)), dim=1).values  # (n, K)
    return (margin - own + hardest).clamp(min=0).mean()


# --- labels --------------------------------------------------------------------------------------


def cross_entropy_among(logits: Tensor, y: Tensor, classes: Sequence[int]) -> Tensor:
    """Cross-entropy of a softmax over the named classes; the others do not compete."""
    _rows_of(logits, y)
    return F.cross_entropy(logits.masked_fill(~_named(classes, logits), -torch.inf), y)


def asymmetric_ce(logits: Tensor, y: Tensor, seen: Sequence[int]) -> Tensor:
    """Cross-entropy among the classes in `y` and those not in `seen`.

    Caccia et al. (2022), ER-ACE: new data do not push down what is absent from the batch.
    """
    _rows_of(logits, y)
    absent = _named(seen, logits)
    absent[y] = False
    return F.cross_entropy(logits.masked_fill(absent, -torch.inf), y)


def decoupled_ce(
    logits: Tensor, y: Tensor, old: Sequence[int], new: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Cross-entropy among old and new classes as a sum: new against old ones, and the rest.

    With S the sum of exp(logits) over both and N over the new ones, log S/N and log N - logits_y
    for a row of a new class: Liang and Li (2023), LODE. A row of an old class has its whole
    cross-entropy in the second part.
    """
    _rows_of(logits, y)
    past, fresh = _named(old, logits), _named(new, logits)
    both = logits.masked_fill(~(past | fresh), -torch.inf).logsumexp(1)  # log S
    among = torch.where(past[y], both, logits.masked_fill(~fresh, -torch.inf).logsumexp(1))
    own = logits.gather(1, y[:, None])[:, 0]
    return (both - among).mean(), (among - own).mean()


def distilled_bce(
    logits: Tensor, y: Tensor, seen: Sequence[int], old: Tensor | None, earlier: Sequence[int]
) -> Tensor:
    """Binary cross-entropies over `seen`: towards sigmoid(old) on `earlier`, else towards one-hot.

    Algorithm 3 of Rebuffi et al. (2017), iCaRL, as a mean over rows and classes.
    """
    _rows_of(logits, y)
    target = F.one_hot(y, logits.shape[1]).to(logits.dtype)
    if old is not None:
        _same_shape(logits, old)
        target[:, list(earlier)] = old[:, list(earlier)].sigmoid().to(logits.dtype)
    return F.binary_cross_entropy_with_logits(logits[:, list(seen)], target[:, list(seen)])


# --- outputs that were ---------------------------------------------------------------------------


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


def probability_match(logits: Tensor, target: Tensor) -> Tensor:
    """E ||softmax(logits) - softmax(target)||_2: Benjamin et al. (2019), FDR."""
    _same_shape(logits, target)
    return (logits.softmax(1) - target.softmax(1)).norm(dim=1).mean()


def divergence(logits: Tensor, target: Tensor) -> Tensor:
    """KL(p || softmax(logits)) of each row, for probabilities p, the target."""
    _same_shape(logits, target)
    return F.kl_div(logits.log_softmax(1), target, reduction="none").sum(1)


def soft_cross_entropy(
    logits: Tensor, old: Tensor, classes: Sequence[int], temperature: float
) -> Tensor:
    """-E sum_c p_c log q_c with p, q = softmax(old / T), softmax(logits / T) over the classes.

    Li and Hoiem (2016), LwF; Wu et al. (2019), BiC.
    """
    _same_shape(logits, old)
    columns = list(classes)
    p = (old[:, columns] / temperature).softmax(1)
    return -(p * (logits[:, columns] / temperature).log_softmax(1)).sum(1).mean()


# --- parameters ----------------------------------------------------------------------------------


def anchored(theta: Tensor, anchor: Tensor, importance: Tensor) -> Tensor:
    """sum_k importance_k (theta_k - anchor_k)^2: eq. 4 of Zenke et al. (2017), SI."""
    _same_shape(theta, anchor)
    _same_shape(theta, importance)
    return (importance * (theta - anchor).square()).sum()


def _named(classes: Sequence[int], logits: Tensor) -> Tensor:
    mask = torch.zeros(logits.shape[1], dtype=torch.bool, device=logits.device)
    mask[list(classes)] = True
    return mask
