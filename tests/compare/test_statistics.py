"""Statistics: agreement with scipy, worked numbers, and what is refused."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc

from linsep.compare import statistics
from linsep.errors import DataError

BAD: tuple[Any, ...] = ([], [1.0, math.nan], [1.0, math.inf], [[1.0, 2.0]])
accuracies = st.floats(0, 100).map(lambda x: round(x, 2))
degrees = st.one_of(st.integers(1, 60).map(float), st.floats(0.5, 1e4))


def by_seed(values: list[float]) -> dict[int, float]:
    return dict(enumerate(values))


@given(t=st.floats(-60, 60), df=degrees)
def test_student_cdf_matches_scipy(t: float, df: float) -> None:
    assert statistics.student_cdf(t, df) == pytest.approx(scipy.stats.t.cdf(t, df), abs=1e-10)


@given(p=st.floats(1e-6, 1 - 1e-6), df=degrees)
def test_student_quantile_matches_scipy(p: float, df: float) -> None:
    expected = float(scipy.stats.t.ppf(p, df))
    assert statistics.student_quantile(p, df) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(a=st.floats(0.1, 500), b=st.floats(0.1, 500), x=st.floats(0, 1))
def test_incomplete_beta_matches_scipy(a: float, b: float, x: float) -> None:
    assert statistics.incomplete_beta(a, b, x) == pytest.approx(betainc(a, b, x), abs=1e-11)


def test_student_by_hand() -> None:
    assert statistics.student_cdf(1.0, 1) == pytest.approx(0.75, abs=1e-14)  # Cauchy
    assert statistics.student_quantile(0.975, 4) == pytest.approx(2.7764451051977987)
    assert statistics.student_quantile(0.5, 3) == 0.0
    assert statistics.student_cdf(-math.inf, 3) == 0.0
    assert statistics.student_cdf(math.inf, 3) == 1.0


@pytest.mark.parametrize("n", [2, 3, 5, 10, 40])
def test_summary_and_paired_t_match_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(20):
        a, b = (rng.normal(60, 5, size=n).tolist() for _ in range(2))
        summary = statistics.summarise(a)
        low, high = scipy.stats.t.interval(0.95, n - 1, np.mean(a), scipy.stats.sem(a))
        found = (summary.n, summary.mean, summary.std, summary.low, summary.high)
        assert found == pytest.approx((n, np.mean(a), np.std(a, ddof=1), low, high), rel=1e-9)

        result = statistics.paired(by_seed(a), by_seed(b), np.random.default_rng(0))
        expected = scipy.stats.ttest_rel(a, b)
        interval = expected.confidence_interval(0.95)
        assert (result.t, result.p) == pytest.approx((expected.statistic, expected.pvalue), 1e-9)
        assert result.difference.low == pytest.approx(interval.low, rel=1e-9)
        assert result.difference.high == pytest.approx(interval.high, rel=1e-9)


@pytest.mark.parametrize("n", [2, 5, 9])
def test_exact_sign_flip_matches_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    differences = rng.normal(0.5, 1, size=n)
    found = statistics.sign_flip(differences.tolist())
    expected = scipy.stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=2**n
    )
    assert found.exact
    assert found.draws == 2**n
    assert found.p == pytest.approx(expected.pvalue)


def test_sign_flip_by_hand() -> None:
    # |±1 ±2 ±3| is at least 4 for +++, ---, and the two patterns that flip only the 1
    assert statistics.sign_flip([-1.0, 2.0, 3.0]).p == 4 / 8
    assert statistics.sign_flip([1.0] * 5).p == 2 / 32  # the least five seeds can give
    assert statistics.sign_flip([0.0, 0.0]).p == 1.0


def test_sampled_sign_flip_nears_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = np.random.default_rng(3).normal(0.4, 1, size=12).tolist()
    exact = statistics.sign_flip(differences).p
    monkeypatch.setattr(statistics, "EXACT_UP_TO", 0)
    sampled = statistics.sign_flip(differences, np.random.default_rng(0), draws=40_000)
    assert not sampled.exact
    assert sampled.p == pytest.approx(exact, abs=0.01)
    assert sampled == statistics.sign_flip(differences, np.random.default_rng(0), draws=40_000)


def test_many_seeds_need_a_generator() -> None:
    with pytest.raises(DataError, match="Generator"):
        statistics.sign_flip([1.0] * 17)


def test_pairs_are_made_by_seed() -> None:
    result = statistics.paired({0: 70.0, 1: 71.0, 2: 69.0, 9: 1.0}, {2: 69.0, 1: 70.5, 0: 71.0})
    assert result.seeds == (0, 1, 2)
    assert (result.wins, result.losses, result.ties) == (1, 1, 1)
    assert result.difference.mean == pytest.approx(-0.5 / 3)


def test_no_common_seed_is_refused() -> None:
    with pytest.raises(DataError, match=r"no seed in common: \[0\] and \[1\]"):
        statistics.paired({0: 1.0}, {1: 1.0})


def test_one_value_has_no_spread() -> None:
    assert statistics.summarise([3.0]) == statistics.Summary(1, 3.0, None, None, None)
    result = statistics.paired({0: 2.0}, {0: 1.0})
    assert (result.t, result.p, result.difference.std) == (None, None, None)
    assert result.sign_flip.p == 1.0


def test_zero_variance() -> None:
    equal = {seed: 60 + 0.1 * seed for seed in range(5)}
    shifted = {seed: value + 6.8 for seed, value in equal.items()}  # differs by rounding only
    better = statistics.paired(shifted, equal)
    assert (better.difference.std, better.t, better.p) == (0.0, math.inf, 0.0)
    assert better.difference.low == better.difference.high == better.difference.mean
    assert statistics.paired(equal, shifted).t == -math.inf
    same = statistics.paired(equal, equal)
    assert (same.t, same.p, same.ties, same.sign_flip.p) == (0.0, 1.0, 5, 1.0)


@given(values=st.lists(accuracies, min_size=2, max_size=12), shift=accuracies)
def test_shifting_moves_the_mean_only(values: list[float], shift: float) -> None:
    plain, moved = (statistics.summarise(v) for v in (values, [x + shift for x in values]))
    assert moved.mean == pytest.approx(plain.mean + shift)
    assert moved.std == pytest.approx(plain.std, abs=1e-9)


@given(
    a=st.lists(accuracies, min_size=3, max_size=3), b=st.lists(accuracies, min_size=3, max_size=3)
)
def test_swapping_the_sides_mirrors_the_result(a: list[float], b: list[float]) -> None:
    one, two = (statistics.paired(by_seed(x), by_seed(y)) for x, y in ((a, b), (b, a)))
    assert one.p == two.p
    assert one.sign_flip == two.sign_flip
    assert (one.wins, one.losses) == (two.losses, two.wins)
    assert one.difference.mean == -two.difference.mean


@pytest.mark.parametrize("values", BAD)
def test_bad_values_are_refused(values: list[float]) -> None:
    for function in (statistics.mean, statistics.std, statistics.summarise, statistics.sign_flip):
        with pytest.raises(DataError, match="statistics need"):
            function(values)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(DataError, match="level"):
        statistics.summarise([1.0, 2.0], level=95)
    with pytest.raises(DataError, match="probability"):
        statistics.student_quantile(1.0, 3)
    with pytest.raises(DataError, match="degrees of freedom"):
        statistics.student_cdf(1.0, 0)
