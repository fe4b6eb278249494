"""A grid as Slurm jobs, through submitit's local executor: the same jobs without the cluster."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from linsep.errors import ConfigError
from linsep.grids.engines import cpu_slots
from linsep.grids.grid import Grid
from linsep.grids.plan import plan
from linsep.storage.lease import holders
from tests.helpers.real_runs import alone, contents

pytest.importorskip("submitit", reason="needs linsep[slurm]")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

PROTOCOLS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 4, "train": 40, "test": 5},
    "memory": 8,
    "training": {"epochs": 20, "batch_size": 10},
    "over": {"method": ["er"], "seed": [0, 1]},
}


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def test_jobs_equal_runs_alone_though_one_is_killed_and_one_preempted(tmp_path: Path) -> None:
    from linsep.grids.engines import Slurm

    runs = tmp_path / "shared"
    cells = plan(PROTOCOLS, runs)
    engine = Slurm(runs, {"cluster": "local", "timeout_min": 10}, cpu_slots(1))
    signals = [signal.SIGKILL, signal.SIGUSR2]  # USR2 is how Slurm says that time is up
    for cell in Grid(cells, runs, save_every=0.0, engine=engine):
        working = [holder.process for holder in holders(cell.folder).values()]
        if signals and cell.status == "running" and cell.report.tries == 1 and working:
            os.kill(working[0], signals.pop(0))
    assert not signals
    assert [cell.status for cell in cells] == ["done"] * 2, [cell.reason for cell in cells]
    for cell in cells:
        assert contents(cell.folder) == contents(alone(cell.settings, tmp_path / "alone"))


def test_without_slurm_it_says_so(tmp_path: Path) -> None:
    from linsep.grids.engines import Slurm

    with pytest.raises(ConfigError, match="--on slurm: "):
        Slurm(tmp_path, {}, cpu_slots(1))
    with pytest.raises(ConfigError, match="--on slurm: "):
        Slurm(tmp_path, {"cluster": "local", "cpus_per_task": "many"}, cpu_slots(1))
