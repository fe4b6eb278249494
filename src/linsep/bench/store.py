"""How long `linsep runs` and `linsep compare` take over thousands of run folders.

Makes folders as the library writes them, with made-up numbers, in a temporary directory. Times are
of the work in this process: reading the index, checking every folder for changes, the statistics,
the table drawn. Python's start-up and imports, about half a second, come on top.
"""

import io
import json
import random
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import tomli_w
from rich.console import Console

from ..compare.arms import compare
from ..compare.summaries import differences, listing, summary
from ..compare.tables import Table, draw
from ..learning.metrics import METRICS, SETTINGS
from ..storage.folder import CONFIG, RESULTS
from ..storage.store import Store

BOUND = 1.0  # second, for each but the indexing
METHODS = ("ft", "er", "er+bfp", "derpp", "derpp+bfp", "er_ace", "er_ace+bfp", "lucir")
SEEDS = range(5)
WEIGHTS = {"er": {"replay_ce": 1.0}, "derpp": {"replay_ce": 0.5, "replay_logits": 0.1}}


@dataclass(frozen=True)
class Figure:
    what: str
    cpu: float  # seconds
    wall: float
    bound: float | None


def measure(count: int = 2000, repeats: int = 5) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        make(runs, count)
        indexed = _timed(lambda: Store(runs).records(), 1)
        tasks: Mapping[str, Callable[[], object]] = {
            "runs": lambda: _drawn(listing(Store(runs).select())),
            "runs --where ... --sort ...": lambda: _drawn(
                listing(Store(runs).select("method in (er, er+bfp) and faa>20", "-faa"))
            ),
            "compare": lambda: _compared(runs),
        }
        timed = [Figure(name, *_timed(task, repeats), BOUND) for name, task in tasks.items()]
    return [Figure("indexing all, once", *indexed, None), *timed]


def table(figures: list[Figure], count: int) -> Table:
    rows = [
        (f.what, f"{f.cpu:.3f}", f"{f.wall:.3f}", "-" if f.bound is None else f"{f.bound:.1f}")
        for f in figures
    ]
    caption = f"{count} runs; seconds without Python's start-up and imports"
    return Table(("what", "CPU s", "wall s", "bound, s"), rows, caption=caption)


def make(runs: Path, count: int) -> None:
    """So many finished runs: methods and seeds at ever more memory sizes."""
    rng = random.Random(0)
    for number in range(count):
        rest, seed = divmod(number, len(SEEDS))
        memory, method = divmod(rest, len(METHODS))
        config = _config(METHODS[method], 100 * (memory + 1), seed)
        name = f"split-cifar10-{METHODS[method]}-m{config['memory']['rows']}-s{seed}-{number:010x}"
        folder = runs / name
        folder.mkdir()
        (folder / CONFIG).write_text(tomli_w.dumps(config), encoding="utf-8")
        (folder / RESULTS).write_text(json.dumps(_results(config, number, rng), indent=1))


def _config(method: str, memory: int, seed: int) -> dict[str, Any]:
    base, _, term = method.partition("+")
    added = {term: {"weight": 1.0, "on": "both", "layers": ["features"], "lr": 0.1}} if term else {}
    return {
        "method": method,
        "seed": seed,
        "scenario": {"name": "split-cifar10", "per_task": 2, "order": "natural", "options": {}},
        "net": {"name": "resnet18", "options": {"width": 64, "last_relu": True}},
        "training": {
            "epochs": 50, "batch_size": 32, "lr": 0.03, "momentum": 0.0, "weight_decay": 0.0,
            "schedule": {"milestones": [], "factor": 0.1, "warmup": 0}, "bn_updates": "all",
        },
        "memory": {"rows": memory, "policy": "balanced", "draw": 32, "draws": "fresh"},
        "evaluation": {"mask_unseen": True, "rule": "method", "chunk": 256},
        "compute": {"device": "cuda", "precision": "fp32", "threads": 1},
        base: WEIGHTS.get(base, {}),
        **added,
    }  # fmt: skip


def _results(config: dict[str, Any], number: int, rng: random.Random) -> dict[str, Any]:
    metrics = {il: {name: rng.uniform(0, 100) for name in METRICS} for il in SETTINGS}
    matrix = [[rng.random() for _ in range(5)] for _ in range(5)]
    return {
        "key": f"{number:010x}", "scenario": config["scenario"]["name"], "data": "0" * 32,
        "method": config["method"], "memory": config["memory"]["rows"], "seed": config["seed"],
        "metrics": metrics, "matrices": {"class_il": matrix, "task_il": matrix}, "audit": [],
    }  # fmt: skip


def _compared(runs: Path) -> None:
    comparison = compare(Store(runs).select())
    _drawn(summary(comparison))
    _drawn(differences(comparison))


def _drawn(table: Table) -> None:
    draw(table, Console(file=io.StringIO(), width=200))


def _timed(task: Callable[[], object], repeats: int) -> tuple[float, float]:
    """CPU and wall seconds, medians."""
    cpu, wall = [], []
    for _ in range(repeats):
        before, began = time.process_time(), time.perf_counter()
        task()
        cpu.append(time.process_time() - before)
        wall.append(time.perf_counter() - began)
    return median(cpu), median(wall)
