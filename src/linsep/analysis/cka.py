"""How alike two feature matrices of the same rows are: linear CKA (section 4.6).

Knows pairs of feature matrices. Knows nothing of runs, files or nets. Everything is summed over
blocks of rows in float64, so memory is O(d^2) whatever n; the n x n kernels are never made.

    estimator   value                                                            CKA(Z, Z)
    centred     ||X^T Y||^2 / (||X^T X|| ||Y^T Y||), means taken off             1
    debiased    the same ratio of unbiased HSIC estimates                        1
    printed     ||X^T Y||^2 / (||X^T X||^2 ||Y^T Y||^2), equation 15 as it stands  not 1

The printed one depends on the features' scale and on n (D16): use it only to show that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, get_args

import torch
from torch import Tensor

from .spectrum import ROWS, check_features

Estimator = Literal["centred", "debiased", "printed"]


class _Side:
    """Sums over one matrix's rows, each taken about `origin`."""

    def __init__(self, origin: Tensor) -> None:
        d = len(origin)
        self.origin = origin  # (d,)
        self.total = torch.zeros_like(origin)  # (d,) sum of x
        self.products = origin.new_zeros(d, d)  # (d, d) sum of x x^T
        self.raw_squares = 0.0  # sum of |x + origin|^2

    def add(self, block: Tensor) -> Tensor:
        self.raw_squares += float(block.square().sum())
        block = block - self.origin
        self.total += block.sum(0)
        self.products += block.T @ block
        return block


class PairMoments:
    """What CKA needs of rows (x_i, y_i) that arrive in blocks.

    Rows are taken about the first block's mean, which changes no centred quantity and keeps the
    digits that a large mean would eat. Beyond second moments the debiased estimate needs
    sum |x|^2 |y|^2, sum |y|^2 x and sum |x|^2 y, and the same of x with x and of y with y.
    """

    def __init__(self) -> None:
        self.count = 0
        self._sides: tuple[_Side, _Side] | None = None
        self._cross = torch.zeros(0, 0, dtype=torch.float64)  # (d1, d2) sum of x y^T
        self._norms = torch.zeros(2, 2, dtype=torch.float64)  # sum of |a|^2 |b|^2
        self._weighted: list[list[Tensor]] = []  # [a][b] sum of |b|^2 a, a vector like a

    def add(self, x: Tensor, y: Tensor) -> None:
        check_features(x, "first features")
        check_features(y, "second features")
        if len(x) != len(y):
            raise ValueError(f"CKA pairs rows: the first has {len(x)}, the second {len(y)}")
        for xs, ys in zip(torch.split(x, ROWS), torch.split(y, ROWS), strict=True):
            self._add_block(
                xs.detach().to("cpu", torch.float64), ys.detach().to("cpu", torch.float64)
            )

    def _add_block(self, x: Tensor, y: Tensor) -> None:
        if self._sides is None:
            self._sides = (_Side(x.mean(0)), _Side(y.mean(0)))
            self._cross = x.new_zeros(x.shape[1], y.shape[1])
            self._weighted = [[x.new_zeros(z.shape[1]) for _ in range(2)] for z in (x, y)]
        widths = tuple(len(side.origin) for side in self._sides)
        if (x.shape[1], y.shape[1]) != widths:
            raise ValueError(f"blocks of {(x.shape[1], y.shape[1])} features after {widths}")
        blocks = [side.add(z) for side, z in zip(self._sides, (x, y), strict=True)]
        squares = torch.stack([b.square().sum(1) for b in blocks])  # (2, r)
        self._cross += blocks[0].T @ blocks[1]
        self._norms += squares @ squares.T
        for a in range(2):
            for b in range(2):
                self._weighted[a][b] += squares[b] @ blocks[a]
        self.count += len(x)

    def cka(self, estimator: Estimator = "centred") -> float:
        if estimator not in get_args(Estimator):
            raise ValueError(f"estimator: want one of {get_args(Estimator)}, got {estimator!r}")
        if self._sides is None:
            raise ValueError("CKA of no rows: add some first")
        if estimator == "printed":
            return self._printed()
        least = 4 if estimator == "debiased" else 2
        if self.count < least:
            raise ValueError(f"{estimator} CKA needs at least {least} rows, got {self.count}")
        for side, name in zip(self._sides, ("first", "second"), strict=True):
            varying = side.products.trace() - side.total.square().sum() / self.count
            if float(varying) <= 1e-24 * side.raw_squares:
                raise ValueError(f"CKA is undefined: the {name} features are the same in every row")
        hsic = self._unbiased_hsic if estimator == "debiased" else self._biased_hsic
        return hsic(0, 1) / math.sqrt(hsic(0, 0) * hsic(1, 1))

    def _pair(self, a: int, b: int) -> tuple[_Side, _Side, Tensor]:
        assert self._sides is not None
        products = self._cross if a != b else self._sides[a].products
        return self._sides[a], self._sides[b], products

    def _biased_hsic(self, a: int, b: int) -> float:
        """||X_c^T Y_c||^2 = tr(K H L H), X_c with its mean taken off."""
        first, second, products = self._pair(a, b)
        centred = products - torch.outer(first.total, second.total) / self.count
        return float(centred.square().sum())

    def _unbiased_hsic(self, a: int, b: int) -> float:
        """Song et al. 2012, for linear kernels K = X X^T, L = Y Y^T without diagonals:

        n (n - 3) HSIC = tr KL + (1'K1)(1'L1) / ((n - 1)(n - 2)) - 2 (1'KL1) / (n - 2),

        with tr KL = ||X^T Y||^2 - sum |x|^2 |y|^2, 1'K1 = |sum x|^2 - sum |x|^2 and
        1'KL1 = s_x' X^T Y s_y - s_x' sum |y|^2 x - s_y' sum |x|^2 y + sum |x|^2 |y|^2.
        """
        first, second, products = self._pair(a, b)
        n, norms = self.count, float(self._norms[a, b])
        trace = float(products.square().sum()) - norms
        sums = [float(s.total.square().sum() - s.products.trace()) for s in (first, second)]
        mixed = (
            first.total @ products @ second.total
            - first.total @ self._weighted[a][b]
            - second.total @ self._weighted[b][a]
        )
        inner = trace + sums[0] * sums[1] / ((n - 1) * (n - 2))
        return (inner - 2 * (float(mixed) + norms) / (n - 2)) / (n * (n - 3))

    def _printed(self) -> float:
        """Equation 15 to the letter: neither centred nor square-rooted."""

        def uncentred(a: int, b: int) -> float:
            first, second, products = self._pair(a, b)
            x, y = first.origin, second.origin
            moved = torch.outer(first.total, y) + torch.outer(x, second.total + self.count * y)
            return float((products + moved).square().sum())

        below = uncentred(0, 0) * uncentred(1, 1)
        if below == 0:
            raise ValueError("printed CKA is undefined: one of the features is zero in every row")
        return uncentred(0, 1) / below


def cka(x: Tensor, y: Tensor, estimator: Estimator = "centred") -> float:
    """Of two matrices (n, d1) and (n, d2) whose rows belong together."""
    return cka_of_blocks([(x, y)], estimator)


def cka_of_blocks(
    blocks: Iterable[tuple[Tensor, Tensor]], estimator: Estimator = "centred"
) -> float:
    """The same from blocks of rows, for features that do not fit in memory."""
    moments = PairMoments()
    for x, y in blocks:
        moments.add(x, y)
    return moments.cka(estimator)
