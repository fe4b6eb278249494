"""Random generators, each known by a name and a place in the run.

Knows a seed and how to hash it. Knows no consumer: a generator is derived where it is used and
thrown away, so there is nothing to advance, to store or to restore.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import torch


class Cursor(NamedTuple):
    """The next thing a run will do. As an index of a generator it is written `*cursor`."""

    task: int = 0  # place in the order of learning
    stage: int = 0
    epoch: int = 0
    step: int = 0


@dataclass(frozen=True)
class Randomness:
    seed: int

    def at(self, name: str, *index: int) -> np.random.Generator:
        """Return the generator of this name and place, always in the same initial state."""
        return np.random.Generator(np.random.Philox(key=self._key(name, index)))

    @contextmanager
    def initialising(self, name: str, *index: int) -> Iterator[None]:
        """Key torch's global CPU generator inside the block, for layer initialisers."""
        before = torch.default_generator.get_state()
        try:
            # torch.manual_seed would reseed the accelerators too, and nothing restores those.
            # The generator uses only the low 32 bits of its seed, so these must be hashed ones.
            torch.default_generator.manual_seed(self._key(name, index) % 2**63)
            yield
        finally:
            torch.default_generator.set_state(before)

    def _key(self, name: str, index: tuple[int, ...]) -> int:
        place = repr((self.seed, name, tuple(map(int, index))))
        return int.from_bytes(blake2b(place.encode(), digest_size=16).digest(), "big")
