"""Heads map features to logits, one for every class there will ever be.

Which rows may learn, and which classes are the newest, is decided by the stages of a method.

Every head predicts as some linear head does: `as_linear` gives weights and biases (w, b) such that
w z + b and the head's logits are largest at the same class, for every z.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Head = Callable[[int, int], nn.Module]  # (features, classes) -> logits


@runtime_checkable
class DecidesLinearly(Protocol):
    def as_linear(self) -> tuple[Tensor, Tensor]: ...


class LinearHead(nn.Linear):
    """Logits w z + b."""

    def as_linear(self) -> tuple[Tensor, Tensor]:
        return self.weight.detach(), self.bias.detach()


class CosineHead(nn.Module):
    """Logits s cos(w, z) with a learned scale s; rows that are not `free` are frozen."""

    free: Tensor

    def __init__(self, features: int, classes: int, *, scale: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, features))
        nn.init.uniform_(self.weight, -(features**-0.5), features**-0.5)
        self.scale = nn.Parameter(torch.tensor(scale))
        self.register_buffer("free", torch.ones(classes, dtype=torch.bool))

    def cosine(self, z: Tensor) -> Tensor:
        weight = torch.where(self.free[:, None], self.weight, self.weight.detach())
        return F.linear(F.normalize(z), F.normalize(weight))

    def forward(self, z: Tensor) -> Tensor:
        return self.scale * self.cosine(z)

    def as_linear(self) -> tuple[Tensor, Tensor]:
        """The length of z scales all logits alike, and so does |s|; its sign does not."""
        weight = F.normalize(self.weight.detach())
        return self.scale.detach().sign() * weight, weight.new_zeros(len(weight))


class Correction(nn.Module):
    """Two numbers that map the newest classes' logits o to a o + b; older pairs stay as fitted."""

    slopes: Tensor
    shifts: Tensor
    newest: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.ones(()))
        self.shift = nn.Parameter(torch.zeros(()))
        self.register_buffer("slopes", torch.ones(classes))
        self.register_buffer("shifts", torch.zeros(classes))
        self.register_buffer("newest", torch.zeros(classes, dtype=torch.bool))

    def forward(self, logits: Tensor) -> Tensor:
        fitting = self.slope * logits + self.shift
        return torch.where(self.newest, fitting, self.slopes * logits + self.shifts)

    @torch.no_grad()
    def pairs(self) -> tuple[Tensor, Tensor]:
        """Return a and b of every class."""
        a = torch.where(self.newest, self.slope, self.slopes)
        return a, torch.where(self.newest, self.shift, self.shifts)

    @torch.no_grad()
    def turn_to(self, classes: Sequence[int]) -> None:
        """Keep the pairs that were fitted, and start with a = 1, b = 0 for the other classes."""
        self.slopes[self.newest], self.shifts[self.newest] = self.slope, self.shift
        self.slope.fill_(1.0)
        self.shift.fill_(0.0)
        self.newest.fill_(False)
        self.newest[list(classes)] = True


class CorrectedHead(nn.Module):
    """A linear head whose logits are corrected for their bias towards new classes."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.linear = LinearHead(features, classes)
        self.correction = Correction(classes)

    def forward(self, z: Tensor) -> Tensor:
        return self.correction(self.linear(z))

    def bare(self, z: Tensor) -> Tensor:
        """Return the logits before the correction."""
        logits: Tensor = self.linear(z)
        return logits

    def as_linear(self) -> tuple[Tensor, Tensor]:
        weight, bias = self.linear.as_linear()
        a, b = self.correction.pairs()
        return a[:, None] * weight, a * bias + b
