"""Benchmarks at their smallest: they run, and what they report makes sense. Never how fast."""

import time

import pytest

from linsep.bench import grid, step, store
from linsep.bench.timing import Times, least
from linsep.compare.tables import Table


def sane(times: Times) -> bool:
    return 0 < times.cpu < 1000 and 0 < times.wall < 1000


def test_the_least_round_counts_and_the_first_does_not() -> None:
    pauses = iter([0.0, 0.3, 0.1, 0.2])
    calls = []

    def pause() -> None:
        calls.append("pause")
        time.sleep(next(pauses))

    waiting, idle = least(pause, lambda: calls.append("idle"), rounds=3)
    assert calls == ["pause", "idle"] * 4
    assert 0.1 <= waiting.wall < 0.2
    assert waiting.cpu < waiting.wall
    assert idle.wall < waiting.wall


def test_a_step_is_measured_against_its_bare_passes() -> None:
    found = [step.overhead(8, 1, 1.15), step.large_memory(8, (20, 40), 1)]
    assert all(sane(ratio.ours) and sane(ratio.against) for ratio in found)
    drawn = step.table(found)
    ratios = [f"{ratio.ours.cpu / ratio.against.cpu:.3f}" for ratio in found]
    assert [row[3] for row in drawn.rows] == ratios
    assert [row[0] for row in drawn.rows] == [ratio.what for ratio in found]
    assert "width 8" in drawn.to_markdown()


def test_cheaper_forms_of_bfp_are_measured() -> None:
    found = [step.cheaper(form, 1) for form in step.CHEAPER]
    assert all(sane(ratio.ours) and sane(ratio.against) for ratio in found)


def test_the_store_is_measured() -> None:
    found = store.measure(count=80, rounds=1)
    assert list(found) == ["indexing all, once", "runs", "runs --where ... --sort ...", "compare"]
    assert all(map(sane, found.values()))
    drawn = store.table(found, 80)
    assert [row[3] for row in drawn.rows] == ["-", "1.0", "1.0", "1.0"]
    assert "without Python's start-up" in drawn.to_markdown()


@pytest.mark.slow
def test_a_grid_is_measured_against_the_same_runs_alone() -> None:
    tiny = {
        "scenario.name": "blobs", "scenario.train": 10, "scenario.test": 5, "method": "ft",
        "training.epochs": 1, "compute.device": "cpu",
    }  # fmt: skip
    told: list[str] = []
    found = grid.measure(2, 1, told.append, tiny)
    assert list(found) == told == ["2 commands", "one process", "a grid of 1"]
    assert all(map(sane, found.values()))
    drawn: Table = grid.table(found)
    assert drawn.rows[-1][3:] == ("1.000", "1.000")
