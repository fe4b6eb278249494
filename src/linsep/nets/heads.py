"""Heads: features to logits, one for every class there will ever be; and heads that grow.

Which rows are free to learn, and which classes are the newest, a method's stages say. Every head
decides as some linear one does: `as_linear` gives weights and biases (w, b) such that w z + b and
the head's logits are largest at the same class, for every z.

`ByRow` makes the initial values of a row depend on its class and on nothing else, so that the same
classes in the same order give the same head however many of them are announced at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..randomness import Randomness

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


@dataclass(frozen=True)
class ByRow:
    """A head that initialises each row with a generator of its own, keyed by the class."""

    head: Head

    def __call__(self, features: int, classes: int) -> nn.Module:
        own = Randomness(int(torch.randint(2**62, ())))  # from the caller's generator
        whole = self.head(features, classes)
        state = whole.state_dict()  # holds views: writing to them changes the head
        for c in range(classes):
            with own.keyed("row", c):
                one, two = (self.head(features, n).state_dict() for n in (1, 2))
            for name, value in one.items():
                if value.shape != two[name].shape:
                    state[name][c] = value[0]
        return whole


def widened(old: Any, fresh: Any) -> Any:
    """Copy the old values into a state of the new shapes; new places keep their fresh values."""
    if isinstance(fresh, Mapping):
        return {name: widened(old[name], fresh[name]) for name in fresh}
    if not isinstance(fresh, Tensor) or old.shape == fresh.shape:
        return old
    result = fresh.clone()
    result[tuple(slice(n) for n in old.shape)] = old
    return result


def narrowed(old: Any, fresh: Any, *chosen: Tensor) -> Any:
    """Choose of the old values those that a state of the new shapes has places for.

    Where a side is shorter than it was, its places are those of `chosen` of that length.
    """
    if isinstance(fresh, Mapping):
        return {name: narrowed(old[name], fresh[name], *chosen) for name in fresh}
    if not isinstance(fresh, Tensor):
        return old
    for side, length in enumerate(fresh.shape):
        if old.shape[side] != length:
            places = next(places for places in chosen if len(places) == length)
            old = old.index_select(side, places.to(old.device))
    return old


def places_of(narrow: nn.Module, wide: nn.Module, chosen: Tensor) -> Tensor:
    """Map each place in the flat parameter vector of a net to its place in that of a wider net.

    `chosen` are the classes of the wider net that the other one has.
    """
    places, start = [], 0
    few = dict(narrow.named_parameters())
    for name, parameter in wide.named_parameters():
        own = torch.arange(parameter.numel()).view(parameter.shape)
        places.append(start + narrowed(own, few[name], chosen).reshape(-1))
        start += parameter.numel()
    return torch.cat(places)
