"""How long `linsep runs` and `linsep compare` take over thousands of run folders.

Makes folders as the library writes them, with made-up numbers, in a temporary directory. Times are
of the work in this process: reading the index, checking every folder for changes, the statistics,
the table drawn. Python's start-up and imports, about half a second, come on top.
"""

import io
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from linsep.compare.summaries import differences, listing, summary
from linsep.compare.tables import Table, show
from linsep.compare.variants import compare
from linsep.learning.metrics import METRICS, PROTOCOLS
from linsep.resolve import resolve
from linsep.settings.config import Config, to_toml
from linsep.storage.folder import CONFIG, RESULTS
from linsep.storage.store import Store

from .timing import Times, least

BOUND = 1.0  # second, for each but the indexing
METHODS = ("ft", "er", "er+bfp", "derpp", "derpp+bfp", "er_ace", "er_ace+bfp", "lucir")
SEEDS = range(5)
WHERE = ("method in (er, er+bfp) and faa>20", "-faa")


def measure(count: int = 2000, rounds: int = 5) -> dict[str, Times]:
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        make(runs, count)
        works = {
            "indexing all, once": lambda: _indexed(runs),
            "runs": lambda: _drawn(listing(Store(runs).select())),
            "runs --where ... --sort ...": lambda: _drawn(listing(Store(runs).select(*WHERE))),
            "compare": lambda: _compared(runs),
        }
        return dict(zip(works, least(*works.values(), rounds=rounds), strict=True))


def table(found: dict[str, Times], count: int) -> Table:
    rows = [
        (what, f"{times.cpu:.3f}", f"{times.wall:.3f}", "-" if number == 0 else f"{BOUND:.1f}")
        for number, (what, times) in enumerate(found.items())
    ]
    caption = f"{count} runs; seconds without Python's start-up and imports"
    return Table(("what", "CPU s", "wall s", "bound, s"), rows, caption=caption)


def make(runs: Path, count: int) -> None:
    """Write finished runs: methods and seeds at ever more memory sizes."""
    rng = random.Random(0)
    fixed: dict[str, Any] = {"scenario": "split-cifar10", "compute": {"device": "cpu"}}
    known = [resolve(Config(method=method, **fixed)) for method in METHODS]
    for number in range(count):
        rest, seed = divmod(number, len(SEEDS))
        size, method = divmod(rest, len(METHODS))
        memory = known[method].memory.model_copy(update={"size": 100 * (size + 1)})
        config = known[method].model_copy(update={"seed": seed, "memory": memory})
        folder = runs / f"split-cifar10-{config.method}-m{memory.size}-s{seed}-{number:010x}"
        folder.mkdir()
        (folder / CONFIG).write_text(to_toml(config), encoding="utf-8")
        (folder / RESULTS).write_text(json.dumps(_results(config, number, rng), indent=1))


def _results(config: Config, number: int, rng: random.Random) -> dict[str, Any]:
    metrics = {il: {name: rng.uniform(0, 100) for name in METRICS} for il in PROTOCOLS}
    matrix = [[rng.random() for _ in range(5)] for _ in range(5)]
    return {
        "key": f"{number:010x}", "scenario": config.scenario.name, "data": "0" * 32,
        "method": config.method, "memory": config.memory.size, "seed": config.seed,
        "metrics": metrics, "matrices": {"class_il": matrix, "task_il": matrix}, "audit": [],
    }  # fmt: skip


def _indexed(runs: Path) -> None:
    shutil.rmtree(Store(runs).index.parent, ignore_errors=True)
    Store(runs).records()


def _compared(runs: Path) -> None:
    comparison = compare(Store(runs).select())
    _drawn(summary(comparison))
    _drawn(differences(comparison))


def _drawn(table: Table) -> None:
    show(table, Console(file=io.StringIO(), width=200))
