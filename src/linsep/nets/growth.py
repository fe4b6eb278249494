"""Heads that grow: a row for each class so far, and states with places for more classes.

`ByRow` makes the initial values of a row depend on its class and on nothing else, so that the same
classes in the same order give the same head however many of them are announced at a time.

Knows shapes and state dictionaries. Knows nothing of tasks.
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
    """A head whose rows are each initialised by a generator of their own, known by the class."""

    head: Head

    def __call__(self, features: int, classes: int) -> nn.Module:
        own = Randomness(int(torch.randint(2**62, ())))  # of the generator that is set around this
        whole = self.head(features, classes)
        state = whole.state_dict()  # of views: writing to it changes the head
        for c in range(classes):
            with own.keyed("row", c):
                one, two = (self.head(features, n).state_dict() for n in (1, 2))
            for name, value in one.items():
                if value.shape != two[name].shape:
                    state[name][c] = value[0]
        return whole


def widened(old: Any, fresh: Any) -> Any:
    """The old values in a state of the fresh one's shapes; what had no place before is fresh."""
    if isinstance(fresh, Mapping):
        return {name: widened(old[name], fresh[name]) for name in fresh}
    if not isinstance(fresh, Tensor) or old.shape == fresh.shape:
        return old
    result = fresh.clone()
    result[tuple(slice(n) for n in old.shape)] = old
    return result


def places_of(narrow: nn.Module, wide: nn.Module) -> Tensor:
    """Where each number of a net's parameters in one vector is in the vector of a wider net."""
    places, start = [], 0
    old = dict(narrow.named_parameters())
    for name, parameter in wide.named_parameters():
        own = torch.arange(parameter.numel()).view(parameter.shape)
        places.append(start + own[tuple(slice(n) for n in old[name].shape)].reshape(-1))
        start += parameter.numel()
    return torch.cat(places)
