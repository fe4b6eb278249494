"""`linsep.train` makes the run that `linsep run` makes: same folder, same bits, same resume."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch
from torch import nn

import linsep
from linsep.cli.progress import Watcher
from linsep.learning.run import Event, StepEnd
from linsep.storage.session import Session
from tests.helpers.command import TINY, command
from tests.helpers.real_runs import PROTOCOLS, contents, interrupted, straight

TWIN: dict[str, Any] = {  # of TINY
    "scenario": {"name": "blobs", "train": 10, "test": 5},
    "method": "derpp+bfp",
    "memory": 20,
    "training": {"epochs": 1},
}


def test_the_folder_is_that_of_the_command_line_bit_for_bit(tmp_path: Path) -> None:
    assert command(*TINY, "--quiet", cwd=tmp_path).returncode == 0
    (theirs,) = (tmp_path / "runs").glob("blobs-*")
    run = linsep.train(TWIN, runs=tmp_path / "mine")
    assert run.name == theirs.name
    assert contents(run.folder) == contents(theirs)


def test_config_may_be_a_config_a_dict_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "twin.toml"
    file.write_text(tomli_w.dumps(TWIN))
    dotted = {k: v for k, v in TWIN.items() if k != "training"} | {"training.epochs": 1}
    short = {k: v for k, v in TWIN.items() if k != "training"} | {"epochs": 1}
    given: list[Any] = [linsep.Config(**TWIN), TWIN, dotted, short, file, str(file)]
    names = {linsep.train(one, runs=str(tmp_path / "runs")).name for one in given}
    assert len(names) == 1


def test_options_of_a_method_stand_beside_it_as_in_toml(tmp_path: Path) -> None:
    run = linsep.train({**TWIN, "bfp": {"weight": 3.0}}, runs=tmp_path)
    assert run.config.options["bfp"]["weight"] == 3.0


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"method": "er", "over": {"seed": [0, 1]}}, "lists under .over."),
        ({"method": "er", "epohcs": 1}, "unknown setting 'epohcs'"),
        (3, "should be a linsep.Config, a dict or the path of a TOML file, not 3"),
        ("nowhere.toml", "nowhere.toml: No such file"),
    ],
)
def test_what_is_no_config_is_refused(config: Any, problem: str, tmp_path: Path) -> None:
    with pytest.raises(linsep.LinsepError, match=problem):
        linsep.train(config, runs=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_kind_of_snapshot_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(linsep.LinsepError, match=r"unknown kind 'task'\. Did you mean"):
        linsep.train(TWIN, runs=tmp_path, keep="task")  # type: ignore[arg-type]


def test_a_half_finished_run_is_resumed_and_a_finished_one_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = contents(straight(tmp_path / "straight"))
    folder = interrupted(tmp_path / "runs", steps=7)
    run = linsep.train(PROTOCOLS, runs=tmp_path / "runs")
    assert run.folder == folder
    assert contents(folder) == whole
    monkeypatch.setattr(Session, "_open", lambda self: pytest.fail("trained again"))
    assert linsep.train(PROTOCOLS, runs=tmp_path / "runs").metrics == run.metrics


def test_ctrl_c_saves_and_the_next_call_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = 0

    def press(watcher: Watcher, event: Event) -> None:
        nonlocal seen
        seen += isinstance(event, StepEnd)
        if seen == 5:
            os.kill(os.getpid(), signal.SIGINT)

    # A process that was started in the background may ignore the signal.
    started = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patched:
        patched.setattr(Watcher, "see", press)
        with pytest.raises(KeyboardInterrupt):
            linsep.train(PROTOCOLS, runs=tmp_path / "runs", save_every=1e9)
    assert signal.getsignal(signal.SIGINT) is before
    signal.signal(signal.SIGINT, started)
    (saved,) = linsep.runs(runs=tmp_path / "runs")
    assert not saved.finished
    run = linsep.train(PROTOCOLS, runs=tmp_path / "runs")
    assert contents(run.folder) == contents(straight(tmp_path / "straight"))


def test_it_works_in_a_thread_where_no_signal_can_be_caught(tmp_path: Path) -> None:
    made: list[linsep.SavedRun] = []
    thread = threading.Thread(target=lambda: made.append(linsep.train(TWIN, runs=tmp_path)))
    thread.start()
    thread.join()
    assert made[0].finished


def test_the_sessions_number_of_threads_comes_back(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    try:
        linsep.train(TWIN, runs=tmp_path)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_progress_is_what_the_command_line_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    linsep.train(TWIN, runs=tmp_path / "silent")
    assert capsys.readouterr().out == ""
    linsep.train(TWIN, runs=tmp_path / "said", progress=True)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("after task")]
    printed = command(*TINY, cwd=tmp_path).stdout.splitlines()
    assert said == [line for line in printed if line.startswith("after task")]
    assert len(said) == 5


def test_a_data_set_and_a_backbone_of_ones_own_are_kept_and_opened_again(tmp_path: Path) -> None:
    x = torch.randint(0, 256, (80, 3, 8, 8), dtype=torch.uint8)
    data = linsep.from_arrays(x, torch.arange(80) % 4, names=("cat", "dog", "elk", "fox"))
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU())
    settings = {"scenario": {"per_task": 2}, "method": "er", "memory": 8, "training.epochs": 1}
    run = linsep.train(settings, data=data, net=net, runs=tmp_path)
    again = linsep.load(run.folder, data=data, net=net)
    assert (again.predict(data) == run.predict(data)).all()
    with pytest.raises(linsep.LinsepError, match="hand them over again as `data`"):
        linsep.load(run.folder).net  # noqa: B018
