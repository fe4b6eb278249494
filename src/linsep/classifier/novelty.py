"""Novelty: how unlike anything learned an image looks, as a number, larger for stranger images.

By energy (Liu et al., 2020): minus the log of the summed exponentials of its scores. By distance
(Lee et al., 2018): Mahalanobis, from the closest mean of a class in feature space, with one
covariance for all classes. A method that carries class statistics has both; otherwise they come
from images of every class, those of the memory and those held out, with the covariance shrunk as
Ledoit and Wolf do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.images import Images
from ..learning.model import Model
from ..learning.statistics import shrunk
from ..learning.transport import Transported


def energy(scores: Tensor, temperature: float = 1.0) -> NDArray[np.float64]:
    """Of scores (n, classes), -inf where a class was not learned."""
    scaled = scores.double() / temperature
    return np.asarray(-temperature * scaled.logsumexp(1))


class Known(NamedTuple):
    """What features of learned classes look like."""

    means: NDArray[np.float64]  # (classes, d)
    whitening: NDArray[np.float64]  # (d, d): differences times it have a distance of their length

    @classmethod
    def of(cls, features: Tensor, y: Tensor) -> Known:
        z, labels = features.double().numpy(), y.numpy()
        found, place = np.unique(labels, return_inverse=True)
        means = np.stack([z[labels == c].mean(0) for c in found])
        return cls(means, _whitening(ledoit_wolf(z - means[place])))

    @classmethod
    def carried(cls, rule: Transported) -> Known:
        statistics = rule.statistics
        covariance = shrunk(statistics.covariance(), rule.how.shrinkage)
        return cls(statistics.mean[statistics.known].numpy(), _whitening(covariance.numpy()))

    def distance(self, features: Tensor) -> NDArray[np.float64]:
        """From the closest class."""
        z, m = (np.asarray(v) @ self.whitening for v in (features.double().numpy(), self.means))
        found = torch.cdist(torch.from_numpy(z), torch.from_numpy(m)).min(1).values
        return found.numpy()


def _whitening(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    values, vectors = np.linalg.eigh(covariance)
    least = max(values.max(), 1.0) * 1e-6  # a direction in which nothing varies decides nothing
    result: NDArray[np.float64] = vectors / np.sqrt(np.maximum(values, least))
    return result


def known(model: Model, images: Images, classes: Sequence[int]) -> Known | None:
    """These classes as statistics or images show them; None if there is no image of one of them."""
    if isinstance(model.predictor, Transported):
        return Known.carried(model.predictor)
    if set(classes) - set(images.y.tolist()):
        return None
    return Known.of(model.embed(images).cpu(), images.y)


def ledoit_wolf(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """The covariance of centred rows, drawn towards a sphere as far as Ledoit and Wolf (2004) do.

    By the variance of its estimate as a share of how far it is from that sphere. scikit-learn has
    the same, and takes a second to import.
    """
    n, d = z.shape
    found = z.T @ z / n
    sphere = np.trace(found) / d * np.eye(d)
    away = np.square(found - sphere).sum()
    varies = np.square(np.square(z).sum(1)).sum() / n**2 - np.square(found).sum() / n
    share = min(varies / away, 1.0) if away > 0 else 0.0
    result: NDArray[np.float64] = (1 - share) * found + share * sphere
    return result
