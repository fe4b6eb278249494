"""Heads that grow: they have a row for each class so far, and their states can be widened.

`ByRow` makes the initial values of a row depend on its class and on nothing else, so that the same
classes in the same order give the same head however many of them are announced at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..randomness import Randomness
from .heads import Head


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


def places_of(narrow: nn.Module, wide: nn.Module) -> Tensor:
    """Map each place in the flat parameter vector of a net to its place in that of a wider net."""
    places, start = [], 0
    old = dict(narrow.named_parameters())
    for name, parameter in wide.named_parameters():
        own = torch.arange(parameter.numel()).view(parameter.shape)
        places.append(start + own[tuple(slice(n) for n in old[name].shape)].reshape(-1))
        start += parameter.numel()
    return torch.cat(places)
