"""Methods with a backward term added, as parameters of tests: every pair, most of them marked slow.

The tests that are not slow see every method alone, every method with one term, every term with
several methods, and DER++ with all terms.
"""

from collections.abc import Collection
from typing import Any

import pytest

from linsep.methods import METHODS
from linsep.testing import BACKWARD

LEARNING = [name for name in METHODS if name != "jt"]  # which has no tasks
ALWAYS = "derpp"


def pairs(bases: Collection[str] = tuple(METHODS)) -> list[Any]:
    """Every base with every term."""
    return [
        pytest.param(base, term, marks=_marks(b, t, base))
        for b, base in enumerate(bases)
        for t, term in enumerate(BACKWARD)
    ]


def names(bases: Collection[str] = tuple(METHODS)) -> list[Any]:
    """Every base alone and with every term: "er", "er+bfp"."""
    added = [pytest.param("+".join(pair.values), marks=pair.marks) for pair in pairs(bases)]
    return [*bases, *added]


def _marks(b: int, t: int, base: str) -> Any:
    quick = (b - t) % len(BACKWARD) == 0 or base == ALWAYS
    return () if quick else pytest.mark.slow
