"""Saved classifiers: the same bits afterwards, whole after a kill, small without images."""

import multiprocessing
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save as safetensors_bytes

from linsep import LinsepError, SavedClassifier
from linsep.classifier import saved
from linsep.classifier.estimator import IncrementalClassifier
from linsep.classifier.tensors import memory_of, weights_of
from linsep.errors import HeldError, StateError
from linsep.storage import files
from linsep.storage.lease import Lease
from tests.helpers.combinations import LEARNING
from tests.helpers.deaths import deaths
from tests.helpers.made_data import noise

ADDED = ["derpp+bfp", "ewc+bfp2", "icarl+fd", "derpp+ser+lode+star+wa"]
QUICK = {"gdumb": {"epochs": 2}, "bic": {"bias_epochs": 2}, "lucir": {"fitting_epochs": 1}}
X = noise(0, 90, 12, 12)
Y = np.array(["ant", "bee"] * 15 + ["cow", "dog"] * 15 + ["elk", "ant"] * 15)


def made(method: str = "derpp+bfp", **more: Any) -> IncrementalClassifier:
    base = method.partition("+")[0]
    settings = {"options": {name: own for name, own in QUICK.items() if name == base}}
    settings |= {"net": {"width": 4}, "training": {"momentum": 0.9}} | more.pop("settings", {})
    return IncrementalClassifier(
        method, "cnn", epochs=1, batch_size=8, memory=15, settings=settings, **more
    )


def learned(method: str = "derpp+bfp", **more: Any) -> IncrementalClassifier:
    return made(method, **more).fit(X[:30], Y[:30]).partial_fit(X[30:60], Y[30:60])


@pytest.fixture(scope="module")
def taught() -> IncrementalClassifier:
    return learned()


@pytest.fixture(scope="module")
def other() -> IncrementalClassifier:
    return made().fit(X[:30], Y[:30])


def state_of(classifier: IncrementalClassifier) -> dict[str, Any]:
    assert classifier.course_.learner is not None
    return flat(classifier.course_.learner.state_dict())


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tree.items():
        inner = isinstance(value, dict)
        found |= flat(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value}
    return found


def assert_remembers(a: IncrementalClassifier, b: IncrementalClassifier) -> None:
    """What files hold: all but what is derived or cleared."""
    for parts in (_weights, _memory):
        one, two = parts(a), parts(b)
        assert one.keys() == two.keys()
        assert all(torch.equal(one[name], two[name]) for name in one)
    assert a.history_ == b.history_


def _weights(classifier: Any) -> dict[str, torch.Tensor]:
    return weights_of(classifier.course_.learner)


def _memory(classifier: Any) -> dict[str, torch.Tensor]:
    return memory_of(classifier.course_, classifier.course_.learner)


def assert_same(a: IncrementalClassifier, b: IncrementalClassifier) -> None:
    one, two = state_of(a), state_of(b)
    assert one.keys() == two.keys()
    for name, value in one.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, two[name]), name
        else:
            assert value == two[name], name
    assert a.report_ == b.report_
    assert a.classes_.tolist() == b.classes_.tolist()
    assert a.classes_.dtype == b.classes_.dtype


@pytest.mark.parametrize("method", LEARNING + ADDED)
def test_a_loaded_classifier_learns_on_as_if_never_saved(method: str, tmp_path: Path) -> None:
    """So neither the previous network, the optimisers nor a map that tasks reset need be saved."""
    kept = learned(method)
    kept.save(tmp_path / "model")
    loaded = IncrementalClassifier.load(tmp_path / "model")
    assert np.array_equal(kept.predict_proba(X), loaded.predict_proba(X))
    for classifier in (kept, loaded):
        classifier.partial_fit(X[60:], Y[60:])
    assert_same(kept, loaded)


@pytest.mark.parametrize("method", ["er", "icarl", "bic"])
def test_announced_classes_and_a_lesson_without_new_ones(method: str, tmp_path: Path) -> None:
    names = ["elk", "ant", "bee", "cow", "dog", "fox"]
    kept = made(method).fit(X[:30], Y[:30], classes=names)
    kept.save(tmp_path / "model")
    loaded = IncrementalClassifier.load(tmp_path / "model")
    for classifier in (kept, loaded):
        classifier.partial_fit(X[30:60], Y[30:60]).partial_fit(X[:30], Y[:30])
    assert loaded.course_.announced
    assert_same(kept, loaded)


@pytest.mark.parametrize("labels", [[True, False], [0.0, 2.0], ["3", "名"]], ids=str)
def test_labels_keep_their_type(labels: Any, tmp_path: Path) -> None:
    y = np.asarray(labels)[np.arange(30) % 2]
    kept = made("er").fit(X[:30], y)
    kept.save(tmp_path / "model")
    loaded = IncrementalClassifier.load(tmp_path / "model")
    assert loaded.classes_.dtype == kept.classes_.dtype
    assert loaded.predict(X).tolist() == kept.predict(X).tolist()


