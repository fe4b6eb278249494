"""Random generators, each known by a name and a place in the run.

A generator is derived where it is used and thrown away, so there is nothing to advance, to store or
to restore.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import torch

CPU = torch.device("cpu")


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
    def keyed(self, name: str, *index: int, device: torch.device = CPU) -> Iterator[None]:
        """Key torch's global generators inside the block: for layers that are initialised or that
        are random themselves, such as dropout. They are afterwards what they were before.
        """
        # torch.manual_seed would reseed every accelerator, and nothing restores those.
        several = [torch.default_generator, *_generators(device)]
        before = [generator.get_state() for generator in several]
        try:
            for generator in several:
                # A generator may use the low 32 bits of its seed alone, so these are hashed ones.
                generator.manual_seed(self._key(name, index) % 2**63)
            yield
        finally:
            for generator, state in zip(several, before, strict=True):
                generator.set_state(state)

    def _key(self, name: str, index: tuple[int, ...]) -> int:
        place = repr((self.seed, name, tuple(map(int, index))))
        return int.from_bytes(blake2b(place.encode(), digest_size=16).digest(), "big")


def _generators(device: torch.device) -> list[torch.Generator]:
    """The global generator of an accelerator."""
    if device.type == "cuda":
        torch.cuda.init()
        index = torch.cuda.current_device() if device.index is None else device.index
        return [torch.cuda.default_generators[index]]
    if device.type == "mps":
        return [torch.mps._get_default_mps_generator()]
    return []
