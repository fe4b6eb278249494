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
from tests.helpers.real_runs import contents

KILLS = 20
PROTOCOLS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 6, "train": 40, "test": 10},
    "method": "derpp+bfp",
    "memory": 12,
    "training": {"epochs": 3, "batch_size": 10, "momentum": 0.9},
}


def work(runs: Path) -> None:
    # A save at every event, so that many kills fall into one.
    with Session(prepare(from_settings(PROTOCOLS)), runs, save_every=0.0) as session:
        for _ in session:
            pass


@pytest.mark.slow
def test_a_run_survives_being_killed_at_random_moments(tmp_path: Path) -> None:
    fork, name = multiprocessing.get_context("fork"), prepare(from_settings(PROTOCOLS)).name
    began = time.monotonic()
    work(tmp_path / "straight")
    expected = contents(tmp_path / "straight" / name)
    duration = time.monotonic() - began
    moments, kills = random.Random(0), 0
    runs = tmp_path / "killed"
    while kills < KILLS:
        process = fork.Process(target=work, args=(runs,))
        process.start()
        process.join(moments.uniform(0.02, 0.25) * duration)
        if process.exitcode is None:
            kills += 1
            process.kill()
            process.join()
        else:
            assert process.exitcode == 0
            assert contents(runs / name) == expected
            runs = tmp_path / f"killed after {kills}"  # it finished: go on killing a new one
    work(runs)
    assert contents(runs / name) == expected
