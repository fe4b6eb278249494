"""Class statistics that outlive their images, and how they move from network to network.

Counts, means and covariances of features are sums in float64, and stay on the host. A drift sees
the old and new features of a task's images, batch by batch, and then moves the statistics. A weight
tells how many images an image stands for.

    linear   by a ridge regression of new on old features
    bfp      by the map that BFP has learned, inverted, or by the one that its cycle trains
    sdc      each mean by the drift of the images around it (Yu et al., 2020)
    dpcr     see `Projected` (He et al., 2025)

How statistics decide is in transport.py.
"""

from collections.abc import Callable
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

SMALLEST = 1e-6  # the share of a sphere in any covariance, so that it can be inverted


class Affine(NamedTuple):
    """The map z -> z W + b of rows z, and the covariance of what it misses."""

    weight: Tensor  # (d, d)
    bias: Tensor  # (d,)
    residual: Tensor  # (d, d)

    def __call__(self, z: Tensor) -> Tensor:
        return z @ self.weight + self.bias


class Statistics(nn.Module):
    """Count, mean and scatter (summed squares about the mean) of the features of each class.

    The scatter is the sum over classes, or each class's own. Buffers stay where and what they are,
    whatever device and precision the network has.
    """

    count: Tensor  # (C,)
    mean: Tensor  # (C, d)
    scatter: Tensor  # (d, d), or (C, d, d)

    def __init__(self, classes: int, features: int, *, per_class: bool = False) -> None:
        super().__init__()
        shape = (classes, features, features) if per_class else (features, features)
        self.register_buffer("count", torch.zeros(classes, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(classes, features, dtype=torch.float64))
        self.register_buffer("scatter", torch.zeros(shape, dtype=torch.float64))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        return self

    def empty(self) -> "Statistics":
        """Statistics of the same shape that know nothing."""
        return Statistics(*self.mean.shape, per_class=self.per_class)

    @property
    def per_class(self) -> bool:
        return self.scatter.ndim == 3

    @property
    def known(self) -> Tensor:
        """The classes that have statistics, (K,)."""
        return self.count.nonzero()[:, 0]

    def add(self, z: Tensor, y: Tensor) -> None:
        """Take in the features (n, d) of images with labels y."""
        for c in y.unique().tolist():
            rows = z[y == c].double()
            mean = rows.mean(0)
            centred = rows - mean
            self._join(c, len(rows), mean)
            (self.scatter[c] if self.per_class else self.scatter).addmm_(centred.T, centred)

    def merge(self, other: "Statistics") -> None:
        """Take in what others know, as if their images had come here."""
        for c in other.known.tolist():
            self._join(c, float(other.count[c]), other.mean[c])
        self.scatter += other.scatter

    def _join(self, c: int, more: float, mean: Tensor) -> None:
        """A class's count and mean, and its scatter between the two means (Chan et al., 1979)."""
        n, away = float(self.count[c]), mean - self.mean[c]
        scatter = self.scatter[c] if self.per_class else self.scatter
        scatter += n * more / (n + more) * torch.outer(away, away)
        self.mean[c] += more / (n + more) * away
        self.count[c] += more

    def carry(self, through: Affine, residual: float) -> None:
        """Move every class through a map; so much of what the map misses adds to the scatter."""
        known, w = self.known, through.weight
        self.mean[known] = through(self.mean[known])
        n = self.count[:, None, None] if self.per_class else self.count.sum()
        self.scatter.copy_(w.T @ self.scatter @ w + residual * n * through.residual)

    def covariance(self) -> Tensor:
        """Within classes, every image alike, (d, d)."""
        whole = self.scatter.sum(0) if self.per_class else self.scatter
        return whole / self.count.sum().clamp(min=1)

    def covariances(self, pooling: float) -> Tensor:
        """Of each known class, drawn towards the shared one by a share, (K, d, d)."""
        own = self.scatter[self.known] / self.count[self.known, None, None]
        return (1 - pooling) * own + pooling * self.covariance()


def shrunk(covariance: Tensor, share: float) -> Tensor:
    """Covariances (..., d, d) drawn towards a sphere of the same trace by a share.

    Where nothing varies, the unit sphere.
    """
    eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype)
    level = covariance.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    share = max(share, SMALLEST)
    return torch.where(level > 0, (1 - share) * covariance + share * level * eye, eye)


def solve(matrix: Tensor, right: Tensor, ridge: float) -> Tensor:
    """(M + ridge tr(M) / d I)^-1 right, for a symmetric M that is not negative."""
    scale = matrix.trace() / len(matrix)
    if not scale > 0:
        return torch.zeros_like(right)  # the smallest solution
    eye = torch.eye(len(matrix), dtype=matrix.dtype)
    return torch.linalg.solve(matrix / scale + ridge * eye, right / scale)


FLOOR = 1e-5  # what each image weighs at least in SDC, as in its authors' program
DPCR_RIDGE = 1e-9  # of DPCR's regression, as in its authors' program


class Pairs:
    """Sums over images of their old and new features side by side, (old, new) of 2 d numbers.

    They are taken about the first batch's mean, so that features far from zero lose no digits.
    """

    def __init__(self, features: int) -> None:
        self.features, self.images, self.weight = features, 0, 0.0
        self.about = torch.zeros(2 * features, dtype=torch.float64)
        self.total = torch.zeros_like(self.about)
        self.products = torch.zeros(2 * features, 2 * features, dtype=torch.float64)

    def add(self, old: Tensor, new: Tensor, weights: Tensor) -> None:
        both = torch.cat([old, new], 1).double()
        if not self.images:
            self.about = both.mean(0)
        both = both - self.about
        self.images += int((weights > 0).sum())
        self.weight += float(weights.sum())
        self.total += weights @ both
        self.products.addmm_(weights * both.T, both)

    def moments(self) -> tuple[Tensor, Tensor]:
        """The mean, (2 d,), and the covariance, (2 d, 2 d)."""
        shift = self.total / self.weight
        return self.about + shift, self.products / self.weight - torch.outer(shift, shift)


