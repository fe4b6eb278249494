"""From a net's output to scores. Knows features and exemplars, not which classes have been seen.

A head may be a rule of its own (cosine, bias-corrected): then the net's logits are the scores.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data.images import Images
from ..nets.heads import DecidesLinearly
from ..nets.net import Output, Spec
from .memory import Look
from .terms import Passes


class Predictor(nn.Module):
    """The net's own logits."""

    passes = Passes()  # through the net when it is fitted, as multiples of the exemplars

    def __init__(self, spec: Spec) -> None:
        super().__init__()

    def forward(self, out: Output) -> Tensor:
        return out.logits

    def as_linear(self, head: DecidesLinearly) -> tuple[Tensor, Tensor]:
        """Weights and biases of the linear rule that decides as this one does on the features."""
        return head.as_linear()

    def fit(self, exemplars: Images, look: Look) -> None:
        """Called after every task, once the memory has settled."""


class NearestMean(Predictor):
    """iCaRL's rule: the closest mean of a class's exemplars, all features on the unit sphere."""

    passes = Passes(forward=1)
    means: Tensor

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.register_buffer("means", torch.zeros(spec.classes, spec.features))

    def forward(self, out: Output) -> Tensor:
        z = F.normalize(out.features.float())
        return -torch.cdist(z, self.means, compute_mode="donot_use_mm_for_euclid_dist")

    def as_linear(self, head: DecidesLinearly) -> tuple[Tensor, Tensor]:
        """Among unit vectors the closest mean m is the one with the largest m z - |m|^2 / 2.

        |z| = 1 there, and |m| = 1 for every class that has exemplars; so |z| does not matter.
        """
        return self.means.detach(), self.means.new_zeros(len(self.means))

    def fit(self, exemplars: Images, look: Look) -> None:
        z = F.normalize(look(exemplars).features)
        for c in exemplars.y.unique().tolist():
            rows = (exemplars.y == c).to(z.device)
            self.means[c] = F.normalize(z[rows].mean(0), dim=0)
