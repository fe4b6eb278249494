"""Rows of numbers instead of images: float32 columns, kept as the bytes they are made of.

Memories, batches and run states hold uint8, so a row of d numbers is stored as an image of 1 x 4d
bytes and read back without loss. Knows nothing of classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.augment import Augment

BYTES = 4  # of a float32


@dataclass(frozen=True)
class Columns(Augment):
    """Standardises columns; nothing is varied."""

    @classmethod
    def of(cls, rows: NDArray[np.float32]) -> Columns:
        """By these rows' means and deviations; a column that never varies is only centred."""
        mean, std = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
        spread = np.where(std > 0, std, 1.0)
        return cls((1, rows.shape[1]), tuple(mean.tolist()), tuple(spread.tolist()), flip=False)

    def train(self, raw: Tensor, rng: np.random.Generator) -> Tensor:
        return self.eval(raw)

    def eval(self, raw: Tensor) -> Tensor:
        """(n, 1, 1, 4d) uint8 -> (n, 1, 1, d) float32."""
        values = raw.contiguous().view(torch.float32).double()
        mean, std = (torch.tensor(v, dtype=torch.float64) for v in (self.mean, self.std))
        return ((values - mean.to(raw.device)) / std.to(raw.device)).float()


def as_bytes(rows: NDArray[np.float32]) -> Tensor:
    """(n, d) float32 -> (n, 1, 1, 4d) uint8."""
    whole = torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32))
    return whole.view(torch.uint8).view(len(rows), 1, 1, BYTES * rows.shape[1])
