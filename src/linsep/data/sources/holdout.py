"""Which images to test on, where the data have no split: a share of every class.

Knows labels and a seed. The choice within a class depends on its name and size only, so another
class can come or go without moving an image.
"""

from collections.abc import Hashable, Sequence
from hashlib import blake2b
from typing import Annotated

import numpy as np
from pydantic import Field

from ...errors import DataError

TestShare = Annotated[float, Field(gt=0, lt=1)]
Seed = Annotated[int, Field(ge=0)]


def hold_out(
    groups: Sequence[Hashable], share: float, seed: int, where: str
) -> tuple[list[int], list[int]]:
    """Return the rows to train on and those to test on, each in order; every group is in both."""
    if not 0 < share < 1:
        raise DataError(f"{where}: test_share is {share}; it must be between 0 and 1")
    rows: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        rows.setdefault(group, []).append(row)
    test: set[int] = set()
    for group, members in rows.items():
        if len(members) < 2:
            raise DataError(
                f"{where}: {group!r} has one image; it takes two to train on one and test on one"
            )
        count = min(max(1, round(share * len(members))), len(members) - 1)
        key = int.from_bytes(blake2b(repr(group).encode(), digest_size=8).digest())
        chosen = np.random.default_rng([seed, key]).permutation(len(members))[:count]
        test.update(members[i] for i in chosen)
    return [r for r in range(len(groups)) if r not in test], sorted(test)
