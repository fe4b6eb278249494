"""Many runs: expanded, isolated, killed, continued."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from linsep.config import from_settings, prepare
from linsep.errors import ConfigError
from linsep.grid import Grid, expand, over, plan
from linsep.results import Session, read_results
from tests.test_results import contents

SETTINGS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 4, "train": 20, "test": 5},
    "memory": 8,
    "training": {"epochs": 2, "batch_size": 10},
    "bfp": {"weight": 0.5},
    "over": {"method": ["ft", "er", "er+bfp"], "seed": [0, 1]},
}


def test_every_combination_once_in_order() -> None:
    pairs = [(s["method"], s["seed"]) for s in expand(SETTINGS)]
    assert pairs == [(m, s) for m in ("ft", "er", "er+bfp") for s in (0, 1)]
    nested = expand({"over": {"training": {"lr": [0.1, 0.2]}, "bfp": {"weight": [1, 3]}}})
    assert [(s["training"]["lr"], s["options"]["bfp"]["weight"]) for s in nested] == [
        (0.1, 1), (0.1, 3), (0.2, 1), (0.2, 3),
    ]  # fmt: skip


def test_lists_on_the_command_line() -> None:
    assert over("seed=0..3") == ("seed", [0, 1, 2, 3])
    assert over("method=er,er+bfp") == ("method", ["er", "er+bfp"])
    assert over("training.lr=0.1,0.03") == ("training.lr", [0.1, 0.03])
    with pytest.raises(ConfigError, match="should look like"):
        over("seed")
    with pytest.raises(ConfigError, match="should be a list"):
        expand({"over": {"seed": 3}})


def test_a_plan_gives_each_method_what_concerns_it(tmp_path: Path) -> None:
    cells = plan(SETTINGS, tmp_path)
    assert [("-m8-" in cell.name) for cell in cells] == [False] * 2 + [True] * 4
    assert {cell.status for cell in cells} == {"waiting"}
    doubled = SETTINGS | {"over": {"method": ["ft"], "memory.rows": [8, 9], "seed": [0]}}
    assert len(plan(doubled, tmp_path)) == 1  # ft keeps none, so these are one run


@pytest.mark.slow
def test_a_grid_equals_its_runs_alone_even_when_workers_are_killed(tmp_path: Path) -> None:
    cells = plan(SETTINGS, tmp_path / "grid")
    grid = Grid(cells, tmp_path / "grid", workers=2, save_every=0.0)
    killed = 0
    for cell in grid:
        if cell.status == "running" and killed < 2:
            os.kill(grid.engine.working()[0], signal.SIGKILL)
            killed += 1
    assert killed == 2
    assert [cell.status for cell in cells] == ["done"] * 6
    for cell in cells:
        alone = prepare(from_settings(cell.settings), lenient=True)
        with Session(alone, tmp_path / "alone") as session:
            for _ in session:
                pass
        assert contents(cell.folder) == contents(session.folder)
    assert {cell.status for cell in plan(SETTINGS, tmp_path / "grid")} == {"done"}


@pytest.mark.slow
def test_a_bad_cell_stops_nobody_and_a_stopped_grid_goes_on(tmp_path: Path) -> None:
    wild = SETTINGS | {"over": {"method": ["er"], "training.lr": [1e30, 0.03]}}
    cells = plan(wild, tmp_path)
    grid = Grid(cells, tmp_path, workers=1)
    for _ in grid:
        pass
    assert [cell.status for cell in cells] == ["failed", "done"]
    assert "became" in cells[0].reason or "finite" in cells[0].reason
    long = SETTINGS | {"training": {"epochs": 500}, "over": {"method": ["er"]}}
    cells = plan(long, tmp_path)
    grid = Grid(cells, tmp_path, workers=1)
    for _ in grid:
        grid.stop()
    assert [cell.status for cell in cells] == ["stopped"]
    assert (cells[0].folder / "state.pt").exists()
    assert read_results(plan(wild, tmp_path)[1].folder)["seed"] == 0
