"""Statistics: closed forms, counting, worked numbers, and what is refused."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from operator import mul
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linsep.compare import statistics
from linsep.errors import DataError

BAD: tuple[Any, ...] = ([], [1.0, math.nan], [1.0, math.inf], [[1.0, 2.0]])
accuracies = st.floats(0, 100).map(lambda x: round(x, 2))


def by_seed(values: list[float]) -> dict[int, float]:
    return dict(enumerate(values))


def student_cdf(t: float, df: int) -> float:
    """In closed form, which Student's t has for few degrees of freedom."""
    match df:
        case 2:
            return 0.5 + t / (2 * math.sqrt(2 + t * t))
        case 4:
            share = t * t / (1 + t * t / 4)
            return 0.5 + 0.375 * t / math.sqrt(1 + t * t / 4) * (1 - share / 12)
    raise AssertionError(df)


def flipped(differences: Sequence[float]) -> float:
    """The share of sign patterns whose sum is as far from 0, counted one by one, in fractions."""
    exact = [Fraction(d) for d in differences]
    sums = [sum(map(mul, signs, exact)) for signs in product((1, -1), repeat=len(exact))]
    return sum(abs(total) >= abs(sum(exact)) for total in sums) / len(sums)


@pytest.mark.parametrize("n", [3, 5])
def test_intervals_and_p_obey_students_distribution(n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(3):
        a, b = (rng.normal(60, 5, size=n).tolist() for _ in range(2))
        found = statistics.summarise(a)
        assert found.std == pytest.approx(np.std(a, ddof=1), rel=1e-12)
        assert found.std is not None
        assert found.low is not None
        assert found.high is not None
        assert found.low + found.high == pytest.approx(2 * found.mean)
        t = (found.high - found.mean) / (found.std / math.sqrt(n))
        assert student_cdf(t, n - 1) == pytest.approx(0.975, rel=1e-9)

        result = statistics.paired(by_seed(a), by_seed(b))
        gap = np.subtract(a, b)
        t = gap.mean() / (gap.std(ddof=1) / math.sqrt(n))
        assert result.t == pytest.approx(t, rel=1e-9)
        assert result.p == pytest.approx(2 * student_cdf(-abs(t), n - 1), rel=1e-9)


@given(st.lists(st.integers(-40, 40).map(lambda x: x / 8), min_size=1, max_size=8))
def test_exact_sign_flips_count_every_pattern(differences: list[float]) -> None:
    assert statistics.sign_flip(differences) == pytest.approx(flipped(differences), rel=1e-12)


def test_sign_flips_by_hand() -> None:
    # |±1 ±2 ±3| is at least 4 for +++, ---, and the two patterns that flip only the 1
    samples = [[-1.0, 2.0, 3.0], [1.0] * 5, [0.0, 0.0], [2.0]]
    # five seeds cannot give less than 2 / 32
    assert [statistics.sign_flip(sample) for sample in samples] == [4 / 8, 2 / 32, 1.0, 1.0]


def test_sampled_sign_flips_near_the_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = np.random.default_rng(3).normal(0.4, 1, size=12).tolist()
    exact = statistics.sign_flip(differences)
    monkeypatch.setattr(statistics, "EXACT_UP_TO", 0)
    monkeypatch.setattr(statistics, "DRAWS", 4_000)  # fewer than there are patterns
    sampled = statistics.sign_flip(differences)
    assert sampled != exact
    assert sampled == pytest.approx(exact, abs=0.03)
    assert sampled == statistics.sign_flip(differences)


def test_one_value_has_no_spread_and_two_have_no_interval_and_no_p() -> None:
    assert statistics.summarise([3.0]) == statistics.Summary(1, 3.0, None, None, None)
    assert statistics.summarise([3.0, 5.0]) == statistics.Summary(2, 4.0, 2**0.5, None, None)
    result = statistics.paired({0: 2.0, 1: 4.0}, {0: 1.0, 1: 5.0})
    assert (result.t, result.p, result.p_flips) == (None, None, None)
    assert (result.difference.mean, result.wins, result.losses) == (0.0, 1, 1)


def test_zero_variance() -> None:
    equal = {seed: 60 + 0.1 * seed for seed in range(5)}
    shifted = {seed: value + 6.8 for seed, value in equal.items()}  # differs by rounding only
    better = statistics.paired(shifted, equal)
    assert (better.difference.std, better.t, better.p) == (0.0, math.inf, 0.0)
    assert better.difference.low == better.difference.high == better.difference.mean
    assert statistics.paired(equal, shifted).t == -math.inf
    same = statistics.paired(equal, equal)
    assert (same.t, same.p, same.ties, same.p_flips) == (0.0, 1.0, 5, 1.0)


@given(
    a=st.lists(accuracies, min_size=3, max_size=3), b=st.lists(accuracies, min_size=3, max_size=3)
)
def test_swapping_the_sides_mirrors_the_result(a: list[float], b: list[float]) -> None:
    one, two = (statistics.paired(by_seed(x), by_seed(y)) for x, y in ((a, b), (b, a)))
    assert one.p == two.p
    assert one.p_flips == two.p_flips
    assert (one.wins, one.losses) == (two.losses, two.wins)
    assert one.difference.mean == -two.difference.mean


@pytest.mark.parametrize("values", BAD)
def test_bad_values_are_refused(values: list[float]) -> None:
    for function in (statistics.mean, statistics.std, statistics.summarise):
        with pytest.raises(DataError, match="statistics need"):
            function(values)
    with pytest.raises(DataError, match="statistics need"):
        statistics.sign_flip(values)
