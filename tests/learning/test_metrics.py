"""Metrics of accuracy matrices, worked out by hand, and the identity that ties them together."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linsep.learning.metrics import (
    accuracy,
    audit,
    count_confusions,
    forgetting,
    summary,
)
from linsep.learning.run import ChunkEnd
from linsep.methods import assemble
from linsep.testing import same, toy_run

NAN = float("nan")


def matrix(*rows: list[float]) -> Tensor:
    """Lower triangle, NaN above."""
    size = len(rows)
    full = [row + [NAN] * (size - len(row)) for row in rows]
    return torch.tensor(full, dtype=torch.float64)


FORGETS = matrix([0.9], [0.6, 0.8], [0.5, 0.7, 0.6])
# FAA (50 + 70 + 60) / 3; FF ((90 - 50) + (80 - 70)) / 2; ALA (90 + 80 + 60) / 3;
# BWT ((50 - 90) + (70 - 80)) / 2; AIA (90 + 70 + 60) / 3; peaks are 90, 80, 60.
MIXED = matrix([0.5], [0.8, 0.9], [0.85, 0.4, 0.7])
# The first task is at its best at the end: before it, 80. FF ((80 - 85) + (90 - 40)) / 2;
# with the last row ((85 - 85) + 50) / 2; BWT ((85 - 50) + (40 - 90)) / 2;
# AIA (50 + 85 + 65) / 3; peaks before the end 80, 90, and 70.
GAINS = matrix([0.5], [0.5, 0.5], [0.9, 0.9, 0.9])
# FF (50 - 90): negative, since the last row is no peak (D18).


@pytest.mark.parametrize(
    ("found", "faa", "ff", "ala", "bwt", "aia", "peak"),
    [
        (FORGETS, 60, 25, 230 / 3, -25, 220 / 3, 230 / 3),
        (MIXED, 65, 22.5, 70, -7.5, 200 / 3, 80),
        (GAINS, 90, -40, 190 / 3, 40, 190 / 3, 190 / 3),
    ],
    ids=["forgets", "mixed", "gains"],
)
def test_by_hand(
    found: Tensor, faa: float, ff: float, ala: float, bwt: float, aia: float, peak: float
) -> None:
    expected = {"faa": faa, "ff": ff, "ala": ala, "bwt": bwt, "aia": aia, "mean_peak": peak}
    assert summary(found) == pytest.approx(expected)


def test_one_task() -> None:
    """There is nothing to forget, and the end is the beginning."""
    found = summary(matrix([0.8]))
    assert found.pop("ff") is None
    assert found.pop("bwt") is None
    assert found == pytest.approx(dict.fromkeys(("faa", "ala", "aia", "mean_peak"), 80))
    assert forgetting(matrix([0.8])) is None


def test_joint_training_has_only_a_last_row() -> None:
    found = matrix([NAN], [NAN, NAN], [0.5, 0.6, 0.7])
    values = summary(found)
    assert values.pop("faa") == pytest.approx(60)
    assert values == dict.fromkeys(("ff", "ala", "bwt", "aia", "mean_peak"))  # all None


@st.composite
def matrices(draw: st.DrawFn, least: int = 1) -> Tensor:
    size = draw(st.integers(least, 6))
    share = st.floats(0, 1)
    rows = [draw(st.lists(share, min_size=t + 1, max_size=t + 1)) for t in range(size)]
    return matrix(*rows)


@given(matrices(least=2))
def test_final_average_and_forgetting_make_up_the_mean_peak(found: Tensor) -> None:
    """FAA + (T-1)/T FF = mean peak, exactly; the reason for which is in docs/metrics.md."""
    values = summary(found)
    faa, ff, peak = (values[name] for name in ("faa", "ff", "mean_peak"))
    assert faa is not None
    assert ff is not None
    tasks = len(found)
    assert faa + (tasks - 1) / tasks * ff == pytest.approx(peak, abs=1e-9)


@given(matrices())
def test_what_a_matrix_can_have_passes_the_audit(found: Tensor) -> None:
    assert audit(summary(found), len(found)) == []


def test_a_confusion_counts_pairs_of_right_and_predicted() -> None:
    scores = torch.tensor([[0.1, 0.9, 0.0], [0.8, 0.1, 0.1], [0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
    found = torch.zeros(3, 3, dtype=torch.int64)
    for part in torch.arange(4).split(3):  # whatever the chunks
        count_confusions(found, scores[part], torch.tensor([0, 0, 2, 1])[part])
    assert found.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 1]]


# --- the audit -----------------------------------------------------------------------------------


def test_the_audit_finds_the_papers_impossible_row() -> None:
    """FT on S-CIFAR-10, Class-IL: 36.20 + 4/5 * 96.44 = 113.35 (D20)."""
    (flaw,) = audit({"faa": 36.20, "ff": 96.44}, 5)
    assert "113.35" in flaw
    assert "above 100" in flaw
    assert "\n" not in flaw


@pytest.mark.parametrize("name", ["faa", "ala", "aia", "mean_peak"])
@pytest.mark.parametrize("value", [-0.5, 100.5])
def test_the_audit_finds_accuracies_out_of_range(name: str, value: float) -> None:
    (flaw,) = audit({name: value}, 5)
    assert name.upper() in flaw
    assert f"{value:.2f}" in flaw


# --- accuracy ------------------------------------------------------------------------------------

INF = float("inf")
SCORES = torch.tensor(
    [  # two tasks, {0, 1} and {2, 3}; of class 4 nothing was seen
        [3.0, 1.0, 2.0, 0.0, -INF],  # 0: right
        [0.0, 1.0, 2.0, 5.0, -INF],  # 1: taken for 3, right among its own task's
        [4.0, 0.0, -1.0, -2.0, -INF],  # 2: taken for 0, right among its own
        [0.0, 1.0, 5.0, 4.0, -INF],  # 3: taken for 2, wrong among its own too
    ]
)
Y = torch.tensor([0, 1, 2, 3])


def test_class_il_accuracy_by_hand() -> None:
    assert accuracy(SCORES, Y) == 1 / 4
    assert accuracy(SCORES[:2], Y[:2]) == 1 / 2
    assert accuracy(SCORES[2:], Y[2:]) == 0


def test_task_il_accuracy_by_hand() -> None:
    assert accuracy(SCORES[:2], Y[:2], (0, 1)) == 1
    assert accuracy(SCORES[2:], Y[2:], (2, 3)) == 1 / 2
    assert accuracy(SCORES[2:], Y[2:], (3, 2)) == 1 / 2  # the order of the classes is nothing


@given(st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_knowing_the_task_never_hurts(rows: int, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, 6, generator=g)
    y = torch.randint(2, 4, (rows,), generator=g)
    among = accuracy(scores, y, (2, 3))
    assert accuracy(scores, y) <= among <= 1


def test_chunks_span_groups_and_decide_nothing() -> None:
    """Class-IL, Task-IL and confusion of a run, group by group from its predictions."""
    found = []
    for chunk in (3, 256):
        run = toy_run(assemble("er", {}), evaluation={"chunk": chunk})
        events = [event for event in run if isinstance(event, ChunkEnd)]
        assert [e.images for e in events if e.task == 2][-1] == events[-1].total == 24
        assert len(events) == (3 + 6 + 8 if chunk == 3 else 3)
        found.append(run)
    for run in found:
        together = torch.zeros(6, 6, dtype=torch.int64)
        for i, group in enumerate(run.scenario.groups):
            scores = run.learner.predict(group.test)
            count_confusions(together, scores, group.test.y)
            assert run.class_il[2, i] == accuracy(scores, group.test.y)
            assert run.task_il[2, i] == accuracy(scores, group.test.y, group.classes)
        assert torch.equal(run.confusion, together)
    assert same(found[0].class_il, found[1].class_il)
