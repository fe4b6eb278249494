"""Class statistics that outlive their images: counts, means and covariances of features.

They are sums in float64, and stay on the host. How they move from network to network and how they
decide is in transport.py.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from ..data.images import Images
from .model import finite
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


def features_of(context: TaskContext, images: Images) -> Iterator[tuple[Images, Tensor]]:
    """The images chunk by chunk, with the present network's features."""
    for part in images.chunks(CHUNK) if len(images) else ():
        yield part, finite(context.evaluate(part).features, context.task)
