"""A model goes back to what it was before, bit for bit, whenever the power goes."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linsep import IncrementalClassifier
from linsep.classifier import saved
from linsep.errors import HeldError, StateError
from linsep.storage import manifest
from linsep.storage.lease import Lease, release_dead
from tests.helpers.command import command
from tests.helpers.deaths import deaths, sigkills

X = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8)
Y = np.repeat(["ant", "bee", "cow", "dog", "elk", "fox"], 10)


def made(**more: Any) -> IncrementalClassifier:
    return IncrementalClassifier("er", "mlp", memory=12, epochs=1, **more).fit(X[:20], Y[:20])


def more(classifier: IncrementalClassifier, first: int = 20) -> IncrementalClassifier:
    return classifier.partial_fit(X[first : first + 10], Y[first : first + 10])


def contents(folder: Path) -> dict[str, bytes]:
    """The files of the present state, to the bit."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file() and p.name[0] != "."}


@pytest.fixture
def states(tmp_path: Path) -> list[dict[str, bytes]]:
    """What a folder held after each of four lessons; it holds the last one."""
    found, classifier = [], made(keep=2)
    for first in (20, 30, 40, 0):
        classifier.save(tmp_path / "shop")
        found.append(contents(tmp_path / "shop"))
        if first:
            more(classifier, first)
    return found


def test_each_undo_is_the_state_before_bit_for_bit(
    states: list[dict[str, bytes]], tmp_path: Path
) -> None:
    folder = tmp_path / "shop"
    assert len(manifest.previous(folder)) == 2
    for state in (states[2], states[1]):
        saved.undo(folder)
        assert contents(folder) == state
    with pytest.raises(StateError, match="nothing to undo"):
        saved.undo(folder)
    assert not (folder / "previous").exists()
    classifier = more(IncrementalClassifier.load(folder), 40)
    assert classifier.classes_.tolist() == ["ant", "bee", "cow", "elk"]


def test_in_python_it_forgets_the_last_lesson(tmp_path: Path) -> None:
    classifier = made()
    before = classifier.predict_proba(X)
    more(classifier).undo()
    assert np.array_equal(classifier.predict_proba(X), before)
    again, straight = more(classifier), more(made())
    assert np.array_equal(again.predict_proba(X), straight.predict_proba(X))
    with pytest.raises(StateError, match="nothing to undo"):
        made().undo()
    more(made(keep=0)).save(tmp_path / "none")
    assert not (tmp_path / "none" / "previous").exists()


def test_a_loaded_classifier_goes_back_to_the_states_of_its_folder(
    states: list[dict[str, bytes]], tmp_path: Path
) -> None:
    folder = tmp_path / "shop"
    loaded = IncrementalClassifier.load(folder).undo().undo()
    assert loaded.classes_.tolist() == ["ant", "bee", "cow"]
    saved.undo(folder)
    saved.undo(folder)
    wanted = IncrementalClassifier.load(folder)
    assert np.array_equal(loaded.predict_proba(X), wanted.predict_proba(X))


@pytest.mark.parametrize("kind", ["deaths", "kills"])
def test_a_process_that_dies_leaves_one_state_or_the_other(
    kind: str, states: list[dict[str, bytes]], tmp_path: Path
) -> None:
    def copied(name: str) -> Path:
        return Path(shutil.copytree(tmp_path / "shop", tmp_path / name))

    seen = set()
    for folder in (deaths if kind == "deaths" else sigkills)(saved.undo, copied):
        seen.add(len(IncrementalClassifier.load(folder).classes_))  # with what the dead one left
        assert release_dead(folder)
        saved.settle(folder)
        assert contents(folder) in (states[3], states[2])
        assert len(manifest.previous(folder)) == (2 if contents(folder) == states[3] else 1)
    assert seen == {4, 5}


def test_nobody_undoes_what_another_process_works_on(
    states: list[dict[str, bytes]], tmp_path: Path
) -> None:
    folder = tmp_path / "shop"
    with Lease(folder, host="elsewhere/1"), pytest.raises(HeldError, match="another process"):
        saved.undo(folder)
    with Lease(folder, host="elsewhere/1"), pytest.raises(HeldError, match="another process"):
        saved.change(folder, lambda course: course)
    note = manifest.Lesson(key="0" * 32, about="march", begun="today")
    told = manifest.read(folder).model_copy(update={"lesson": note})
    (folder / "manifest.json").write_bytes(told.to_bytes())
    with pytest.raises(StateError, match="in the middle of learning march"):
        saved.undo(folder)


def test_nothing_is_removed_behind_a_symbolic_link(
    states: list[dict[str, bytes]], tmp_path: Path
) -> None:
    """As in a folder from a stranger, whose previous states are somewhere else."""
    folder, precious = tmp_path / "shop", tmp_path / "precious" / "photos"
    precious.mkdir(parents=True)
    (precious / "one.png").write_text("x")
    (folder / "previous" / "link").symlink_to(precious)
    saved.undo(folder)
    shutil.rmtree(folder / "previous")
    (folder / "previous").symlink_to(precious.parent)
    with pytest.raises(StateError, match="is a symbolic link"):
        saved.undo(folder)
    with pytest.raises(StateError, match="is a symbolic link"):
        more(IncrementalClassifier.load(folder)).save(folder)
    assert (precious / "one.png").read_text() == "x"


def test_a_damaged_state_is_not_gone_back_to(
    states: list[dict[str, bytes]], tmp_path: Path
) -> None:
    folder = tmp_path / "shop"
    for name in ("model.safetensors", "manifest.json"):
        path = manifest.previous(folder)[-1] / name
        whole = path.read_bytes()
        path.unlink()  # it may have other names
        path.write_bytes(whole[:-3] + b" " + whole[-2:])
        with pytest.raises(StateError, match="damaged, or was changed"):
            saved.undo(folder)
        path.write_bytes(whole)
        assert contents(folder) == states[3]


def test_the_commands(states: list[dict[str, bytes]], tmp_path: Path) -> None:
    said = command("model", "history", "shop", "--format", "csv", cwd=tmp_path)
    assert [line.split(",")[-2] for line in said.stdout.splitlines()[1:]] == ["", "2", "1", "0"]
    assert "Previous states: 2" in command("model", "shop", cwd=tmp_path).stdout
    said = command("model", "undo", "shop", cwd=tmp_path)
    assert "again as it was after lesson 3" in said.stdout
    assert contents(tmp_path / "shop") == states[2]
    said = command("model", "undo", "nowhere", cwd=tmp_path)
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
