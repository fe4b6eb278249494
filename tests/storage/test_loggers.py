"""Loggers: what they are told, live and replayed, and that both are the same."""

import json
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from linsep.errors import ConfigError
from linsep.learning.run import Recorded
from linsep.storage import loggers
from linsep.storage.folder import RunFolder
from linsep.storage.loggers import Log, Scalar, replay, start
from linsep.storage.session import Session, event_record
from tests.helpers.command import TINY, command
from tests.helpers.real_runs import prepared

Series = dict[str, list[tuple[int, float]]]


class Kept:
    """A sink that remembers."""

    every: ClassVar[list["Kept"]] = []

    def __init__(self, folder: Path, where: Path) -> None:
        self.told: list[Scalar] = []
        self.closed = False
        self.every.append(self)

    def write(self, scalar: Scalar) -> None:
        assert not self.closed
        self.told.append(scalar)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> type[Kept]:
    monkeypatch.setattr(Kept, "every", [])
    monkeypatch.setitem(loggers.LOGGERS, "json", Kept)
    return Kept


def live(kind: str, runs: Path) -> Path:
    with Session(prepared(), runs) as session, start(kind, session.folder) as log:
        for event in session:
            if isinstance(event, Recorded):
                log.see(event_record(event))
        log.finish(session.results())
    return session.folder


def test_scalars_by_hand() -> None:
    sink = Kept(Path(), Path())
    log = Log(sink)
    epoch = {"event": "epoch_end", "task": 0, "stage": "train", "epoch": 0, "steps": 7}
    log.see(epoch | {"losses": {"ce": 0.5}})
    log.see(epoch | {"losses": {"ce": 0.25, "bfp": 2.0}})
    log.see(epoch | {"stage": "bias", "steps": 1, "losses": {"ce": 1.0}})
    log.see(
        {"event": "task_end", "task": 1, "group": 1, "class_il": [0.5, 1.0], "task_il": [1.0, 1.0]}
    )
    log.finish({"metrics": {"class_il": {"faa": 75.0, "ff": None}}})
    assert sink.told == [
        Scalar("loss/ce", 0.5, "step", 7),
        Scalar("loss/ce", 0.25, "step", 14),
        Scalar("loss/bfp", 2.0, "step", 14),
        Scalar("loss/bias/ce", 1.0, "step", 15),
        Scalar("class_il/task 1", 50.0, "task", 2),
        Scalar("class_il/task 2", 100.0, "task", 2),
        Scalar("class_il/average", 75.0, "task", 2),
        Scalar("task_il/task 1", 100.0, "task", 2),
        Scalar("task_il/task 2", 100.0, "task", 2),
        Scalar("task_il/average", 100.0, "task", 2),
        Scalar("final/class_il.faa", 75.0, "task", 2),
    ]


def test_live_replayed_and_resumed_tell_the_same(
    kept: type[Kept], whole: Path, stopped: Path
) -> None:
    replay("json", whole)
    live("json", stopped.parent)
    first, second = kept.every
    assert first.told == second.told
    assert all(sink.closed for sink in kept.every)
    losses = {s.name for s in first.told}
    assert {"loss/ce", "loss/bfp", "class_il/average", "final/task_il.faa"} <= losses


