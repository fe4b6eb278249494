"""What a grid costs beside its runs alone: CPU time in all, and wall time on two cores.

The same runs three times, each time in a fresh folder: every run as a command of its own, one after
the other; all of them one after the other in one process, which starts up and opens the data once;
and as a grid. CPU time is that of all processes, start-up and the grid's own included.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from linsep.compare.tables import Table
from linsep.grids.plan import plan
from linsep.prepare import prepare
from linsep.settings.config import from_settings
from linsep.settings.layers import assignment, merged
from linsep.storage.session import Session

from .timing import Times

FIELDS = {
    "scenario.name": "fashion-mini", "scenario.per_class": 100, "method": "derpp+bfp",
    "memory.size": 100, "training.epochs": 4, "compute.threads": 1, "compute.device": "cpu",
}  # fmt: skip
MAIN = "import sys; sys.argv[0] = 'linsep'; from linsep.cli import main; main()"
LINSEP = [sys.executable, "-c", MAIN]


def measure(
    runs: int, workers: int, say: Callable[[str], None], fields: Mapping[str, Any] = FIELDS
) -> dict[str, Times]:
    given = [f"{name}={value}" for name, value in fields.items()]
    flags = [word for text in given for word in ("--set", text)]
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        alone = [*LINSEP, "run", "--quiet", *flags, "--runs", f"{scratch}/alone", "--seed"]
        seeds = f"over.seed={list(range(runs))}"
        one = [sys.executable, "-m", "benchmarks.grid", f"{scratch}/one", *given, seeds]
        over = ["--over", f"seed=0..{runs - 1}", "--workers", str(workers)]
        grid = [*LINSEP, "grid", "--quiet", *flags, *over, "--runs", f"{scratch}/grid"]
        for what, commands in {
            f"{runs} commands": [[*alone, str(seed)] for seed in range(runs)],
            "one process": [one],
            f"a grid of {workers}": [grid],
        }.items():
            say(what)
            found[what] = _cost(commands)
    return found


def table(found: Mapping[str, Times]) -> Table:
    """Ratios are the grid's to the row's; the bound on wall time is to one process."""
    *_, grid = found.values()
    rows = [
        (what, cpu, wall, f"{grid.cpu / cpu:.3f}", f"{grid.wall / wall:.3f}")
        for what, (cpu, wall) in found.items()
    ]
    columns = ("what", "CPU s", "wall s", "grid's CPU, ratio", "grid's wall, ratio")
    return Table(columns, rows, digits=1, caption="bounds: CPU 1.05, wall 0.60")


def _cost(commands: list[list[str]]) -> Times:
    one_thread = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    before = os.times()
    for command in commands:
        subprocess.run(command, stdout=subprocess.DEVNULL, env=one_thread, check=True)
    after = os.times()
    cpu = sum(after[2:4]) - sum(before[2:4])  # of the commands and of the processes they started
    return Times(cpu, after.elapsed - before.elapsed)


def _one_after_the_other(folder: Path, given: list[str]) -> None:
    opened: dict[str, Any] = {}
    for cell in plan(merged(*map(assignment, given)), folder):
        prepared = prepare(from_settings(cell.settings), lenient=True, opened=opened)
        with Session(prepared, folder) as session:
            for _ in session:
                pass


if __name__ == "__main__":
    _one_after_the_other(Path(sys.argv[1]), sys.argv[2:])
