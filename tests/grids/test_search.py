"""Searching on the validation split, and only there."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from linsep.errors import ConfigError
from linsep.grids.grid import Grid, Search, on_validation, ranges, read_range
from tests.helpers.command import command

PROTOCOLS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 4, "train": 20, "test": 5},
    "method": "er",
    "memory": 8,
    "training": {"epochs": 1, "batch_size": 10},
    "over": {"seed": [0, 1]},
}


def test_ranges_are_read_from_words_and_tables() -> None:
    kinds = pytest.importorskip("optuna.distributions", reason="needs linsep[search]")
    for text in ("1e-3..1 log", "1e-3..1:log"):
        assert read_range("training.lr", text) == kinds.FloatDistribution(1e-3, 1, log=True)
    assert read_range("memory.size", "50..500") == kinds.IntDistribution(50, 500)
    assert read_range("method", "er,derpp") == kinds.CategoricalDistribution(["er", "derpp"])
    found = ranges({"trials": 5, "training": {"lr": "0.1..1"}, "method": "er,der"})
    assert set(found) == {"training.lr", "method"}


WRONG = ["1..0", "0..1 log", "a..b", "0..1 cubic", "0..inf", "0..1e999", "2026-01-01", 3, [], [[]]]


@pytest.mark.parametrize("given", WRONG)
def test_a_range_that_is_none_is_refused(given: Any) -> None:
    pytest.importorskip("optuna", reason="needs linsep[search]")
    with pytest.raises(ConfigError, match=r"search\.training\.lr"):
        read_range("training.lr", given)


def test_the_test_images_are_out_of_reach() -> None:
    assert on_validation({"method": "er"})["scenario"]["validation"] == 0.1
    kept = on_validation({"scenario": {"name": "blobs", "validation": 0.3}})
    assert kept["scenario"]["validation"] == 0.3
    for given in (
        {"scenario": {"validation": 0}},
        {"scenario": {"validation": 0.0}},
        {"over": {"scenario": {"validation": [0.1, 0]}}},
    ):
        with pytest.raises(ConfigError, match="validation split only"):
            on_validation(given)
    with pytest.raises(ConfigError, match="should be a table"):
        on_validation({"over": 1})
    for name in ("scenario.validation", "scenario", "seed"):
        with pytest.raises(ConfigError, match="cannot be searched"):
            ranges({name: "0..1"})


def test_a_search_over_nothing_or_the_test_set_is_one_line(tmp_path: Path) -> None:
    for words in (
        ["search"],
        ["search", "--over-range", "training.lr=0.1..1", "--set", "scenario.validation=0"],
        ["search", "--over-range", "training.lr"],
        ["search", "--over-range", "training.lr=0.1..1", "--metric", "fa"],
    ):
        said = command(*words, cwd=tmp_path)
        assert said.returncode == 2
        assert said.stderr.startswith("error: ")
        assert said.stderr.count("\n") == 1
        assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_search_ends_with_a_command_that_has_all_settings_but_the_validation_split(
    tmp_path: Path,
) -> None:
    pytest.importorskip("optuna", reason="needs linsep[search]")
    words = (
        "search", "--scenario", "blobs", "--method", "er", "--memory", "8", "--epochs", "1",
        "--set", "scenario.classes=4", "--set", "scenario.train=20", "--set", "scenario.test=5",
        "--set", "scenario.validation=0.2", "--over-range", "lr=0.1,0.2", "--trials", "1",
        "--over", "seed=0,1", "--workers", "1", "-q",
    )  # fmt: skip
    said = command(*words, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    *kept, best = shlex.split(said.stdout.splitlines()[-1])
    assert kept == [
        "linsep", "grid", "--scenario", "blobs", "--method", "er", "--memory", "8", "--epochs", "1",
        "--set", "scenario.classes=4", "--set", "scenario.train=20", "--set", "scenario.test=5",
        "--over", "seed=0,1", "--set",
    ]  # fmt: skip
    assert best in ("training.lr=0.1", "training.lr=0.2")
    assert "No runs in runs." in command("runs", cwd=tmp_path).stdout, "trials are no results"
    assert "on validation images" in command("runs", "--runs", "runs/search", cwd=tmp_path).stdout
    assert command(*kept[1:], best, "--dry-run", cwd=tmp_path).stdout.startswith("2 runs: 2 new")


@pytest.mark.parametrize("wrong", ["lrr=0.1..1", "memory=-5..1", "net=3,4"])
def test_a_range_that_no_run_can_have_is_refused_before_any_trial(
    wrong: str, tmp_path: Path
) -> None:
    pytest.importorskip("optuna", reason="needs linsep[search]")
    said = command("search", "--scenario", "blobs", "--over-range", wrong, cwd=tmp_path)
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_search_stopped_goes_on_and_ends_with_its_trials(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="needs linsep[search]")

    def begin() -> Search:
        return Search(
            PROTOCOLS,
            ranges({"training.lr": "1e-3..1.0 log"}),
            Grid([], tmp_path, workers=1),
            trials=3,
        )

    first = begin()
    for _ in first:
        first.stop()
    assert first.done() < 3
    second = begin()
    for _ in second:
        pass
    assert second.done() == 3
    best = second.best()
    assert best is not None
    trials = second.study.get_trials()
    assert len(trials) == 3, "the one that was stopped is one of them"
    assert best[1] == max(trial.value for trial in trials)
    for folder in tmp_path.glob("blobs-*"):
        assert "validation = 0.1" in (folder / "config.toml").read_text()
    third = begin()
    assert list(third) == []
