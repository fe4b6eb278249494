"""Prediction from class statistics that are carried from network to network; no image is kept.

A drift sees the old and new features of a task's images, batch by batch, and then moves the
statistics. A weight tells how many images an image stands for.

    linear   by a ridge regression of new on old features
    bfp      by the map that BFP has learned, inverted, or by the one that its cycle trains
    sdc      each mean by the drift of the images around it (Yu et al., 2020)
    dpcr     see `Projected` (He et al., 2025)
"""

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from ..data.images import Images
from ..errors import ConfigError
from ..nets.heads import DecidesLinearly
from ..nets.net import Output, Spec
from .model import LinearRule, finite
from .projection import BackwardFeatures
from .statistics import Affine, Statistics, features_of, shrunk, solve
from .terms import TaskContext

Map = Literal["linear", "none", "bfp", "sdc", "dpcr"]
Covariance = Literal["shared", "pooled", "class", "none"]
Prior = Literal["equal", "counts"]
HALF = 60  # stored images of a class that correct its mean by half of what they tell
FLOOR = 1e-5  # what each image weighs at least in SDC, as in its authors' program
DPCR_RIDGE = 1e-9  # of DPCR's regression, as in its authors' program


class Drift(Protocol):
    """What images tell of how features have moved."""

    def add(self, old: Tensor, new: Tensor, weights: Tensor) -> None:
        """Look at the old and new features, (n, d) each, of images with weights, (n,)."""

    def move(self, statistics: Statistics) -> Affine | None:
        """Take statistics from the old features to the new; returns the map, if one serves all."""


class Linear:
    """Ridge regression of the drift, new minus old features, on the old features.

        W = I + (C + ridge tr(C) / n I)^-1 D

    C is the covariance of the old features, D theirs with the drift, and n the number of images.
    In directions that the images do not show, features are taken to be where they were. Sums are
    taken about the first batch's mean, so that features far from zero lose no digits.
    """

    def __init__(self, features: int, ridge: float, residual: float) -> None:
        self.features, self.ridge, self.residual = features, ridge, residual
        self.images, self.weight = 0, 0.0
        self.about = torch.zeros(2 * features, dtype=torch.float64)  # (old, new) side by side
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
        """The mean, (2 d,), and the covariance, (2 d, 2 d), of old and new features together."""
        shift = self.total / self.weight
        return self.about + shift, self.products / self.weight - torch.outer(shift, shift)

    def map(self) -> Affine:
        d = self.features
        mean, covariance = self.moments()
        old, cross = covariance[:d, :d], covariance[:d, d:]
        drift = solve(old, cross - old, self.ridge * d / self.images)
        weight = torch.eye(d, dtype=torch.float64) + drift
        return self._measured(weight, mean[d:] - mean[:d] @ weight)

    def move(self, statistics: Statistics) -> Affine:
        through = self.map()
        statistics.carry(through, self.residual)
        return through

    def _measured(self, weight: Tensor, bias: Tensor) -> Affine:
        """A map with the covariance of what it misses of these images."""
        _, covariance = self.moments()
        misses = torch.cat([-weight, torch.eye(len(weight), dtype=torch.float64)])  # (2 d, d)
        found = misses.T @ covariance @ misses
        return Affine(weight, bias, (found + found.T) / 2)


class Learned(Linear):
    """A map from old to new features that was learned in training: new = B old + b."""

    def __init__(self, weight: Tensor, bias: Tensor, ridge: float, residual: float) -> None:
        super().__init__(len(bias), ridge, residual)
        self.learned = weight, bias

    def map(self) -> Affine:
        weight, bias = self.learned
        return self._measured(weight.T, bias)


class Inverted(Learned):
    """A map from new to old features, old = A new + a, inverted by ridge least squares.

    new = (A'A + ridge tr(A'A) / n I)^-1 A' (old - a)
    """

    def map(self) -> Affine:
        a, bias = self.learned
        back = solve(a.T @ a, a.T, self.ridge * self.features / self.images).T
        return self._measured(back, -bias @ back)


class Displacement:
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


class Projected:
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


@dataclass(frozen=True)
class Carrying:
    """How statistics are carried, and how they decide: the options of `+transport`."""

    map: Map
    covariance: Covariance
    ridge: float
    residual: float
    shrinkage: float
    pooling: float
    prior: Prior
    sigma: float
    gamma: float


