"""Normalisation layers by name, and ways to update BatchNorm's running statistics."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

Norm = Literal["batch", "group", "continual"]
MOST_GROUPS, FEWEST_CHANNELS = 32, 4  # of GroupNorm: groups in all, and channels in each


class ContinualNorm(nn.BatchNorm2d):
    """Continual normalisation, CN: x -> BatchNorm(GroupNorm(x)); only BatchNorm has an affine map.

    Pham, Liu and Hoi, "Continual Normalization", ICLR 2022. Each image is normalised by itself
    first, so that less is left to the statistics of whole batches, which lean to the newest task.
    Parameters and statistics have BatchNorm's names.
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.group_norm(x, groups(self.num_features), eps=self.eps))


def norm_layer(norm: Norm, channels: int) -> nn.Module:
    """Build a layer that normalises maps with this many channels."""
    if norm == "group":
        return nn.GroupNorm(groups(channels), channels)
    return ContinualNorm(channels) if norm == "continual" else nn.BatchNorm2d(channels)


def groups(channels: int) -> int:
    """Return at most 32 groups (Wu and He, 2018), all equal and with at least 4 channels each."""
    most = max(1, min(MOST_GROUPS, channels // FEWEST_CHANNELS))
    return max(n for n in range(1, most + 1) if channels % n == 0)


@contextmanager
def untracked(net: nn.Module) -> Iterator[None]:
    """Let BatchNorm normalise by the batch, as in training, without updating its statistics."""
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
    """Set BatchNorm's running statistics to the averages over these batches, equally weighted."""
    net.train()
    layers = [m for m in tracking(net) if m.training]  # frozen modules keep theirs
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
    """Return the layers that keep running statistics: BatchNorm and continual normalisation."""
    return [m for m in net.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
