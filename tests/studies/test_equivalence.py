"""Two one-sided tests, worked out by scipy's Welch test, and what is decided before all seeds."""

import json
from pathlib import Path

import pytest
from scipy.stats import ttest_ind

from studies.equivalence import (
    FOLDER,
    MARGIN,
    PLANNED,
    Quantity,
    authors,
    linsep,
    quantities,
    welch,
)

OURS, THEIRS = [40.1, 41.3, 39.8, 40.6], [40.4, 40.9, 39.5, 40.2, 40.0]


def test_the_tests_are_welchs_against_both_margins() -> None:
    found = welch(OURS, THEIRS)
    above = ttest_ind([v + MARGIN for v in OURS], THEIRS, equal_var=False, alternative="greater")
    below = ttest_ind([v - MARGIN for v in OURS], THEIRS, equal_var=False, alternative="less")
    assert found.p == pytest.approx(max(above.pvalue, below.pvalue))
    interval = ttest_ind(OURS, THEIRS, equal_var=False).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx(tuple(interval))


@pytest.mark.parametrize(
    ("shift", "noise", "seeds", "verdict"),
    [
        (0.1, 0.3, PLANNED, "supported"),
        (0.1, 0.3, PLANNED - 1, "inconclusive"),  # a seed is missing
        (0.1, 5.0, PLANNED, "inconclusive"),
        (4.0, 0.3, PLANNED, "not supported"),
        (0.1, 0.3, 1, "inconclusive"),
        (0.1, 0.3, 0, "not tested"),
    ],
)
def test_nothing_is_decided_before_all_seeds_are_in(
    shift: float, noise: float, seeds: int, verdict: str
) -> None:
    theirs = {seed: 40 + noise * (-1) ** seed for seed in range(seeds)}
    ours = {seed: value + shift for seed, value in theirs.items()}
    assert Quantity("FAA", theirs, ours).verdict == verdict


def test_accuracy_and_forgetting_of_their_matrix_by_hand(tmp_path: Path) -> None:
    """Forgetting: (90 - 50 + 80 - 60) / 2."""
    content = {"method": "derpp", "seed": 3, "class_il": [[90.0], [70.0, 80.0], [50.0, 60.0, 70.0]]}
    (tmp_path / "derpp-3.json").write_text(json.dumps(content))
    found = authors(tmp_path)
    assert found["derpp", "FAA"] == {3: pytest.approx(60)}
    assert found["derpp", "FF"] == {3: pytest.approx(30)}
    assert found["derpp+bfp", "FAA"] == {}


def test_the_gain_is_paired_within_a_program() -> None:
    *_, gain = quantities()
    theirs = authors(FOLDER / "authors")
    for seed, value in gain.theirs.items():
        assert value == theirs["derpp+bfp", "FAA"][seed] - theirs["derpp", "FAA"][seed]


def test_every_kept_run_belongs_to_the_protocol() -> None:
    folders = [path for path in (FOLDER / "linsep").iterdir() if not path.name.startswith(".")]
    found = linsep(FOLDER / "linsep")
    assert sum(len(values) for (_, metric), values in found.items() if metric == "FAA") == len(
        folders
    )
