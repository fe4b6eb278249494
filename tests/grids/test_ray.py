"""A grid on a Ray cluster of two nodes, of which one is killed in the middle."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from linsep.grids.engines import cpu_slots
from linsep.grids.grid import Grid
from linsep.grids.plan import plan
from linsep.storage.lease import holders
from tests.helpers.own_parts import SOURCE, write
from tests.helpers.real_runs import alone, contents

ray = pytest.importorskip("ray", reason="needs linsep[ray]")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # Ray's own are not ours to mend
]

PROTOCOLS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 6, "train": 60, "test": 10},
    "memory": 12,
    "training": {"epochs": 10, "batch_size": 10, "momentum": 0.9},
    "over": {"method": ["er", "derpp+bfp"], "seed": [0, 1]},
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    utilities: Any = pytest.importorskip("ray.cluster_utils")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # 15 by default: they crawl on a busy machine
    quiet = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100_000_000}
    made = utilities.Cluster(
        initialize_head=True, head_node_args=quiet | {"resources": {"head": 1}}
    )
    made.add_node(num_cpus=1, object_store_memory=100_000_000)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


def straight(runs: Path) -> dict[str, dict[str, bytes]]:
    return {cell.name: contents(alone(cell.settings, runs)) for cell in plan(PROTOCOLS, runs)}


def until_all_exist(paths: list[Path]) -> None:
    deadline = time.monotonic() + 60
    while not all(path.exists() for path in paths):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_killed_node_loses_only_the_work_since_the_last_save(
    cluster: Any, tmp_path: Path
) -> None:
    from linsep.grids.engines import Ray

    expected = straight(tmp_path / "straight")
    runs = tmp_path / "shared"
    began = plan(PROTOCOLS, runs)[:1]  # here first: what is begun locally may go on on a cluster
    local = Grid(began, runs, workers=1, save_every=0.0)
    for cell in local:
        if cell.report.share > 0.2:
            local.stop()
    assert began[0].status == "stopped"

    cells = plan(PROTOCOLS, runs)
    assert [cell.begun for cell in cells] == [True, False, False, False]
    engine = Ray(cluster.address, cpu_slots(2))
    grid = Grid(cells, runs, save_every=0.1, engine=engine)
    (victim,) = [node for node in cluster.list_all_nodes() if not node.head]
    killed, died = False, []
    for cell in grid:
        died += [cell.name] if "lost" in cell.reason else []
        running = [c for c in cells if c.status == "running"]
        if not killed and len(running) == 2:
            until_all_exist([c.folder / "state.safetensors" for c in running])
            assert all(holders(c.folder) for c in running), "they ended too soon"
            cluster.remove_node(victim, allow_graceful=False)
            killed = True
    assert killed
    assert len(died) == 1, "the run on that node was handed out again"
    assert [cell.status for cell in cells] == ["done"] * 4, [cell.reason for cell in cells]
    assert {cell.name: contents(cell.folder) for cell in cells} == expected


def test_a_local_cluster_is_started_and_a_grid_on_it_can_be_stopped(tmp_path: Path) -> None:
    from linsep.grids.engines import Ray

    long = PROTOCOLS | {"training": {"epochs": 5000}, "over": {"seed": [0]}, "method": "er"}
    cells = plan(long, tmp_path)
    grid = Grid(cells, tmp_path, engine=Ray(None, cpu_slots(1)))
    for _ in grid:
        grid.stop()
    assert [cell.status for cell in cells] == ["stopped"]
    assert (cells[0].folder / "state.safetensors").exists()
    assert not holders(cells[0].folder)
    assert not ray.is_initialized()


def test_a_users_own_parts_reach_the_workers_and_a_changed_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from linsep.grids.engines import Ray

    monkeypatch.chdir(write(tmp_path).parent)  # named relative to here, where no worker is
    over = {"method": ["mine.py:er_kd", "mine.py:er_kd+bfp"]}
    short = {"epochs": 2, "batch_size": 10}
    settings = PROTOCOLS | {"training": short, "over": over, "net": "mine.py:make"}
    cells = plan(settings, tmp_path / "runs")
    late = plan(settings | {"seed": 1}, tmp_path / "runs")[0]
    expected = {c.name: contents(alone(c.settings, tmp_path / "straight")) for c in cells}
    grid = Grid(cells, tmp_path / "runs", engine=Ray(None, cpu_slots(1)))
    for _ in grid:
        if all(cell.status == "done" for cell in cells) and late not in grid.cells:
            write(tmp_path, SOURCE + "# changed\n")
            grid.add(late)
    assert [cell.status for cell in cells] == ["done", "done", "failed"], late.reason
    assert "mine.py:er_kd was changed since this run was planned" in late.reason
    assert {name: contents(tmp_path / "runs" / name) for name in expected} == expected