class Transported(LinearRule):
    """Linear discriminant analysis on the carried statistics of every class seen.

        score_c(z) = z S^-1 m_c - m_c S^-1 m_c / 2 + log prior_c

    m_c is a class's mean and S the covariance within classes, drawn towards a sphere; the classes'
    mean score is taken off, for rounding. With a covariance S_c for each class the rule is
    quadratic; without one it is the nearest mean. DPCR has a rule of its own.
    """

    factor: Tensor | None  # (C, d, d): (z - m_c) times it has the covariance of the unit sphere

    def __init__(self, spec: Spec, *, how: Carrying) -> None:
        super().__init__(spec)
        self.how, self.looks_back = how, how.map != "none"
        own = how.covariance == "class"
        apart = own or how.map == "dpcr" or how.covariance == "pooled"
        self.statistics = Statistics(spec.classes, spec.features, per_class=apart)
        whole = torch.zeros(spec.classes, spec.features, spec.features) if own else None
        self.register_buffer("factor", whole)

    def forward(self, out: Output) -> Tensor:
        if self.factor is None:
            return super().forward(out)
        away = out.features.float()[None] - self.weight[:, None]  # (C, n, d)
        return self.bias - (away @ self.factor).square().sum(2).T / 2

    def as_linear(self, head: DecidesLinearly) -> tuple[Tensor, Tensor]:
        if self.factor is not None:
            raise ConfigError(
                "transport.covariance = 'class' decides by a quadratic rule; analyses of linear "
                "rules need 'shared' or 'none'"
            )
        return super().as_linear(head)

    def fit(self, context: TaskContext, exemplars: Images) -> None:
        """Carry what is known to the present network, then take in the task's images."""
        mine, fresh = self.statistics, self.statistics.empty()
        drift = self._drift(context)
        for images, new in features_of(context, context.task.train):
            fresh.add(new, images.y)
            if drift is not None:
                weights = torch.ones(len(new), dtype=torch.float64)
                drift.add(_before(context, images), new, weights)
        if drift is not None:
            self._carry(drift, context, exemplars)
        mine.merge(fresh)
        self.decide()

    def add(self, context: TaskContext) -> None:
        for images, new in features_of(context, context.task.train):
            self.statistics.add(new, images.y)
        self.decide()

    def _drift(self, context: TaskContext) -> Drift | None:
        """What will see how features move; None if nothing is known yet, or stays where it was."""
        how, mine = self.how, self.statistics
        if context.before is None or not len(mine.known):
            return None
        match how.map:
            case "linear":
                return Linear(mine.mean.shape[1], how.ridge, how.residual)
            case "sdc":
                return Displacement(mine, how.sigma)
            case "dpcr":
                return Projected(mine.mean.shape[1])
            case "bfp":
                return _learned(context, how)
            case "none":
                return None

    def _carry(self, drift: Drift, context: TaskContext, stored: Images) -> None:
        """Move the statistics. Stored images stand for all images of their class in the map, and
        correct its mean by what the map misses of them, the more the more there are.
        """
        mine, was, now = self.statistics, self.statistics.empty(), self.statistics.empty()
        held = stored.y.bincount(minlength=len(mine.count)).clamp(min=1)
        for images, new in features_of(context, stored):
            old = _before(context, images)
            drift.add(old, new, (mine.count / held)[images.y])  # 0 for the task's own classes
            was.add(old, images.y)
            now.add(new, images.y)
        through = drift.move(mine)
        if through is not None:
            known = now.known[mine.count[now.known] > 0]
            missed = now.mean[known] - through(was.mean[known])
            mine.mean[known] += (now.count / (now.count + HALF))[known, None] * missed

    def decide(self) -> None:
        """Make the rule of the statistics."""
        how, known = self.how, self.statistics.known
        n, means = self.statistics.count[known], self.statistics.mean[known]
        prior = (n / n.sum()).log() if how.prior == "counts" else torch.zeros_like(n)
        if how.map == "dpcr":
            weight, bias = self._reconstructed(known), torch.zeros_like(n)
        elif self.factor is not None:
            covariances = shrunk(self.statistics.covariances(how.pooling), how.shrinkage)
            lower = torch.linalg.cholesky(covariances)
            volume = lower.diagonal(dim1=1, dim2=2).log().sum(1)
            self.factor[known] = torch.linalg.inv(lower).mT.to(self.factor)
            weight, bias = means, prior - volume
        else:
            covariance = self.statistics.covariance()
            sphere = 1.0 if how.covariance == "none" else how.shrinkage
            weight = torch.linalg.solve(shrunk(covariance, sphere), means.T).T
            bias = prior - (weight * means).sum(1) / 2
            weight, bias = weight - weight.mean(0), bias - bias.mean()  # what no class gains by
        self.decide_by(known, weight, bias)

    def _reconstructed(self, known: Tensor) -> Tensor:
        """DPCR's ridge regression on one-hot labels, each class's row made as long as the others.

        (sum_c M_c + gamma I)^-1 n_c m_c, with M_c = S_c + n_c m_c m_c'
        """
        n, means = self.statistics.count[known], self.statistics.mean[known]
        sums = n[:, None] * means
        whole = self.statistics.scatter.sum(0) + means.T @ sums
        eye = torch.eye(len(whole), dtype=torch.float64)
        found = torch.linalg.solve(whole + self.how.gamma * eye, sums.T).T
        return torch.nn.functional.normalize(found)


def _learned(context: TaskContext, how: Carrying) -> Learned:
    """The map that BFP has trained in this task: its inverse, or old to new if it has that too."""
    for term in context.terms:
        if isinstance(term, BackwardFeatures) and "features" in term.layers:
            trained = term.map_of("features")
            back, ahead = (Inverted, trained.project), (Learned, trained.ahead)
            kind, own = back if trained.ahead is None else ahead
            if isinstance(own, torch.nn.Linear):  # else it is FD's or BFP-2's
                return kind(_host(own.weight), _host(own.bias), how.ridge, how.residual)
    raise ConfigError("transport.map: 'bfp' needs 'features' among bfp.layers")


def _host(values: Tensor) -> Tensor:
    return values.detach().cpu().double()


def _before(context: TaskContext, images: Images) -> Tensor:
    """The previous network's features."""
    assert context.before is not None
    return finite(context.before(images).features, context.task)
