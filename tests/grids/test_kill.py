"""SIGKILL to workers and to the grid itself: repeated, it ends as if nothing had happened."""

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from linsep.grids.grid import Grid
from linsep.grids.plan import plan
from linsep.storage.lease import holders
from tests.helpers.real_runs import alone, contents

WORKER_KILLS, PARENT_KILLS = 20, 5
SPAWN = multiprocessing.get_context("spawn")
MARK = "LINSEP_TEST_OF_KILLS"  # in the environment of the grid's processes, to find them by
PROTOCOLS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 6, "train": 60, "test": 10},
    "memory": 12,
    "training": {"epochs": 6, "batch_size": 10, "momentum": 0.9},
    "over": {"method": ["ft", "er", "derpp+bfp"], "seed": [0, 1]},
}


def repeat_the_command(runs: Path) -> None:
    # A save at every event, so that many kills fall into one.
    for _ in Grid(plan(PROTOCOLS, runs), runs, workers=2, save_every=0.0):
        pass


def at_work(runs: Path) -> list[int]:
    """The workers that hold a run, as the runs' folders tell."""
    found = []
    for folder in runs.glob("blobs-*"):
        for holder in holders(folder).values():
            with suppress(OSError):
                said = Path(f"/proc/{holder.process}/cmdline").read_bytes()
                if b"multiprocessing.forkserver" in said:
                    found.append(holder.process)
    return sorted(found)


def alive(mark: str) -> list[int]:
    """The processes that a grid has started, itself included."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def killed(process: BaseProcess, runs: Path, moments: random.Random) -> Iterator[int]:
    """Kill a worker now and then while the grid goes on."""
    while process.is_alive():
        process.join(moments.uniform(0.02, 0.5))
        workers = at_work(runs)
        if process.is_alive() and workers:
            with suppress(ProcessLookupError):
                os.kill(moments.choice(workers), signal.SIGKILL)
                yield 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the workers in /proc")
def test_a_grid_survives_the_death_of_its_workers_and_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = plan(PROTOCOLS, tmp_path)
    expected = {cell.name: contents(alone(cell.settings, tmp_path / "a")) for cell in cells}
    moments, workers, parents, rounds = random.Random(0), 0, 0, 0
    runs = tmp_path / "b0"
    resource_tracker.ensure_running()  # which is this process's own, and so must not bear the mark
    monkeypatch.setenv(MARK, str(tmp_path))

    def finished() -> bool:
        return all((runs / name / "results.json").exists() for name in expected)

    deadline = time.monotonic() + 280
    while workers < WORKER_KILLS or parents < PARENT_KILLS or not finished():
        assert time.monotonic() < deadline, (workers, parents)
        if finished():  # too early: go on killing another one
            assert {name: contents(runs / name) for name in expected} == expected
            rounds += 1
            runs = tmp_path / f"b{rounds}"
        process = SPAWN.Process(target=repeat_the_command, args=(runs,))
        process.start()
        if workers < WORKER_KILLS or parents < PARENT_KILLS:
            for number, one in enumerate(killed(process, runs, moments), 1):
                workers += one
                if number >= WORKER_KILLS // PARENT_KILLS and parents < PARENT_KILLS:
                    process.kill()
                    parents += 1
                    break
        process.join()
    assert {name: contents(runs / name) for name in expected} == expected
    while left := alive(str(tmp_path)):
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.1)
    litter = {p.name for name in expected for p in (runs / name).glob("*.tmp")}
    assert not litter
