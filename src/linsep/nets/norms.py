"""Normalisation layers by name, and what is done to BatchNorm's running statistics.

Knows layers. Knows nothing of tasks, or of who passes through when.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

Norm = Literal["batch", "group", "continual"]
MOST_GROUPS, FEWEST_CHANNELS = 32, 4  # of GroupNorm: in all, and in each of several groups


class ContinualNorm(nn.BatchNorm2d):
    """Continual normalisation, CN: x -> BatchNorm(GroupNorm(x)); only BatchNorm has an affine map.

    Pham, Liu and Hoi, "Continual Normalization", ICLR 2022. Each image is normalised by itself
    first, so that less is left to the statistics of whole batches, which lean to the newest task.
    Parameters and statistics have BatchNorm's names.
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.group_norm(x, groups(self.num_features), eps=self.eps))


def norm_layer(norm: Norm, channels: int) -> nn.Module:
    """A layer that normalises maps of so many channels."""
    if norm == "group":
        return nn.GroupNorm(groups(channels), channels)
    return ContinualNorm(channels) if norm == "continual" else nn.BatchNorm2d(channels)


def groups(channels: int) -> int:
    """At most 32 groups (Wu and He, 2018), all of the same size and of at least 4 channels."""
    most = max(1, min(MOST_GROUPS, channels // FEWEST_CHANNELS))
    return max(n for n in range(1, most + 1) if channels % n == 0)


@contextmanager
def untracked(net: nn.Module) -> Iterator[None]:
    """Inside, BatchNorm normalises by the batch as in training but keeps no running statistics."""
    layers = tracking(net)
    for layer in layers:
        layer.track_running_stats = False
    try:
        yield
    finally:
        for layer in layers:
            layer.track_running_stats = True


@torch.no_grad()
def reestimate(net: nn.Module, batches: Iterable[Tensor]) -> None:
    """Make BatchNorm's running statistics the averages over these batches, each counted once."""
    net.train()
    layers = [m for m in tracking(net) if m.training]  # not those of modules that do not learn
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a cumulative average
    for x in batches if layers else ():
        net(x)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    net.eval()


def tracking(net: nn.Module) -> list[_BatchNorm]:
    """The layers that keep running statistics: BatchNorm's, continual normalisation's too."""
    return [m for m in net.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
