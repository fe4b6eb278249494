"""Methods with a backward term added, as parameters of tests.

Every method with BFP, which is marked slow where it has another term, every term with several
methods, and DER++ with all terms: the three differ in their map alone.
"""

from collections.abc import Collection
from typing import Any

import pytest

from linsep.learning.method import Method
from linsep.methods import METHODS, assemble
from linsep.testing import BACKWARD

NARROW = {name: {"width": 8} for name in ("ranpac", "acil")}  # their default takes seconds
STILL = ("ncm", "slda", "ranpac", "acil")  # which take no steps
LEARNING = [name for name in METHODS if name not in ("jt", *STILL)]  # by steps, task by task
ALWAYS = "derpp"


def small(name: str) -> Method:
    """A method with options that make it quick."""
    return assemble(name, {part: NARROW[part] for part in name.split("+") if part in NARROW})


def pairs(bases: Collection[str] = tuple(METHODS)) -> list[Any]:
    """Every base with BFP, and with one term that is not slow."""
    found = []
    for b, base in enumerate(bases):
        quick = BACKWARD if base == ALWAYS else (BACKWARD[b % len(BACKWARD)],)
        slow = {"bfp"} - set(quick)
        found += [pytest.param(base, term) for term in quick]
        found += [pytest.param(base, term, marks=pytest.mark.slow) for term in slow]
    return found


def names(bases: Collection[str] = tuple(METHODS)) -> list[Any]:
    """The same and every base alone: "er", "er+bfp"."""
    added = [pytest.param("+".join(pair.values), marks=pair.marks) for pair in pairs(bases)]
    return [*bases, *added]
