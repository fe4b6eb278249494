"""How alike two feature matrices of the same rows are: linear CKA (section 4.6).

Of test images before and after each task, on the classes learned before it ("seen") and on those
that it brings ("unseen"). The n x n kernels are never made.

    estimator   value                                                            CKA(Z, Z)
    centred     ||X^T Y||^2 / (||X^T X|| ||Y^T Y||), means taken off             1
    debiased    the same ratio of unbiased HSIC estimates                        1
    printed     ||X^T Y||^2 / (||X^T X||^2 ||Y^T Y||^2), equation 15 as it stands  not 1

The printed one depends on the features' scale and on n (D16): use it only to show that.
"""

import math
from collections.abc import Iterator
from typing import Literal, get_args

import torch
from torch import Tensor

from .analyse import Analysis, Content, Row
from .features import Features, blocks, check_features, mean_row

Estimator = Literal["centred", "debiased", "printed"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)


class Pair:
    """Sums over rows (x_i, y_i), each about its mean: all that the estimators need."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        check_features(x, "first features")
        check_features(y, "second features")
        self.count = len(x)
        self.means = mean_row(x), mean_row(y)
        both = [(a, b) for a in range(2) for b in range(a, 2)]
        sizes = {(a, b): (len(self.means[a]), len(self.means[b])) for a, b in both}
        self.products = {  # (a, b) -> sum of a_i b_i^T
            pair: torch.zeros(size, dtype=torch.float64) for pair, size in sizes.items()
        }
        self.norms = torch.zeros(2, 2, dtype=torch.float64)  # sum of |a_i|^2 |b_i|^2
        for parts in blocks(x, y):
            rows = [part - mean for part, mean in zip(parts, self.means, strict=True)]
            squares = torch.stack([r.square().sum(1) for r in rows])  # (2, r)
            self.norms += squares @ squares.T
            for a, b in both:
                self.products[a, b] += rows[a].T @ rows[b]

    def cka(self, estimator: Estimator = "centred") -> float:
        if estimator == "printed":
            below = self._raw(0, 0) * self._raw(1, 1)
            if below == 0:
                raise ValueError("printed CKA is undefined: a feature matrix is zero in every row")
            return self._raw(0, 1) / below
        least = 4 if estimator == "debiased" else 2
        if self.count < least:
            raise ValueError(f"{estimator} CKA needs at least {least} rows, got {self.count}")
        for a, name in enumerate(("first", "second")):
            varying = float(self.products[a, a].trace())
            if varying <= 1e-24 * self.count * float(self.means[a].square().sum()):
                raise ValueError(f"CKA is undefined: the {name} features are the same in every row")
        hsic = self._unbiased_hsic if estimator == "debiased" else self._biased_hsic
        return hsic(0, 1) / math.sqrt(hsic(0, 0) * hsic(1, 1))

    def _biased_hsic(self, a: int, b: int) -> float:
        """||X_c^T Y_c||^2 = tr(K H L H), X_c with its mean taken off."""
        return float(self.products[a, b].square().sum())

    def _unbiased_hsic(self, a: int, b: int) -> float:
        """Song et al. 2012, for linear kernels K = X X^T, L = Y Y^T without diagonals:

        n (n - 3) HSIC = tr KL + (1'K1)(1'L1) / ((n - 1)(n - 2)) - 2 (1'KL1) / (n - 2).

        Rows sum to zero here, so tr KL = ||X^T Y||^2 - sum |x|^2 |y|^2, 1'K1 = -sum |x|^2 and
        1'KL1 = sum |x|^2 |y|^2.
        """
        n, norms = self.count, float(self.norms[a, b])
        sums = float(self.products[a, a].trace()) * float(self.products[b, b].trace())
        inner = self._biased_hsic(a, b) - norms + sums / ((n - 1) * (n - 2))
        return (inner - 2 * norms / (n - 2)) / (n * (n - 3))

    def _raw(self, a: int, b: int) -> float:
        """||X^T Y||^2 with the means left on, for equation 15 to the letter."""
        moved = self.count * torch.outer(self.means[a], self.means[b])
        return float((self.products[a, b] + moved).square().sum())


def cka(x: Tensor, y: Tensor, estimator: Estimator = "centred") -> float:
    """The similarity of two matrices (n, d1) and (n, d2) whose rows belong together."""
    return Pair(x, y).cka(estimator)


# --- of a run ------------------------------------------------------------------------------------


def make(run: Features) -> Content:
    """CKA of test images' features before and after each task that brings new classes."""
    tasks = []
    y = run.labels("test")
    for before, after in run.pairs:
        classes = torch.tensor(run.scenario.tasks[after.task].classes)
        if not len(classes):
            continue
        old, new = run.matrix(before, "test"), run.matrix(after, "test")
        seen, own = run.rows("test", 0, after.task), run.rows("test", after.task, after.task + 1)
        unseen = own.start + torch.isin(y[own], classes).nonzero()[:, 0]
        found: Content = {"task": after.task}
        for name, rows in (("seen", seen), ("unseen", unseen)):
            pair = Pair(old[rows], new[rows])
            found[name] = {estimator: pair.cka(estimator) for estimator in ESTIMATORS}
        tasks.append(found)
    return {"tasks": tasks}


def rows(content: Content) -> Iterator[Row]:
    for task in content["tasks"]:
        names = [(side, kind) for kind in ("centred", "debiased") for side in ("seen", "unseen")]
        yield (task["task"] + 1,), {f"{s}, {kind}": 100 * task[s][kind] for s, kind in names}


BOTH = dict.fromkeys(("seen", "unseen"), dict.fromkeys(ESTIMATORS, float))
SHAPE = {"tasks": [{"task": int, **BOTH}]}
TITLE = "CKA before and after each task, x 100"
ANALYSIS = Analysis(make, SHAPE, TITLE, ("task",), rows, Features.no_pairs)
