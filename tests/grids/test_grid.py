"""Many runs: expanded, isolated, killed, continued."""

import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from linsep.errors import ConfigError, DeviceError
from linsep.grids.engines import Engine, Local, cpu_slots, gpu_slots, open_engine
from linsep.grids.grid import Grid
from linsep.grids.plan import expand, over, plan, time_left
from linsep.grids.worker import Board, Report
from linsep.storage import manifest
from linsep.storage.folder import RunFolder
from linsep.storage.lease import Lease
from tests.helpers.command import command
from tests.helpers.real_runs import alone, contents

PROTOCOLS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 4, "train": 20, "test": 5},
    "memory": 8,
    "training": {"epochs": 2, "batch_size": 10},
    "bfp": {"weight": 0.5},
    "over": {"method": ["ft", "er", "er+bfp"], "seed": [0, 1]},
}


def test_lists_on_the_command_line() -> None:
    assert over("seed=0..3") == ("seed", [0, 1, 2, 3])
    assert over("method=er,er+bfp") == ("method", ["er", "er+bfp"])
    assert over("training.lr=0.1,0.03") == ("training.lr", [0.1, 0.03])
    with pytest.raises(ConfigError, match="should look like"):
        over("seed")
    with pytest.raises(ConfigError, match="should be a list"):
        expand({"over": {"seed": 3}})
    with pytest.raises(ConfigError, match="should be a table"):
        expand({"over": 1})


def test_a_plan_gives_each_method_what_concerns_it(tmp_path: Path) -> None:
    cells = plan(PROTOCOLS, tmp_path)
    assert [("-m8-" in cell.name) for cell in cells] == [False] * 2 + [True] * 4
    assert {cell.status for cell in cells} == {"waiting"}
    doubled = PROTOCOLS | {"over": {"method": ["ft"], "memory.size": [8, 9], "seed": [0]}}
    assert len(plan(doubled, tmp_path)) == 1  # ft keeps none, so these are one run


@pytest.mark.slow
def test_a_grid_equals_its_runs_alone_even_when_workers_are_killed(tmp_path: Path) -> None:
    cells = plan(PROTOCOLS, tmp_path / "grid")
    engine = Local(tmp_path / "grid", cpu_slots(2))
    grid = Grid(cells, tmp_path / "grid", save_every=0.0, engine=engine)
    killed = 0
    for cell in grid:
        if cell.status == "running" and killed < 2:
            process, _ = engine.workers[cell.report.worker]
            os.kill(process.pid or 0, signal.SIGKILL)
            killed += 1
    assert killed == 2
    assert [cell.status for cell in cells] == ["done"] * 6
    for cell in cells:
        assert contents(cell.folder) == contents(alone(cell.settings, tmp_path / "alone"))
    assert {cell.status for cell in plan(PROTOCOLS, tmp_path / "grid")} == {"done"}


@pytest.mark.slow
def test_a_bad_cell_stops_nobody_and_a_stopped_grid_goes_on(tmp_path: Path) -> None:
    wild = PROTOCOLS | {"over": {"method": ["er"], "training.lr": [1e30, 0.03]}}
    cells = plan(wild, tmp_path)
    grid = Grid(cells, tmp_path, workers=1)
    for _ in grid:
        pass
    assert [cell.status for cell in cells] == ["failed", "done"]
    assert "became" in cells[0].reason or "finite" in cells[0].reason
    long = PROTOCOLS | {"training": {"epochs": 500}, "over": {"method": ["er"]}}
    cells = plan(long, tmp_path)
    grid = Grid(cells, tmp_path, workers=1)
    for _ in grid:
        grid.stop()
    assert [cell.status for cell in cells] == ["stopped"]
    assert (cells[0].folder / "state.safetensors").exists()
    assert RunFolder(plan(wild, tmp_path)[1].folder).results()["seed"] == 0


# --- what the grid does with reports, on an engine whose workers end as the script says -----------


