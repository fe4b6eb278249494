"""What a handful of seeds allows one to conclude: spread, intervals, paired differences.

Pure functions of numbers; Student's distribution is scipy's, imported when first needed.

Every std here is the sample's (divided by n - 1). The paper does not state which of the two its ±
is. One value has no spread, and fewer than three have no interval and no p-value: these are None,
never 0. NaN and infinity are refused. With n pairs the smallest two-sided p of a sign-flip test is
2 / 2^n: 0.0625 for five.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError

FEWEST = 3  # values with an interval: with two, it is 9 standard deviations to each side
EXACT_UP_TO = 16  # differences; beyond it 2^n sign patterns are sampled, not counted
DRAWS = 99_999  # sampled patterns


@dataclass(frozen=True)
class Summary:
    """Mean, sample std and Student's interval for the mean; None where there are too few values."""

    n: int
    mean: float
    std: float | None
    low: float | None
    high: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    def __str__(self) -> str:
        return f"{self.mean:z.2f}" + (f" ± {self.std:.2f}" if self.std is not None else "")


@dataclass(frozen=True)
class Paired:
    """The differences a - b over the keys both have, and tests of them, None with too few keys.

    Wins are pairs where a is higher, whether or not that is better.
    """

    keys: tuple[Any, ...]  # seeds, or whatever identifies a pair
    gaps: Sequence[float]  # of each pair
    difference: Summary
    t: float | None
    p: float | None  # of the paired t test
    p_flips: float | None  # of the sign-flip test
    wins: int
    losses: int
    ties: int


def mean(values: Sequence[float]) -> float:
    return float(_checked(values).mean())


def std(values: Sequence[float], noise: float = 0.0) -> float | None:
    """Sample standard deviation; None for one value; 0 if it is only rounding, or below `noise`."""
    array = _checked(values)
    if len(array) == 1:
        return None
    found = float(array.std(ddof=1))
    return 0.0 if found <= max(noise, _rounding(array)) else found


def summarise(values: Sequence[float], noise: float = 0.0) -> Summary:
    """Mean, std and the 95 % t-interval; a std up to `noise` counts as 0."""
    centre, spread, n = mean(values), std(values, noise), len(values)
    if spread is None or n < FEWEST:
        return Summary(n, centre, spread, None, None)
    half = _student_quantile(n - 1) * spread / math.sqrt(n)
    return Summary(n, centre, spread, centre - half, centre + half)


def paired(a: Mapping[Any, float], b: Mapping[Any, float]) -> Paired:
    """Compare two methods pair by pair: {seed: value} each; what only one has is left out."""
    keys = tuple(sorted(a.keys() & b.keys()))
    if not keys:
        raise DataError(f"no seed in common: {sorted(a)} and {sorted(b)}")
    left, right = _checked([a[k] for k in keys]), _checked([b[k] for k in keys])
    noise = _rounding(np.concatenate([left, right]))
    gaps = [0.0 if abs(d) <= noise else float(d) for d in left - right]
    difference = summarise(gaps, noise)
    flips = sign_flip(gaps) if len(gaps) >= FEWEST else None
    signs = [sum(d > 0 for d in gaps), sum(d < 0 for d in gaps), sum(d == 0 for d in gaps)]
    return Paired(keys, gaps, difference, *_paired_t(difference), flips, *signs)


def sign_flip(differences: Sequence[float]) -> float:
    """The p-value of a two-sided test that differences are symmetric about 0.

    It is how often a sum with random signs is at least as far from 0 as the one seen: exact up to
    16 differences and sampled beyond, with the same signs each time.
    """
    array = _checked(differences)
    array = array / (abs(array).sum() or 1.0)
    sampled = len(array) > EXACT_UP_TO
    signs = _sampled_signs(len(array)) if sampled else _signs(len(array))
    sums = (signs @ array).round(12)  # sums that differ by rounding only are equal
    as_far = int((abs(sums) >= abs(array.sum().round(12))).sum())
    return (as_far + sampled) / (len(signs) + sampled)  # the seen signs are one more sample


def holm(chances: Sequence[float]) -> list[float]:
    """The p-values of several tests, adjusted so that one false alarm among all is as rare.

    Holm (1979): the smallest of m is multiplied by m, the next by m - 1, and so on; none may be
    smaller than one before it.
    """
    found, least = [0.0] * len(chances), 0.0
    for rank, i in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        least = max(least, min(1.0, (len(chances) - rank) * chances[i]))
        found[i] = least
    return found


@cache
def _signs(n: int) -> NDArray[np.float64]:
    """Every pattern of n signs, (2^n, n)."""
    return np.array(list(product((1.0, -1.0), repeat=n)))


@cache
def _sampled_signs(n: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).choice((1.0, -1.0), (DRAWS, n))


@cache
def _student_quantile(df: int) -> float:
    from scipy.stats import t

    return float(t.ppf(0.975, df))


def _paired_t(difference: Summary) -> tuple[float | None, float | None]:
    """t and its two-sided p. Equal differences give (±inf, 0), or (0, 1) if all of them are 0."""
    n, centre, spread = difference.n, difference.mean, difference.std
    if spread is None or n < FEWEST:
        return None, None
    if spread == 0:
        return (0.0, 1.0) if centre == 0 else (math.copysign(math.inf, centre), 0.0)
    from scipy.stats import t as student

    t = centre / (spread / math.sqrt(n))
    return t, 2 * float(student.sf(abs(t), n - 1))


def _rounding(values: NDArray[np.float64]) -> float:
    """How far apart numbers of this size may be and still be equal but for rounding."""
    return 8 * float(np.finfo(np.float64).eps) * float(abs(values).max())


def _checked(values: Sequence[float]) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not array.size:
        raise DataError(f"statistics need a flat, non-empty list of numbers, found {array.shape}")
    if not np.isfinite(array).all():
        raise DataError(f"statistics need finite numbers, found {array.tolist()}")
    return array
