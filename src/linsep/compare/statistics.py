"""What a handful of seeds allows one to say: spread, intervals, paired differences.

Pure functions of numbers; numpy only. Knows nothing of runs, methods or tables.

Every std here is the sample's (divided by n - 1). The paper does not say which of the two its ± is.
One value has no spread: its std and interval are None, never 0. NaN and infinity are refused.
With n seeds the smallest two-sided p of a sign-flip test is 2 / 2^n: 0.0625 for five.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError

EXACT_UP_TO = 16  # differences; beyond it 2^n sign patterns are sampled, not counted


@dataclass(frozen=True)
class Summary:
    """Mean, sample std and Student's interval for the mean; the last three are None if n is 1."""

    n: int
    mean: float
    std: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class SignFlip:
    """A sign-flip test: its p-value, and whether all patterns were counted or `draws` sampled."""

    p: float
    exact: bool
    draws: int


@dataclass(frozen=True)
class Paired:
    """The differences a - b over the seeds both have. `t` and `p` are None if that is one seed.

    Wins are seeds where a is higher, whether or not that is better.
    """

    seeds: tuple[int, ...]
    difference: Summary
    t: float | None
    p: float | None
    sign_flip: SignFlip
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


def summarise(values: Sequence[float], level: float = 0.95, noise: float = 0.0) -> Summary:
    """Mean, std and the t-interval at `level`; a std up to `noise` counts as 0."""
    if not 0 < level < 1:
        raise DataError(f"a confidence level lies between 0 and 1, found {level}")
    centre, spread, n = mean(values), std(values, noise), len(values)
    if spread is None:
        return Summary(n, centre, None, None, None)
    half = student_quantile((1 + level) / 2, n - 1) * spread / math.sqrt(n)
    return Summary(n, centre, spread, centre - half, centre + half)


def paired(
    a: Mapping[int, float],
    b: Mapping[int, float],
    generator: np.random.Generator | None = None,
    level: float = 0.95,
) -> Paired:
    """Compare two methods seed by seed: {seed: value} each; seeds that only one has are left out.

    `generator` is needed only beyond 16 shared seeds, where the sign-flip test samples.
    """
    seeds = tuple(sorted(a.keys() & b.keys()))
    if not seeds:
        raise DataError(f"no seed in common: {sorted(a)} and {sorted(b)}")
    left, right = _checked([a[s] for s in seeds]), _checked([b[s] for s in seeds])
    noise = _rounding(np.concatenate([left, right]))
    differences = [0.0 if abs(d) <= noise else float(d) for d in left - right]
    difference = summarise(differences, level, noise)
    t, p = _paired_t(difference)
    return Paired(
        seeds=seeds,
        difference=difference,
        t=t,
        p=p,
        sign_flip=sign_flip(differences, generator),
        wins=sum(d > 0 for d in differences),
        losses=sum(d < 0 for d in differences),
        ties=sum(d == 0 for d in differences),
    )


def sign_flip(
    differences: Sequence[float],
    generator: np.random.Generator | None = None,
    draws: int = 100_000,
) -> SignFlip:
    """Two-sided test that differences are symmetric about 0: how often a sum with random signs is
    at least as far from 0 as the one seen. Exact up to 16 differences, sampled beyond.
    """
    array = _checked(differences)
    n, seen = len(array), abs(float(array.sum()))
    enough = seen - 1e-12 * float(abs(array).sum())  # sums that differ by rounding only are equal
    if n <= EXACT_UP_TO:
        bits = np.arange(2**n)[:, None] >> np.arange(n) & 1
        extreme = int((abs((1 - 2 * bits) @ array) >= enough).sum())
        return SignFlip(extreme / 2**n, exact=True, draws=2**n)
    if generator is None:
        raise DataError(f"a sign-flip test of {n} differences samples: give it a numpy Generator")
    extreme = 0
    for start in range(0, draws, 4096):
        size = (min(4096, draws - start), n)
        signs = 1 - 2 * generator.integers(0, 2, size=size, dtype=np.int8).astype(float)
        extreme += int((abs(signs @ array) >= enough).sum())
    return SignFlip((extreme + 1) / (draws + 1), exact=False, draws=draws)


def student_cdf(t: float, df: float) -> float:
    """P(T <= t) for Student's t with `df` degrees of freedom."""
    tail = _student_tail(abs(t), df)
    return tail if t < 0 else 1 - tail


@cache
def student_quantile(p: float, df: float) -> float:
    """The t with P(T <= t) = p, by bisection."""
    if not 0 < p < 1:
        raise DataError(f"a quantile's probability lies between 0 and 1, found {p}")
    tail, sign = (p, -1.0) if p < 0.5 else (1 - p, 1.0)
    low, high = 0.0, 1.0
    while _student_tail(high, df) > tail:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        if _student_tail(middle, df) > tail:
            low = middle
        else:
            high = middle
    return sign * high if tail < 0.5 else 0.0


def incomplete_beta(a: float, b: float, x: float, rest: float | None = None) -> float:
    """The regularised I_x(a, b). `rest` is 1 - x where the caller knows it more exactly."""
    y = 1 - x if rest is None else rest
    if x <= 0:
        return 0.0
    if y <= 0:
        return 1.0
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(scale + a * math.log(x) + b * math.log(y))
    if x < (a + 1) / (a + b + 2):  # where the fraction converges fast
        return front * _beta_fraction(a, b, x) / a
    return 1 - front * _beta_fraction(b, a, y) / b


def _student_tail(t: float, df: float) -> float:
    """P(T > t) for t >= 0."""
    if not df > 0:
        raise DataError(f"degrees of freedom are positive, found {df}")
    if math.isinf(t):
        return 0.0
    square = t * t
    return incomplete_beta(df / 2, 0.5, df / (df + square), square / (df + square)) / 2


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            return value
    raise ArithmeticError(f"the incomplete beta function did not converge at {a}, {b}, {x}")


def _paired_t(difference: Summary) -> tuple[float | None, float | None]:
    """t and its two-sided p. Equal differences give (±inf, 0), or (0, 1) if all of them are 0."""
    n, centre, spread = difference.n, difference.mean, difference.std
    if spread is None:
        return None, None
    if spread == 0:
        return (0.0, 1.0) if centre == 0 else (math.copysign(math.inf, centre), 0.0)
    t = centre / (spread / math.sqrt(n))
    return t, 2 * _student_tail(abs(t), n - 1)


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
