"""Images as features of a net that does not learn, kept as rows of numbers (columns.py)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..data.augment import as_bytes
from ..data.images import Images
from ..learning.model import Model
from ..nets.net import Shape


@dataclass
class Frozen:
    """A net without a head, and the shape of the images that it reads."""

    model: Model
    shape: Shape

    def __call__(self, rows: Tensor) -> Tensor:
        """Images (n, c, h, w) as rows of features, (n, 1, 1, 4d) bytes."""
        nothing = torch.zeros(len(rows), dtype=torch.int64)
        return as_bytes(self.model.embed(Images.of(rows, nothing)).cpu().numpy())
