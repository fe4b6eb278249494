"""Benchmarks at their smallest: what they compare is the same work. Never how fast it is."""

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import analysis, grid, step, store, timing
from linsep.analysis import ANALYSES

ROOT = Path(__file__).parents[2]


def test_works_take_turns_and_the_first_round_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    clock = iter([0, 50, 50, 51, 60, 67, 70, 72, 80, 85, 90, 93])  # two works, three rounds
    fake = SimpleNamespace(process_time=lambda: 0.0, perf_counter=lambda: next(clock))
    monkeypatch.setattr("benchmarks.timing.time", fake)
    found = timing.least(lambda: calls.append("a"), lambda: calls.append("b"), rounds=2)
    assert calls == ["a", "b"] * 3
    assert [times.wall for times in found] == [5, 2]


def test_every_step_can_be_measured() -> None:
    """The warm run has to fit the learner's insides; a change of these would break it unseen."""
    found = [step.overhead(8, 1, 1.15), step.large_memory(8, (20, 40), 1)]
    found += [step.cheaper(form, 1) for form in step.CHEAPER]
    assert all(ratio.ours.cpu > 0 and ratio.against.cpu > 0 for ratio in found)
    assert len(step.table(found).rows) == len(found)


def test_made_up_runs_are_runs_to_the_store() -> None:
    found = store.measure(count=80, rounds=1)
    assert list(found) == ["indexing all, once", "runs", "runs --where ... --sort ...", "compare"]


def test_every_analysis_is_measured(tmp_path: Path) -> None:
    cost = analysis.measure(analysis.trained(tmp_path, 20, 10, 16), lambda line: None)
    assert set(cost.seconds) == set(ANALYSES)


@pytest.mark.slow
def test_the_three_ways_of_a_grid_make_the_same_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = {
        "scenario.name": "blobs", "scenario.train": 10, "scenario.test": 5, "method": "ft",
        "training.epochs": 1, "compute.device": "cpu",
    }  # fmt: skip
    kept = SimpleNamespace(TemporaryDirectory=lambda: nullcontext(str(tmp_path)))
    monkeypatch.setattr("benchmarks.grid.tempfile", kept)
    assert list(grid.measure(2, 1, lambda line: None, tiny)) == [
        "2 commands", "one process", "a grid of 1",
    ]  # fmt: skip
    results = [
        sorted((path.parent.name, json.loads(path.read_text())["metrics"]["class_il"]["faa"])
               for path in (tmp_path / way).glob("*/results.json"))
        for way in ("alone", "one", "grid")
    ]  # fmt: skip
    assert results[0] == results[1] == results[2]
    assert len(results[0]) == 2


def test_a_wrong_run_is_one_line() -> None:
    words = [sys.executable, "-m", "benchmarks", "analysis", "nowhere", "--runs", "/nowhere"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
