"""What is kept of a learner after each task decides as the learner did."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from linsep.errors import StateError
from linsep.learning.metrics import accuracy
from linsep.learning.run import StepEnd, TaskEnd
from linsep.methods import METHODS, assemble
from linsep.nets.heads import DecidesLinearly
from linsep.prepare import Prepared, prepare
from linsep.settings.config import from_settings
from linsep.settings.sections import Keep
from linsep.storage import snapshots
from linsep.storage.folder import RunFolder
from linsep.storage.session import Session
from linsep.testing import toy_run
from tests.helpers.command import command

PROTOCOLS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 6, "train": 20, "test": 10},
    "net": {"name": "cnn", "width": 4},
    "memory": 12,
    "training": {"epochs": 2, "batch_size": 10},
}


def prepared(method: str = "derpp+bfp") -> Prepared:
    short = {"bic": {"bias_epochs": 12}} if method == "bic" else {}
    return prepare(from_settings(PROTOCOLS | {"method": method, "options": short}), lenient=True)


def done(runs: Path, method: str = "derpp+bfp", keep: Keep | None = None) -> Path:
    with Session(prepared(method), runs, keep=keep) as session:
        for _ in session:
            pass
    return session.folder


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was not interrupted: to be read, not changed."""
    return done(tmp_path_factory.mktemp("straight"))


@pytest.fixture
def folder(straight: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(straight, tmp_path / "runs" / straight.name))


def names(folder: Path) -> list[str]:
    return [s.name for s in snapshots.found(folder)]


def test_what_is_kept_can_be_asked_for_and_changes_no_name(straight: Path, tmp_path: Path) -> None:
    every = done(tmp_path, keep="epochs")
    epochs = [f"task0{t}-1-train-epoch00{e}" for t in (1, 2, 3) for e in (1, 2)]
    ends = [f"task0{t}" for t in (1, 2, 3)]
    assert names(straight) == ends
    assert sorted(names(every)) == sorted(epochs + ends)
    assert names(every)[:3] == ["task01-1-train-epoch001", "task01-1-train-epoch002", "task01"]
    assert straight.name == every.name
    for name in ("events.jsonl", "results.json", "state.safetensors"):
        assert (straight / name).read_bytes() == (every / name).read_bytes()


@pytest.mark.parametrize("method", ["derpp+bfp", "icarl", "lucir", "bic", "ft+fd"])
def test_a_restored_learner_predicts_as_it_did(tmp_path: Path, method: str) -> None:
    folder = done(tmp_path, method)
    matrices = RunFolder(folder).results()["matrices"]
    run = prepared(method).build()
    for at in snapshots.found(folder):
        snapshots.restore(at, run.learner)
        for i, group in enumerate(run.scenario.groups[: at.task + 1]):
            scores = run.learner.predict(group.test)
            assert accuracy(scores, group.test.y) == matrices["class_il"][at.task][i]
            own = accuracy(scores, group.test.y, group.classes)
            assert own == matrices["task_il"][at.task][i]


def test_a_projection_is_kept_with_the_net(straight: Path) -> None:
    run, other = prepared().build(), prepared().build().learner
    for event in run:
        if isinstance(event, TaskEnd):
            ((_, learned),) = snapshots.projections(run.learner)
            snapshots.restore(snapshots.found(straight)[event.task], other)
            ((_, kept),) = snapshots.projections(other)
            for a, b in zip(learned.parameters(), kept.parameters(), strict=True):
                assert torch.equal(a, b)


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"ranpac", "acil"}))
def test_every_rule_decides_as_a_linear_one(method: str) -> None:
    run = toy_run(assemble(method, {}))
    for _ in run:
        pass
    learner = run.learner
    head = learner.net.head
    assert isinstance(head, DecidesLinearly)
    weight, bias = learner.predictor.as_linear(head)
    for group in run.scenario.groups:
        z = learner.embed(group.test).double()
        scores = z @ weight.double().T + bias.double()
        scores = scores.masked_fill(~learner.seen, -torch.inf)
        assert torch.equal(scores.argmax(1), learner.predict(group.test).argmax(1))


def test_a_killed_run_keeps_the_same_snapshots(straight: Path, tmp_path: Path) -> None:
    steps = 7
    with Session(prepared(), tmp_path) as session:
        for event in session:
            steps -= isinstance(event, StepEnd)
            if not steps:
                break  # unsaved since the last epoch
    stopped = done(tmp_path)
    for a, b in zip(snapshots.found(straight), snapshots.found(stopped), strict=True):
        assert a.path.read_bytes() == b.path.read_bytes()


def test_a_damaged_or_foreign_snapshot_is_refused(folder: Path) -> None:
    first, learner = snapshots.found(folder)[0], prepared().build().learner
    with pytest.raises(StateError, match="another net or method"):
        snapshots.restore(first, prepared("lucir").build().learner)
    whole = first.path.read_bytes()
    for at in (20, len(whole) // 2, len(whole) - 1):
        content = bytearray(whole)
        content[at] ^= 1
        first.path.write_bytes(content)
        with pytest.raises(StateError, match="digest does not match"):
            snapshots.restore(first, learner)
    (folder / "manifest.json").unlink()
    first.path.write_bytes(whole[:100])
    with pytest.raises(StateError, match="task01"):
        snapshots.restore(first, learner)
    first.path.write_bytes(whole)
    snapshots.restore(first, learner)


@pytest.mark.filterwarnings("always:.*was kept and is missing")
def test_a_missing_snapshot_is_no_earlier_one(folder: Path, tmp_path: Path) -> None:
    """Also in a folder without digests, as far as the last task goes."""
    assert snapshots.missing(folder) == []
    (folder / "snapshots" / "task03.safetensors").unlink()
    assert snapshots.missing(folder) == ["snapshots/task03.safetensors"]
    for noted in (True, False):
        refused = command("analyse", folder.name, "--what", "probe", cwd=tmp_path)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert ("task03.safetensors was kept and is missing" in refused.stderr) == noted
        assert "end of task 3, the last, is missing" in refused.stderr
        (folder / "manifest.json").unlink(missing_ok=True)
