"""SIGKILL at random moments: the rest equals the uninterrupted run, bit for bit."""

import multiprocessing
import random
import time
from pathlib import Path
from typing import Any

import pytest

from linsep.prepare import prepare
from linsep.settings.config import from_settings
from linsep.storage.session import Session
from tests.helpers.own_parts import write
from tests.helpers.real_runs import contents

KILLS = 20
PROTOCOLS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 6, "train": 40, "test": 10},
    "method": "derpp+bfp",
    "memory": 12,
    "training": {"epochs": 3, "batch_size": 10, "momentum": 0.9},
}


# A method and a net of a user's own, from a file.
OWN = PROTOCOLS | {"method": "mine.py:er_kd+bfp", "net": "mine.py:make"}
OWN |= {"training": {"epochs": 3, "batch_size": 10, "optimizer": "adamw"}}


def work(runs: Path, settings: dict[str, Any]) -> None:
    # A save at every event, so that many kills fall into one.
    with Session(prepare(from_settings(settings)), runs, save_every=0.0) as session:
        for _ in session:
            pass


def folder(runs: Path, settings: dict[str, Any]) -> Path:
    return runs / prepare(from_settings(settings)).name


@pytest.mark.slow
@pytest.mark.parametrize("settings", [PROTOCOLS, OWN], ids=["ours", "own"])
def test_a_run_survives_being_killed_at_random_moments(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    fork = multiprocessing.get_context("fork")
    began = time.monotonic()
    work(tmp_path / "straight", settings)
    expected = contents(folder(tmp_path / "straight", settings))
    duration = time.monotonic() - began
    moments, kills = random.Random(0), 0
    runs = tmp_path / "killed"
    while kills < KILLS:
        process = fork.Process(target=work, args=(runs, settings))
        process.start()
        process.join(moments.uniform(0.02, 0.25) * duration)
        if process.exitcode is None:
            kills += 1
            process.kill()
            process.join()
        else:
            assert process.exitcode == 0
            assert contents(folder(runs, settings)) == expected
            runs = tmp_path / f"killed after {kills}"  # it finished: go on killing a new one
    work(runs, settings)
    assert contents(folder(runs, settings)) == expected