def test_tables_of_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    kept = IncrementalClassifier("er", epochs=1, memory=9).fit(rows[:40], y[:40])
    kept.save(tmp_path / "model")
    loaded = IncrementalClassifier.load(tmp_path / "model")
    deployed = SavedClassifier.load(tmp_path / "model")
    for one in (loaded, deployed):
        assert np.array_equal(kept.predict_proba(rows), one.predict_proba(rows))
    for classifier in (kept, loaded):
        classifier.partial_fit(rows[40:], y[40:])
    assert_same(kept, loaded)
    with pytest.raises(ValueError, match="4 features"):
        loaded.predict(rng.normal(size=(2, 4)))
    for bad in (rows[:, :2], rows[0]):
        with pytest.raises(LinsepError, match="X") as caught:
            deployed.predict(bad)
        assert "\n" not in str(caught.value)


# --- without memory -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["icarl", "derpp+bfp2"])
def test_without_memory_a_model_is_little_more_than_its_weights(
    method: str, tmp_path: Path
) -> None:
    kept = made(method, settings={"net": {"name": "resnet18", "width": 8}}, lr=0.01)
    kept.fit(X[:30], Y[:30]).partial_fit(X[30:60], Y[30:60])
    kept.save(tmp_path / "copy", memory=False)
    assert kept.course_.learner is not None
    net = {n: t.contiguous() for n, t in kept.course_.learner.net.state_dict().items()}
    size = sum(path.stat().st_size for path in (tmp_path / "copy").iterdir())
    assert size <= 1.02 * len(safetensors_bytes(net))


def test_a_copy_without_memory_predicts_and_does_not_learn(taught: Any, tmp_path: Path) -> None:
    taught.save(tmp_path / "copy", memory=False)
    assert sorted(os.listdir(tmp_path / "copy")) == ["manifest.json", "model.safetensors"]
    content = b"".join(path.read_bytes() for path in (tmp_path / "copy").iterdir())
    rows = taught.course_.learner.memory.images().pixels()
    assert rows[0].numpy().tobytes() not in content
    loaded = IncrementalClassifier.load(tmp_path / "copy")
    assert np.array_equal(loaded.predict_proba(X), taught.predict_proba(X))
    with pytest.raises(StateError, match="no memory"):
        loaded.partial_fit(X[60:], Y[60:])
    assert np.array_equal(loaded.predict_proba(X), taught.predict_proba(X))
    loaded.save(tmp_path / "again")
    assert sorted(os.listdir(tmp_path / "again")) == ["manifest.json", "model.safetensors"]
    asked: Any = IncrementalClassifier.load(tmp_path / "copy", empty_memory=True)
    assert len(asked.course_.learner.memory) == 0
    asked.partial_fit(X[60:], Y[60:])
    assert asked.classes_.tolist() == ["ant", "bee", "cow", "dog", "elk"]
    assert len(asked.course_.learner.memory) == 15


def test_images_are_not_removed_by_saving_a_copy_over_them(taught: Any, tmp_path: Path) -> None:
    taught.save(tmp_path / "model")
    with pytest.raises(StateError, match="another folder"):
        taught.save(tmp_path / "model", memory=False)
    IncrementalClassifier.load(tmp_path / "model").partial_fit(X[60:], Y[60:])


# --- one writer, whole models ---------------------------------------------------------------------


def test_a_model_that_another_process_works_on_is_not_replaced(taught: Any, tmp_path: Path) -> None:
    taught.save(tmp_path)
    lease = Lease(tmp_path)
    lease.acquire()
    try:
        with pytest.raises(HeldError, match="another process"):
            taught.save(tmp_path)
    finally:
        lease.release()


def test_death_at_any_write_leaves_the_old_model_or_the_new(
    taught: Any, other: Any, tmp_path: Path
) -> None:
    other.save(tmp_path / "old")
    seen = set()
    for folder in deaths(
        lambda folder: saved.write(folder, taught.course_, True),
        lambda name: Path(shutil.copytree(tmp_path / "old", tmp_path / name)),
    ):
        found = IncrementalClassifier.load(folder)
        assert_remembers(found, other if len(found.classes_) == 2 else taught)
        seen.add(len(found.classes_))
    assert seen == {2, 4}


def test_sigkill_while_saving_leaves_a_whole_model(tmp_path: Path, taught: Any, other: Any) -> None:
    fork, folder = multiprocessing.get_context("fork"), tmp_path / "model"
    taught.save(folder)
    rng = np.random.default_rng(0)
    for _ in range(20):
        process = fork.Process(target=_save_for_ever, args=([other, taught], folder))
        process.start()
        process.join(float(rng.uniform(0.01, 0.2)))
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        found = IncrementalClassifier.load(folder)
        assert_remembers(found, taught if len(found.classes_) == 4 else other)


def _save_for_ever(classifiers: list[Any], folder: Path) -> None:
    while True:
        for classifier in classifiers:
            classifier.save(folder)


def test_a_model_replaced_while_it_is_read(
    taught: Any, other: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.save(tmp_path)
    real = files.read
    done: list[Path] = []

    def reading(path: Path, largest: int | None = None) -> bytes:
        if path.name == "model.safetensors" and not done:
            done.append(path)
            taught.save(tmp_path)  # between the reads of the manifest and of this
        return real(path, largest)

    monkeypatch.setattr(files, "read", reading)
    assert_remembers(IncrementalClassifier.load(tmp_path), taught)
    assert done
