"""What a grid costs beside its runs alone: CPU time in all, and wall time on two cores.

The same runs three times, each time in a fresh folder: every run as a command of its own, one after
the other; all of them one after the other in one process, which starts up and opens the data once;
and as a grid. CPU time is that of all processes, start-up and the grid's own included.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..compare.tables import Table
from ..grids.plan import plan
from ..prepare import prepare
from ..settings.config import from_settings
from ..storage.session import Session

SETTINGS = {
    "scenario": {"name": "fashion-mini", "per_class": 100},
    "method": "derpp+bfp",
    "memory": 100,
    "training": {"epochs": 4},
    "compute": {"threads": 1, "device": "cpu"},
}
MAIN = "import sys; sys.argv[0] = 'linsep'; from linsep.cli import main; main()"


@dataclass(frozen=True)
class Cost:
    what: str
    cpu: float  # seconds
    wall: float


def measure(runs: int, workers: int, say: Callable[[str], None]) -> list[Cost]:
    costs = []
    with tempfile.TemporaryDirectory() as scratch:
        for what, commands in _ways(runs, workers, Path(scratch)).items():
            say(what)
            costs.append(_cost(what, commands))
    return costs


def table(costs: list[Cost]) -> Table:
    """Ratios are the grid's to the row's; wall time is bound beside one run after the other."""
    grid = costs[-1]
    rows = [
        (c.what, c.cpu, c.wall, f"{grid.cpu / c.cpu:.3f}", f"{grid.wall / c.wall:.3f}")
        for c in costs
    ]
    columns = ("what", "CPU s", "wall s", "grid's CPU, ratio", "grid's wall, ratio")
    return Table(columns, rows, digits=1, caption="bounds: CPU 1.05, wall 0.60")


def _ways(runs: int, workers: int, scratch: Path) -> dict[str, list[list[str]]]:
    flat = [
        "--set", "scenario=fashion-mini", "--set", "scenario.per_class=100",
        "--set", "method=derpp+bfp", "--set", "memory=100", "--set", "training.epochs=4",
        "--set", "compute.threads=1", "--set", "compute.device=cpu", "--quiet",
    ]  # fmt: skip
    linsep = [sys.executable, "-c", MAIN]
    alone = [*linsep, "run", *flat, "--runs", str(scratch / "alone"), "--seed"]
    over = ["--over", f"seed=0..{runs - 1}", "--workers", str(workers)]
    return {
        f"{runs} commands": [[*alone, str(seed)] for seed in range(runs)],
        "one process": [
            [sys.executable, "-m", "linsep.bench.grid", str(runs), str(scratch / "one")]
        ],
        f"a grid of {workers}": [[*linsep, "grid", *flat, *over, "--runs", str(scratch / "grid")]],
    }


def _cost(what: str, commands: list[list[str]]) -> Cost:
    began, cpu = time.monotonic(), 0.0
    one_thread = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    for command in commands:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=one_thread)
        _, status, used = os.wait4(process.pid, 0)  # its children's too
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
        cpu += used.ru_utime + used.ru_stime
    return Cost(what, cpu, time.monotonic() - began)


def _one_after_the_other(runs: int, folder: Path) -> None:
    cells = plan(SETTINGS | {"over": {"seed": list(range(runs))}}, folder)
    opened: dict[str, object] = {}
    for cell in cells:
        prepared = prepare(from_settings(cell.settings), lenient=True, opened=opened)  # type: ignore[arg-type]
        with Session(prepared, folder) as session:
            for _ in session:
                pass


if __name__ == "__main__":
    _one_after_the_other(int(sys.argv[1]), Path(sys.argv[2]))
