"""The last blocks of EfficientNet-Lite0 as a network of its own; maps.py computes what it reads.

The digest of this file is part of the key of every run that uses it.
"""

import torch
from torch import Tensor, nn

from linsep.nets.efficientnet import efficientnet_lite0
from linsep.nets.net import Backbone, Blocks, Shape

FIRST = "stage7"  # the first block of the tail
SIDE = 96  # of the images


class Maps(nn.Module):
    """From pictures, (n, 1, c, 4 h w) of bytes over 255, to the maps (n, c, h, w) they hold."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, x: Tensor) -> Tensor:
        numbers = (x[:, 0] * 255).round().to(torch.uint8).contiguous().view(torch.float32)
        maps = numbers.unflatten(2, (self.side, self.side))
        return maps.contiguous(memory_format=torch.channels_last)


def tail(shape: Shape) -> Backbone:
    """Build the blocks from `stage7` on, with weights trained on ImageNet."""
    whole = efficientnet_lite0((3, SIDE, SIDE))
    assert isinstance(whole, Blocks)
    names = list(whole.blocks)
    kept = names[names.index(FIRST) :]
    side = round((shape[2] / 4) ** 0.5)
    blocks = {"maps": Maps(side)} | {name: whole.blocks[name] for name in kept}
    return Blocks(blocks, [shape[1], *(whole.widths[name] for name in kept)])
