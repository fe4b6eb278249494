"""The runs that are spoiled: made once, tiny, with all that a run's folder can hold.

finished    runs/NAME was analysed, and is spoiled; runs/OTHER stays good
stopped     runs/HALF was stopped in its second task and saved
drawn       runs/DRAWN was made by hand, with something for every figure; another stays good
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import linsep
from linsep.learning.run import StepEnd
from linsep.prepare import Prepared, prepare
from linsep.settings.config import to_toml
from linsep.storage.lease import this_host
from linsep.storage.session import Session
from tests.helpers.command import command
from tests.helpers.made_reports import make_full_run

PROTOCOLS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 4, "train": 12, "test": 5},
    "net": {"name": "cnn", "width": 4},
    "method": "derpp+bfp",
    "memory": 8,
    "training": {"epochs": 1, "batch_size": 12},
    "compute": {"device": "cpu", "threads": 1},
}
STEPS = 3  # of the run that was stopped: the steps of its first task, and one more
ANALYSES = ("spectrum", "probe", "cka", "tsne", "projection", "drift")
QUICKLY = ("--engine", "pca", "--draws", "1")  # of the two that take longest


@cache
def prepared(seed: int) -> Prepared:
    return prepare(linsep.Config(**PROTOCOLS, seed=seed))


NAME, OTHER, HALF = (f"blobs-derpp+bfp-m8-s{s}-{prepared(s).key}" for s in (0, 1, 2))
DRAWN = "er+bfp-200-s0"
PARTS = {  # what there is to draw in a file
    "results.json": "confusion", "events.jsonl": "events", "timing.jsonl": "timing",
    "manifest.json": "environment", "config.toml": "", "memory.safetensors": "memory",
    **{f"analysis/{name}.json": name for name in ANALYSES},
}  # fmt: skip


def build_finished(stage: Path) -> None:
    for seed in (0, 1):
        with Session(prepared(seed), stage / "runs") as session:
            for _ in session:
                pass
    command("analyse", "--what", ",".join(ANALYSES), *QUICKLY, cwd=stage)
    (stage / "config.toml").write_text(to_toml(prepared(0).config))


def build_stopped(stage: Path) -> None:
    (stage / "config.toml").write_text(to_toml(prepared(2).config))
    steps = STEPS
    with Session(prepared(2), stage / "runs") as session:
        for event in session:
            steps -= isinstance(event, StepEnd)
            if not steps:
                session.save()
                break
    dead = {"host": this_host(), "process": 1, "token": "0" * 32}
    (stage / "runs" / HALF / "lease.1").write_text(json.dumps(dead))


def build_drawn(stage: Path, part: str) -> None:
    """With one thing to draw, besides what every run has: figures take long."""
    make_full_run(stage / "runs", "er+bfp", 0, tasks=2, classes=4, parts=(part,))
    make_full_run(stage / "runs", "er", 1, tasks=2, classes=4, parts=())
