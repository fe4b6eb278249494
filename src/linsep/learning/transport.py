"""Prediction from class statistics that are carried from network to network; no image is kept.

The statistics, and how they are carried, are in statistics.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..data.images import Images
from ..errors import ConfigError
from ..nets.heads import DecidesLinearly
from ..nets.net import Output, Spec
from .predictors import LinearRule, finite
from .projection import BackwardFeatures
from .statistics import (
    Displacement,
    Drift,
    Inverted,
    Learned,
    Linear,
    Projected,
    Statistics,
    shrunk,
)
from .terms import TaskContext

Map = Literal["linear", "none", "bfp", "sdc", "dpcr"]
Covariance = Literal["shared", "class", "none"]
Prior = Literal["equal", "counts"]
CHUNK = 512  # images whose features are held at once
HALF = 60  # stored images of a class that correct its mean by half of what they tell


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
        self.statistics = Statistics(
            spec.classes, spec.features, per_class=own or how.map == "dpcr"
        )
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
        for images, new in _looked_at(context, context.task.train):
            fresh.add(new, images.y)
            if drift is not None:
                weights = torch.ones(len(new), dtype=torch.float64)
                drift.add(_before(context, images), new, weights)
        if drift is not None:
            self._carry(drift, context, exemplars)
        mine.merge(fresh)
        self._decide()

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
        for images, new in _looked_at(context, stored):
            old = _before(context, images)
            drift.add(old, new, (mine.count / held)[images.y])  # 0 for the task's own classes
            was.add(old, images.y)
            now.add(new, images.y)
        through = drift.move(mine)
        if through is not None:
            known = now.known[mine.count[now.known] > 0]
            missed = now.mean[known] - through(was.mean[known])
            mine.mean[known] += (now.count / (now.count + HALF))[known, None] * missed

    def _decide(self) -> None:
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
            ahead, back = term.ahead("features"), term.projection("features")
            kind, own = (Inverted, back) if ahead is None else (Learned, ahead)
            if isinstance(own, torch.nn.Linear):  # else it is FD's or BFP-2's
                return kind(_host(own.weight), _host(own.bias), how.ridge, how.residual)
    raise ConfigError("transport.map: 'bfp' needs 'features' among bfp.layers")


def _host(values: Tensor) -> Tensor:
    return values.detach().cpu().double()


def _looked_at(context: TaskContext, images: Images) -> Iterator[tuple[Images, Tensor]]:
    """The images chunk by chunk, with the present network's features."""
    for part in images.chunks(CHUNK) if len(images) else ():
        yield part, finite(context.evaluate(part).features, context.task)


def _before(context: TaskContext, images: Images) -> Tensor:
    """The previous network's features."""
    assert context.before is not None
    return finite(context.before(images).features, context.task)
