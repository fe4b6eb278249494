"""Class statistics that outlive their images: sums over features, in float64 and on the host.

`Statistics` has counts, means and covariances; how they move from network to network and how they
decide is in transport.py. `RandomRidge` decides by a regression on randomly expanded features.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data.images import Images
from ..errors import ConfigError
from ..nets.heads import DecidesLinearly
from ..nets.net import Output, Spec
from .model import LinearRule, finite
from .terms import TaskContext

CHUNK = 512  # images whose features are held at once
SMALLEST = 1e-6  # the share of a sphere in any covariance, so that it can be inverted


class Affine(NamedTuple):
    """The map z -> z W + b of rows z, and the covariance of what it misses."""

    weight: Tensor  # (d, d)
    bias: Tensor  # (d,)
    residual: Tensor  # (d, d)

    def __call__(self, z: Tensor) -> Tensor:
        return z @ self.weight + self.bias


class OnTheHost(nn.Module):
    """Buffers that stay where and what they are, whatever device and precision the network has."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        return self


class Statistics(OnTheHost):
    """Count, mean and scatter (summed squares about the mean) of the features of each class.

    The scatter is the sum over classes, or each class's own.
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

    def forget(self, c: int) -> bool:
        """Drop a class; return whether nothing of it is left.

        A shared scatter keeps its share, and is scaled to the images that are left.
        """
        left = 1 - float(self.count[c]) / max(float(self.count.sum()), 1.0)
        if self.per_class:
            self.scatter[c] = 0.0
        else:
            self.scatter *= left
        self.count[c] = 0.0
        self.mean[c] = 0.0
        return self.per_class

    def absorb(self, c: int, into: int) -> None:
        """Take a class for another one, as if its images had always been of that one."""
        self._join(into, float(self.count[c]), self.mean[c].clone())
        if self.per_class:
            self.scatter[into] += self.scatter[c]
            self.scatter[c] = 0.0
        self.count[c] = 0.0
        self.mean[c] = 0.0

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


def features_of(context: TaskContext, images: Images) -> Iterator[tuple[Images, Tensor]]:
    """The images chunk by chunk, with the present network's features."""
    for part in images.chunks(CHUNK) if len(images) else ():
        yield part, finite(context.evaluate(part).features, context.task)


RIDGES = tuple(10.0**k for k in range(-8, 9))  # that RanPAC chooses from
HELD_OUT = 5  # every fifth image of a task helps to choose


class Products(OnTheHost):
    """Sums over images of h h' and h y', for expanded features h and one-hot labels y."""

    gram: Tensor  # (M, M)
    cross: Tensor  # (M, C)
    count: Tensor  # (C,)

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.register_buffer("gram", torch.zeros(width, width, dtype=torch.float64))
        self.register_buffer("cross", torch.zeros(width, classes, dtype=torch.float64))
        self.register_buffer("count", torch.zeros(classes, dtype=torch.float64))

    def add(self, h: Tensor, y: Tensor) -> None:
        self.gram.addmm_(h.T, h)
        self.cross.index_add_(1, y, h.T)
        self.count += y.bincount(minlength=len(self.count))

    def merge(self, other: "Products") -> None:
        for mine, theirs in zip(self.buffers(), other.buffers(), strict=True):
            mine += theirs

    def solution(self, ridge: float) -> Tensor | None:
        """(H'H + ridge I)^-1 H'Y, (M, C); None where rounding leaves no solution."""
        eye = torch.eye(len(self.gram), dtype=torch.float64)
        lower, failed = torch.linalg.cholesky_ex(self.gram + ridge * eye)
        return None if failed else torch.cholesky_solve(self.cross, lower)

    def error(self, weight: Tensor | None) -> float:
        """The sum of squares of Y - H W over these images."""
        if weight is None:
            return float("inf")
        fitted = (weight * (self.gram @ weight - 2 * self.cross)).sum()
        return float(self.count.sum() + fitted)


class RandomRidge(LinearRule):
    """Ridge regression of one-hot labels on a fixed random expansion of the features.

        h = ReLU(z P),   W = (H'H + ridge I)^-1 H'Y,   score_c(z) = h w_c

    H'H and H'Y are sums over all images, so with a frozen backbone neither the order of the images
    nor their division into tasks matters. Without a ridge, it is the power of ten with the least
    error on every fifth image of the newest task, when the sums have all others.
    """

    projection: Tensor  # (d, M)
    ridge: Tensor  # (), the last that was chosen

    def __init__(self, spec: Spec, *, width: int, ridge: float | None) -> None:
        super().__init__(replace(spec, widths={"features": width}))
        self.given = ridge
        self.register_buffer("ridge", torch.tensor(ridge or 0.0))
        self.products = Products(width, spec.classes)
        self.register_buffer("projection", torch.randn(spec.features, width))

    def forward(self, out: Output) -> Tensor:
        return F.linear(F.relu(out.features.float() @ self.projection), self.weight, self.bias)

    def as_linear(self, head: DecidesLinearly) -> tuple[Tensor, Tensor]:
        raise ConfigError(
            "'ranpac' and 'acil' decide by expanded features; analyses of linear rules need another"
        )

    def fit(self, context: TaskContext, exemplars: Images) -> None:
        held, first = Products(len(self.products.gram), len(self.bias)), 0
        for h, y in self._expanded(context):
            out = (torch.arange(len(h)) + first) % HELD_OUT == HELD_OUT - 1
            self.products.add(h[~out], y[~out])
            held.add(h[out], y[out])
            first += len(h)
        if self.given is None:
            self.ridge.fill_(self._chosen(held))
        self.products.merge(held)
        self._decide()

    def add(self, context: TaskContext) -> None:
        for h, y in self._expanded(context):
            self.products.add(h, y)
        self._decide()

    def _expanded(self, context: TaskContext) -> Iterator[tuple[Tensor, Tensor]]:
        """The task's expanded features with their labels, chunk by chunk."""
        projection = self.projection.double().cpu()
        for images, z in features_of(context, context.task.train):
            yield F.relu(z.double() @ projection), images.y

    def _decide(self) -> None:
        """Make the rule of the sums."""
        ridge = float(self.ridge) if self.given is None else self.given
        solution = self.products.solution(ridge)
        if solution is None:
            raise ConfigError(f"acil.ridge: {ridge:g} is too small for these features")
        known = self.products.count.nonzero()[:, 0]
        self.decide_by(known, solution.T[known], torch.zeros(len(known)))

    def absorb(self, c: int, into: int) -> None:
        """Take a class for another one: the regression is linear in the labels, so rows add up."""
        for sums in (self.products.cross.T, self.products.count, self.weight):
            sums[into] += sums[c]
            sums[c] = 0.0

    def _chosen(self, held: Products) -> float:
        errors = [held.error(self.products.solution(ridge)) for ridge in RIDGES]
        return RIDGES[errors.index(min(errors))]