class Scripted(Engine):
    """Each worker takes up the first run that it may, and ends it as the script says."""

    here, most = True, 2

    def __init__(self, *endings: str, further: float = 0.0) -> None:
        super().__init__()  # `workers` has what each is at work on
        self.endings, self.further, self.reached = list(endings), further, 0.0
        self.beside: list[int] = []  # how many others worked when each was started
        self.on_look: list[Any] = []

    def start(self, board: Path, numbers: Any) -> None:
        self.board = Board(board)
        plan = self.board.plan()
        for number in numbers:
            for name in plan["cells"]:
                report = self.board.read(name)
                if report.status == "waiting" and report.tries <= plan["tries"]:
                    tries = 1 if self.reached > report.resumed else report.tries + 1
                    begun = Report("running", "", number, tries, self.reached, self.reached)
                    self.board.write(name, begun)
                    self.beside.append(len(self.workers))
                    self.workers[number] = name
                    self.reached += self.further
                    break

    def ended(self) -> dict[int, str]:
        for then in self.on_look:
            then()
        if not self.workers:
            return {}
        number = min(self.workers)
        name, ending = self.workers.pop(number), self.endings.pop(0)
        status, _, reason = ending.partition(" ")
        if status == "died":
            return {number: reason}
        self.board.write(name, replace(self.board.read(name), status=status, reason=reason))  # type: ignore[arg-type]
        return {number: ""}

    def ending(self, worker: Any) -> None: ...

    def kill(self, worker: Any) -> None: ...


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linsep.grids.grid.LOOK_HERE", 0.0)
    monkeypatch.setattr("linsep.grids.grid.RETRY", 0.0)


def cells_of(tmp_path: Path, seeds: int) -> list[Any]:
    return plan(PROTOCOLS | {"over": {"method": ["er"], "seed": list(range(seeds))}}, tmp_path)


@pytest.mark.usefixtures("_at_once")
def test_what_died_is_tried_again_behind_the_others_and_at_last_alone(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, 3)
    engine = Scripted("died oom", "done", "done", "died oom", "done")
    for _ in Grid(cells, tmp_path, engine=engine):
        pass
    assert [cell.status for cell in cells] == ["done"] * 3
    assert len(engine.beside) == 5
    assert engine.beside[4] == 0, "the last try had the machine for itself"


@pytest.mark.usefixtures("_at_once")
def test_what_always_dies_fails_with_its_reason_and_stops_nobody(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, 2)
    for _ in Grid(cells, tmp_path, engine=Scripted("died oom", "done", "died oom", "died oom")):
        pass
    assert [cell.status for cell in cells] == ["failed", "done"]
    assert cells[0].reason == "oom (3 times)"


@pytest.mark.usefixtures("_at_once")
def test_workers_that_die_before_they_take_up_a_run_are_not_hired_for_ever(tmp_path: Path) -> None:
    class Broken(Scripted):
        def start(self, board: Path, numbers: Any) -> None:
            self.workers |= dict.fromkeys(numbers, "")

    cells = cells_of(tmp_path, 1)
    for _ in Grid(cells, tmp_path, engine=Broken(*["died no torch"] * 3)):
        pass
    assert (cells[0].status, cells[0].reason) == ("failed", "no torch (3 times)")


@pytest.mark.usefixtures("_at_once")
def test_a_run_that_gets_further_each_time_is_never_given_up(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, 1)
    for _ in Grid(cells, tmp_path, engine=Scripted(*["died oom"] * 9, "done", further=0.1)):
        pass
    assert cells[0].status == "done"


@pytest.mark.usefixtures("_at_once")
def test_a_run_held_elsewhere_is_waited_for(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, 2)
    for cell in cells:
        cell.folder.mkdir(parents=True)
    engine = Scripted("elsewhere", "done", "done")
    for _ in Grid(cells, tmp_path, engine=engine):
        pass
    assert [cell.status for cell in cells] == ["done"] * 2

    cells = cells_of(tmp_path, 1)
    engine = Scripted("elsewhere")
    held = Lease(cells[0].folder)
    held.acquire()

    def other_process() -> None:
        if not engine.endings:
            held.release()
            alone(cells[0].settings, tmp_path)

    engine.on_look.append(other_process)
    for _ in Grid(cells, tmp_path, engine=engine):
        pass
    assert cells[0].status == "done"
    assert cells[0].report.seconds > 0


def test_an_impossible_cell_stops_nobody_unless_all_are(tmp_path: Path) -> None:
    some = PROTOCOLS | {"over": {"method": ["er"], "memory": [2, 8]}}
    assert [cell.status for cell in plan(some, tmp_path)] == ["failed", "waiting"]
    with pytest.raises(ConfigError, match=r"memory\.size: 2 samples"):
        plan(PROTOCOLS | {"over": {"method": ["er"], "memory": [2]}}, tmp_path)


def test_the_time_left_is_told_from_what_is_done(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, 4)
    assert time_left(cells, 2) is None
    cells[0].report = Report("running", resumed=0.2, share=0.7, seconds=6.0)
    assert time_left(cells, 1) == pytest.approx(12.0 * (0.3 + len(cells) - 1))  # 12 s for a whole
    cells[0].report = Report("running", resumed=0.2, share=0.2, seconds=6.0)
    assert time_left(cells, 1) is None
    cells[0].report = Report("done", share=1.0, seconds=10.0)
    cells[1].report = Report("running", share=0.5)
    assert time_left(cells, 2) == pytest.approx(12.5)
    assert time_left(cells, 100) == pytest.approx(25 / 3)