class Drift:
    """What images tell of how features have moved."""

    def add(self, old: Tensor, new: Tensor, weights: Tensor) -> None:
        """Evaluate at the old and new features, (n, d) each, of images with weights, (n,)."""
        raise NotImplementedError(f"{type(self).__name__} must look at features")

    def move(self, statistics: Statistics) -> Affine | None:
        """Take statistics from the old features to the new; returns the map, if one serves all."""
        raise NotImplementedError(f"{type(self).__name__} must move statistics")


class Linear(Drift):
    """Ridge regression of the drift, new minus old features, on the old features.

        W = I + (C + ridge tr(C) / n I)^-1 D

    C is the covariance of the old features, D theirs with the drift, and n the number of images.
    In directions that the images do not show, features are taken to be where they were.
    """

    def __init__(self, features: int, ridge: float, residual: float) -> None:
        self.pairs, self.ridge, self.residual = Pairs(features), ridge, residual

    def add(self, old: Tensor, new: Tensor, weights: Tensor) -> None:
        self.pairs.add(old, new, weights)

    def map(self) -> Affine:
        d = self.pairs.features
        mean, covariance = self.pairs.moments()
        old, cross = covariance[:d, :d], covariance[:d, d:]
        drift = solve(old, cross - old, self.ridge * d / self.pairs.images)
        weight = torch.eye(d, dtype=torch.float64) + drift
        return self._measured(weight, mean[d:] - mean[:d] @ weight)

    def move(self, statistics: Statistics) -> Affine:
        through = self.map()
        statistics.carry(through, self.residual)
        return through

    def _measured(self, weight: Tensor, bias: Tensor) -> Affine:
        """A map with the covariance of what it misses of these images."""
        _, covariance = self.pairs.moments()
        misses = torch.cat([-weight, torch.eye(len(weight), dtype=torch.float64)])  # (2 d, d)
        found = misses.T @ covariance @ misses
        return Affine(weight, bias, (found + found.T) / 2)


class Learned(Linear):
    """A map from old to new features that was learned in training: new = B old + b."""

    def __init__(self, weight: Tensor, bias: Tensor, ridge: float, residual: float) -> None:
        super().__init__(len(bias), ridge, residual)
        self.weight, self.bias = weight, bias

    def map(self) -> Affine:
        return self._measured(self.weight.T, self.bias)


class Inverted(Learned):
    """A map from new to old features, old = A new + a, inverted by ridge least squares.

    new = (A'A + ridge tr(A'A) / n I)^-1 A' (old - a)
    """

    def map(self) -> Affine:
        a, ridge = self.weight, self.ridge * self.pairs.features / self.pairs.images
        back = solve(a.T @ a, a.T, ridge).T
        return self._measured(back, -self.bias @ back)


class Displacement(Drift):
    """Semantic drift compensation: a mean moves by the weighted mean drift of the images near it.

        w_i = exp(-|z_i - m|^2 / (2 s^2)),   m + sum_i w_i (z_i' - z_i) / sum_i w_i

    s is `sigma` times the root mean square distance of an image from its class's mean. Covariances
    stay as they were.
    """

    def __init__(self, statistics: Statistics, sigma: float) -> None:
        self.known = statistics.known
        self.means = statistics.mean[self.known]  # (K, d)
        self.width = sigma * statistics.covariance().trace().sqrt()
        self.weights = torch.zeros(len(self.known), dtype=torch.float64)
        self.drift = torch.zeros_like(self.means)

    def add(self, old: Tensor, new: Tensor, weights: Tensor) -> None:
        old, new = old.double(), new.double()
        away = torch.cdist(self.means, old) / self.width.clamp(min=1e-300)  # (K, n)
        near = weights * (torch.exp(-away.square() / 2) + FLOOR)
        self.weights += near.sum(1)
        self.drift += near @ (new - old)

    def move(self, statistics: Statistics) -> None:
        statistics.mean[self.known] += self.drift / self.weights[:, None]


class Projected(Drift):
    """DPCR's two projections: of all images, and onto the space that a class has filled.

        P = (Z'Z + 1e-9 I)^-1 Z'Z_new,   W_c = P U_c U_c',   m_c W_c,   W_c' M_c W_c

    Z are old features, not centred, M_c the sum of z z' over a class's images, and U_c its
    eigenvectors. Here M_c = S_c + n_c m_c m_c', of scatter, count and mean.
    """

    def __init__(self, features: int) -> None:
        self.old = torch.zeros(features, features, dtype=torch.float64)
        self.cross = torch.zeros_like(self.old)

    def add(self, old: Tensor, new: Tensor, weights: Tensor) -> None:
        old, new = old.double(), new.double()
        self.old.addmm_(weights * old.T, old)
        self.cross.addmm_(weights * old.T, new)

    def move(self, statistics: Statistics) -> None:
        eye = torch.eye(len(self.old), dtype=torch.float64)
        onto = torch.linalg.solve(self.old + DPCR_RIDGE * eye, self.cross)
        for c in statistics.known.tolist():
            n, mean = statistics.count[c], statistics.mean[c]
            values, vectors = torch.linalg.eigh(statistics.scatter[c] + n * torch.outer(mean, mean))
            least = values[-1] * len(values) * torch.finfo(values.dtype).eps
            filled = vectors[:, values > least]
            w = onto @ filled @ filled.T
            statistics.mean[c] = mean @ w
            statistics.scatter[c] = w.T @ statistics.scatter[c] @ w