def test_the_command_line_logs_while_it_runs(kept: type[Kept], tmp_path: Path) -> None:
    said = command(*TINY, "--log", "json", "--quiet", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    said = command("log", folder.name, "--to", "json", cwd=tmp_path)
    assert said.stdout == f"Written to runs/{folder.name}\n"
    assert kept.every[0].told == kept.every[1].told
    again = command(*TINY, "--log", "json", cwd=tmp_path)
    assert "linsep log" in again.stdout
    assert len(kept.every) == 2


def test_runs_are_chosen_by_a_condition(kept: type[Kept], whole: Path, tmp_path: Path) -> None:
    words = ("log", "--runs", str(whole.parent), "--to", "json")
    said = command(*words, "--where", "method=derpp+bfp", cwd=tmp_path)
    assert (said.returncode, len(kept.every)) == (0, 1), said.stderr
    said = command(*words, "--where", "method=ft", cwd=tmp_path)
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
    assert "there are no runs with method=ft" in said.stderr


@pytest.mark.slow
def test_a_grid_logs_each_of_its_runs(tmp_path: Path) -> None:
    """In its workers, what a run alone logs; what was finished before is left to `linsep log`."""
    pytest.importorskip("tensorboard")
    words = ("grid", *TINY[1:], "--workers", "1", "--log", "tensorboard")
    for seeds in ("seed=0,1", "seed=0..2"):
        said = command(*words, "--over", seeds, cwd=tmp_path)
        assert said.returncode == 0, said.stderr
    folders = sorted((tmp_path / "runs").glob("blobs-*"))
    assert len(folders) == 3
    for folder in folders:
        assert len(list((folder / "tensorboard").glob("events.out.tfevents.*"))) == 1
    said = command("grid", *TINY[1:], "--over", "seed=0,1", "--log", "tensorbord", cwd=tmp_path)
    assert "Did you mean 'tensorboard'?" in said.stderr


@pytest.mark.parametrize("kind", ["tensorboard", "wandb", "mlflow"])
def test_a_missing_library_is_one_line(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, kind, None)
    said = command(*TINY, "--log", kind, cwd=tmp_path)
    assert said.returncode == 2
    assert said.stderr == f"error: the log needs {kind}: pip install 'linsep[{kind}]'\n"
    assert not (tmp_path / "runs").exists()


# --- the libraries themselves --------------------------------------------------------------------


def test_tensorboard_for_real(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    folder = live("tensorboard", tmp_path)
    replay("tensorboard", folder, tmp_path / "logs")
    one = _tensorboard(folder / "tensorboard")
    assert one == _tensorboard(tmp_path / "logs" / folder.name)
    events = [e for e in RunFolder(folder).events() if e["event"] == "epoch_end"]
    expected = [e["losses"]["ce"] for e in events]
    assert [value for _, value in one["loss/ce"]] == pytest.approx(expected)
    results = json.loads((folder / "results.json").read_text())
    faa = results["metrics"]["class_il"]["faa"]
    ((at, value),) = one["final/class_il.faa"]
    assert at == 2
    assert value == pytest.approx(faa)
    assert [step for step, _ in one["class_il/average"]] == [1, 2]
    replay("tensorboard", folder)
    assert _tensorboard(folder / "tensorboard") == one, "an earlier log is replaced"


def _tensorboard(place: Path) -> Series:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    (file,) = place.glob("events.out.tfevents.*")
    found: Series = defaultdict(list)
    for event in EventFileLoader(str(file)).Load():
        for value in event.summary.value:
            number = value.tensor.float_val[0] if value.HasField("tensor") else value.simple_value
            found[value.tag].append((event.step, number))
    return dict(found)


def test_wandb_through_its_door(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in, as above: losses over steps, accuracies over tasks; refusals in one line."""
    logged: list[dict[str, float]] = []
    run = SimpleNamespace(
        log=logged.append, summary={}, define_metric=lambda *a, **k: None, finish=lambda: None
    )

    class RefusedError(Exception):
        pass

    fake: Any = ModuleType("wandb")
    fake.errors, fake.Settings = SimpleNamespace(Error=RefusedError), dict
    fake.init = lambda **settings: run
    monkeypatch.setitem(sys.modules, "wandb", fake)
    replay("wandb", whole)
    events = [e for e in RunFolder(whole).events() if e["event"] == "epoch_end"]
    losses = [one["loss/ce"] for one in logged if "loss/ce" in one]
    assert losses == [e["losses"]["ce"] for e in events]
    assert [one["task"] for one in logged if "class_il/average" in one] == [1, 2]
    final = RunFolder(whole).results()["metrics"]["class_il"]["faa"]
    assert run.summary["final/class_il.faa"] == final

    def refuse(**settings: Any) -> None:
        raise RefusedError("no account\nwas found")

    fake.init = refuse
    with pytest.raises(ConfigError, match=r"no account was found .WANDB_MODE=offline"):
        replay("wandb", whole)
