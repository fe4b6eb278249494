"""Lessons for a model in a folder: killed at any context, they end at the same bits."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from linsep.classifier import saved
from linsep.classifier.estimator import IncrementalClassifier
from linsep.classifier.teaching import Teaching
from linsep.errors import DivergedError, HeldError, StateError
from linsep.learning.run import TaskEnd
from linsep.storage import manifest
from linsep.storage.manifest import Params
from tests.helpers.made_data import noise
from tests.helpers.real_runs import model_contents

QUICK = {"gdumb": {"epochs": 3}, "bic": {"bias_epochs": 5}}
X = noise(1, 90, 12, 12)
Y = np.array(["ant", "bee"] * 15 + ["cow", "dog"] * 15 + ["elk", "ant"] * 15)
FIRST, SECOND, THIRD = slice(30), slice(30, 60), slice(60, 90)


def new(method: str = "derpp+bfp", **more: Any) -> Params:
    options = {name: own for name, own in QUICK.items() if name == method}
    settings = {"net": {"width": 4}, "training": {"momentum": 0.9}, "options": options}
    chosen: dict[str, Any] = {"epochs": 2, "batch_size": 8, "memory": 15}
    return Params(method=method, net="cnn", settings=settings | more, **chosen)


def interrupted(folder: Path) -> manifest.Lesson | None:
    return manifest.read(folder).lesson


def teaching(folder: Path, part: slice, method: str = "derpp+bfp", **how: Any) -> Teaching:
    return Teaching(folder, X[part], Y[part], new=new(method), **how)


def teach(folder: Path, part: slice, method: str = "derpp+bfp", **how: Any) -> Teaching:
    with teaching(folder, part, method, **how) as lesson:
        for _ in lesson:
            pass
    return lesson


@pytest.fixture(scope="module")
def _first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return teach(tmp_path_factory.mktemp("first") / "model", FIRST).folder


@pytest.fixture
def model(_first: Path, tmp_path: Path) -> Path:
    """A copy of a model that had its first lesson."""
    return Path(shutil.copytree(_first, tmp_path / "model"))


@pytest.fixture
def half(model: Path) -> Path:
    """A model that was stopped in its second lesson, with two saved states."""
    with teaching(model, SECOND, save_every=0.0) as lesson:
        for _, _ in zip(range(5), lesson, strict=False):
            pass
    return model


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("straight") / "model"
    for part in (FIRST, SECOND, THIRD):
        teach(folder, part)
    return model_contents(folder)


def test_lessons_in_a_folder_equal_those_in_memory(straight: Any) -> None:
    kept = (
        IncrementalClassifier(**new().model_dump())
        .fit(X[FIRST], Y[FIRST])
        .partial_fit(X[SECOND], Y[SECOND])
    )
    kept.partial_fit(X[THIRD], Y[THIRD])
    told = straight["manifest.json"]["classifier"]
    assert told["history"][-1]["groups"] == kept.report_["groups"]
    assert set(straight) == {"manifest.json", "model.safetensors", "memory.safetensors", "previous"}


def test_repeating_a_command_teaches_nothing_twice(model: Path) -> None:
    before = model_contents(model)
    with teaching(model, FIRST) as lesson:
        assert lesson.finished
        assert not list(lesson)
    assert model_contents(model) == before
    teach(model, FIRST, again=True)
    assert len(model_contents(model)["manifest.json"]["classifier"]["history"]) == 2


@pytest.mark.parametrize(
    ("method", "stop"), [("derpp+bfp", 1), ("icarl", 6), ("bic", 9), ("gdumb", 4), ("ewc", 6)]
)
def test_an_interrupted_lesson_resumes_bit_for_bit(method: str, stop: int, tmp_path: Path) -> None:
    teach(tmp_path / "whole", FIRST, method)
    shutil.copytree(tmp_path / "whole", tmp_path / "stopped")
    teach(tmp_path / "whole", SECOND, method)
    with teaching(tmp_path / "stopped", SECOND, method, save_every=0.0) as lesson:
        for step, _ in enumerate(lesson):
            if step == stop:
                break
    assert len(IncrementalClassifier.load(tmp_path / "stopped").classes_) == 2
    assert teach(tmp_path / "stopped", SECOND, method).resumed
    assert model_contents(tmp_path / "stopped") == model_contents(tmp_path / "whole")


def test_another_lesson_meanwhile_is_refused_or_discards(model: Path, straight: Any) -> None:
    with teaching(model, THIRD, about="the third month", save_every=0.0) as lesson:
        next(iter(lesson))
    note = interrupted(model)
    assert note is not None
    assert note.about == "the third month"
    with pytest.raises(StateError, match=r"in the middle of learning the third month.*--discard"):
        teach(model, SECOND)
    teach(model, SECOND, discard=True)
    assert interrupted(model) is None
    teach(model, THIRD)
    assert model_contents(model) == straight


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with teaching(tmp_path, FIRST), pytest.raises(HeldError), teaching(tmp_path, FIRST):
        pass


def test_a_damaged_state_falls_back_to_the_one_before(half: Path, straight: Any) -> None:
    newest = half / "state.safetensors"
    newest.write_bytes(newest.read_bytes()[:-9])
    with pytest.warns(UserWarning, match="damaged"):
        assert teach(half, SECOND).resumed
    teach(half, THIRD)
    assert model_contents(half) == straight


def test_no_readable_state_is_refused_with_the_remedy(half: Path) -> None:
    for name in ("state.safetensors", "state.previous.safetensors"):
        (half / name).write_bytes(b"nonsense")
    with (
        pytest.warns(UserWarning, match="not a saved state"),
        pytest.raises(StateError, match="--discard"),
    ):
        teach(half, SECOND)


def test_a_lesson_that_diverged_is_not_kept(tmp_path: Path) -> None:
    wild = Teaching(tmp_path, X[FIRST], Y[FIRST], new=new(training={"lr": 1e20}))
    with wild, pytest.raises(DivergedError):
        list(wild)
    assert interrupted(tmp_path) is None


def test_weights_that_are_no_numbers_are_a_divergence(tmp_path: Path) -> None:
    """Of the last step, whose loss was a number still."""
    with teaching(tmp_path, FIRST) as lesson:
        events = iter(lesson)
        while not isinstance(next(events), TaskEnd):
            pass
        assert lesson.run is not None
        next(lesson.run.learner.net.parameters()).data.fill_(torch.nan)
        with pytest.raises(DivergedError, match="smaller lr"):
            list(events)
    assert interrupted(tmp_path) is None
    assert not (tmp_path / "manifest.json").exists()


def test_death_after_the_model_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And before the lesson's files are removed."""
    real = saved.write

    def write(folder: Path, course: Any, memory: bool) -> None:
        real(folder, course, memory)
        raise KeyboardInterrupt

    monkeypatch.setattr(saved, "write", write)
    with pytest.raises(KeyboardInterrupt):
        teach(tmp_path, FIRST)
    monkeypatch.undo()
    assert teach(tmp_path, FIRST).finished
    assert len(model_contents(tmp_path)["manifest.json"]["classifier"]["history"]) == 1
    assert interrupted(tmp_path) is None