def test_gpus_take_turns_and_only_visible_ones_are_used() -> None:
    def named(*devices: str) -> list[dict[str, str]]:
        return [{"CUDA_VISIBLE_DEVICES": device} for device in devices]

    assert gpu_slots(None, 2, 1) == named("0", "1")
    assert gpu_slots(None, 2, 2) == named("0", "1", "0", "1")
    assert gpu_slots("3, 5", 2, 1) == named("3", "5")
    assert gpu_slots("GPU-8f2a", 1, 2) == named("GPU-8f2a", "GPU-8f2a")


SCRIPT = """
from pathlib import Path
from linsep.grids.grid import Grid
from linsep.grids.plan import plan
print("executed", __name__)
settings = {"scenario": {"name": "blobs", "train": 10, "test": 5}, "training": {"epochs": 1}}
cells = plan(settings | {"over": {"method": ["ft"]}}, Path("runs"))
for _ in Grid(cells, Path("runs")):
    pass
print([cell.status for cell in cells])
"""


@pytest.mark.slow
def test_a_script_without_a_guard_is_executed_once(tmp_path: Path) -> None:
    """multiprocessing executes a script once more in every worker, unless it is kept from it."""
    (tmp_path / "script.py").write_text(SCRIPT)
    words = [sys.executable, "script.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "executed __main__\n['done']\n"
    assert done.stderr == ""


def test_a_device_elsewhere_is_believed_in(tmp_path: Path) -> None:
    settings = PROTOCOLS | {"compute": {"device": "cuda"}}
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError):
            plan(settings, tmp_path)
    cells = plan(settings, tmp_path, here=False)
    assert {cell.settings["compute"]["device"] for cell in cells} == {"cuda"}


def test_unknown_places_and_stray_options_are_one_line(tmp_path: Path) -> None:
    slots = gpu_slots(None, 1, 1)
    with pytest.raises(ConfigError, match="Did you mean 'slurm'"):
        open_engine("slrum", tmp_path, slots=slots)
    with pytest.raises(ConfigError, match="--address is a Ray cluster's"):
        open_engine("local", tmp_path, slots=slots, address="auto")
    with pytest.raises(ConfigError, match="--slurm sets options"):
        open_engine("ray", tmp_path, slots=slots, slurm={"partition": "gpu"})


@pytest.mark.slow
def test_two_grids_on_one_folder_share_the_work(tmp_path: Path) -> None:
    """As two machines would that share a disk."""
    spawn = multiprocessing.get_context("spawn")
    both = [spawn.Process(target=_whole_grid, args=(tmp_path,)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(250)  # on a machine with much else to do
    assert [process.exitcode for process in both] == [0, 0]
    assert {cell.status for cell in plan(PROTOCOLS, tmp_path)} == {"done"}
    for cell in plan(PROTOCOLS, tmp_path):
        assert len(manifest.read(cell.folder).environments) == 1, "done twice"


def _whole_grid(runs: Path) -> None:
    cells = plan(PROTOCOLS, runs)
    for _ in Grid(cells, runs, workers=1):
        pass
    assert {cell.status for cell in cells} == {"done"}


# --- the command ----------------------------------------------------------------------------------

WORDS = (
    "grid", "--set", "scenario=blobs", "--set", "scenario.train=10", "--set", "scenario.test=5",
    "--set", "training.epochs=1", "--workers", "1", "--over", "method=ft,er",
)  # fmt: skip


@pytest.mark.slow
def test_the_command_plans_works_and_says_what_failed(tmp_path: Path) -> None:
    planned = command(*WORDS, "--dry-run", cwd=tmp_path)
    assert planned.stdout.startswith("2 runs: 2 new; 1 at once.\n")
    assert not (tmp_path / "runs").exists()
    planned = command(*WORDS, "--over", "memory=5,20", "--dry-run", cwd=tmp_path)
    assert planned.returncode == 1
    assert "impossible     method=er, memory=5: memory.size: 5 samples cannot" in planned.stdout
    done = command(*WORDS, "--over", "memory=5,20", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith("3 runs: 1 impossible, 2 new; 1 at once.\n")
    assert "failed: method=er, memory=5: memory.size: 5 samples cannot cover" in done.stdout
    again = command(*WORDS, cwd=tmp_path)  # er's own memory is another run
    assert again.returncode == 0
    assert again.stdout.startswith("2 runs: 1 finished, 1 new; 1 at once, about ")
