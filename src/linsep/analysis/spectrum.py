"""How many directions the features fill, and how many of them the head needs (section 3.2).

After each task: singular values of the features of the training images seen so far, their
effective rank, and proj-acc(k) on test images for every k. Singular values are square roots of the
Gram matrix's eigenvalues: below about 1e-8 of the largest one they are rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .analyse import Analysis, Content, Row
from .features import Features, Rule, blocks, check_features, double, mean_row, six_digits


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Singular values and principal directions of a feature matrix, largest first."""

    values: Tensor  # (d,) s_l; values^2 / n are variances when centred
    directions: Tensor  # (d, d), column l is u_l
    centre: Tensor  # (d,) the mean, or zeros when not centred


def spectrum(z: Tensor, *, centred: bool = False) -> Spectrum:
    """Z = U S V^T by the eigenvectors of Z Z^T.

    Not centred, as in the text; the authors' program centres (D17). The Gram matrix is summed about
    the mean, so that a large mean does not eat the digits of a small variance. Each u_l is signed
    so that its largest entry is positive.
    """
    check_features(z)
    mean = mean_row(z)
    products = mean.new_zeros(len(mean), len(mean))  # (d, d)
    for (block,) in blocks(z):
        products += (block - mean).T @ (block - mean)
    if not centred:
        products += len(z) * torch.outer(mean, mean)
    squares, vectors = torch.linalg.eigh(products)  # ascending
    vectors = vectors.flip(1)
    peak = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))  # (1, d)
    values = squares.flip(0).clamp(min=0).sqrt()
    return Spectrum(values, vectors * peak.sign(), mean if centred else torch.zeros_like(mean))


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


def proj_acc(z: Tensor, y: Tensor, rule: Rule, basis: Spectrum) -> Tensor:
    """Equation 1, acc(y, g(U_1:k U_1:k^T z)), for k = 0..d in one pass: (d + 1,).

    Projecting on one more direction adds one outer product to the logits:
    logits_k = logits_(k-1) + (u_k^T (z - m)) W u_k, from logits_0 = W m + b, where m is the basis's
    centre (zero unless centred). Ties go to the first class, as in argmax.
    """
    check_features(z)
    steps = double(rule.weight) @ basis.directions  # (C, d), column k is W u_k
    start = rule.scores(basis.centre[None]).T  # (C, 1)
    right = torch.zeros(z.shape[1] + 1, dtype=torch.int64)
    for block, labels in blocks(z, y):
        along = ((block - basis.centre) @ basis.directions).T.contiguous()  # (d, r)
        logits = start.repeat(1, len(block))  # (C, r)
        right[0] += _count_right(logits, labels)
        for k in range(len(along)):
            logits.addcmul_(steps[:, k, None], along[k])
            right[k + 1] += _count_right(logits, labels)
    return right.double() / len(z)


def _count_right(logits: Tensor, y: Tensor) -> int:
    """Columns of (C, r) whose first largest entry is at y; argmax itself is slow on few rows."""
    best = logits.amax(0)  # (r,)
    if int((logits == best).sum()) > len(y):  # ties
        return int((logits.argmax(0) == y).sum())
    return int((logits.gather(0, y[None])[0] == best).sum())


# --- of a run ------------------------------------------------------------------------------------


def make(run: Features, *, centred: bool = False) -> Content:
    """Directions from the training images seen so far; proj-acc on test images."""
    tasks = []
    for end in run.ends:
        seen, _ = run.of_tasks(end, "train", 0, end.task + 1)
        basis, rule = spectrum(seen, centred=centred), run.rule(end)
        curves = [
            six_digits(proj_acc(*run.of_tasks(end, "test", first, end.task + 1), rule, basis))
            for first in (0, end.task)
        ]
        tasks.append(
            {
                "task": end.task,
                "classes": int(run.at(end).seen.sum()),
                "rows": len(seen),
                "values": six_digits(basis.values),
                "effective_rank": effective_rank(basis.values),
                "proj_acc": {"seen": curves[0], "newest": curves[1]},
            }
        )
    return {"tasks": tasks}


def rows(found: Content) -> Iterator[Row]:
    for task in found["tasks"]:
        curves = {"newest task": task["proj_acc"]["newest"], "all seen": task["proj_acc"]["seen"]}
        numbers: dict[str, float | None] = {"effective rank": task["effective_rank"]}
        for on, curve in curves.items():
            numbers[f"accuracy, {on}"] = 100 * curve[-1]
            numbers[f"k for 95 %, {on}"] = directions_for(curve, 0.95)
        yield (task["task"] + 1, task["classes"]), numbers


def directions_for(curve: Sequence[float], share: float) -> int:
    """The fewest directions that give this share of the curve's maximum."""
    goal = share * max(curve) - 1e-12
    return next(k for k, value in enumerate(curve) if value >= goal)


def consistent(found: Content) -> bool:
    """Whether every curve has a value for k = 0 and for each direction."""
    return all(
        len(curve) == len(task["values"]) + 1
        for task in found["tasks"]
        for curve in (task["proj_acc"]["seen"], task["proj_acc"]["newest"])
    )


TASK = {
    "task": int, "classes": int, "values": [float], "effective_rank": float,
    "proj_acc": {"seen": [float], "newest": [float]},
}  # fmt: skip
SPECTRUM = Analysis(
    make, {"tasks": [TASK]}, "spectrum of the features and proj-acc, %", ("task", "classes"), rows,
    consistent=consistent,
    note="k for 95 %: the fewest principal directions that give 95 % of the best accuracy",
)  # fmt: skip
