"""The runs behind results: copies of runs, and runs tested in another way without training.

    linsep grid studies/small.toml --also results/small --runs runs
    python -m studies evaluate runs --part "shared batch recalibrated" --data DIR
    python -m studies keep runs

A kept run has the files that `linsep bundle` would share; its events are compressed.

Which BatchNorm statistics a network is tested with, by which rule it predicts and whether another
head predicts in its place (`+wa`, `+refit`, `+transport`) do not change training. So for each run
of a part of the evidence's protocol this looks in RUNS for one that was trained alike and has the
snapshots of all tasks. It fills the memory with the same rows once more, takes the weights after
each task from the snapshots and the losses from the events, and tests. The folder it writes is the
one that training would have given, bit for bit, except that its cost.json has no seconds.
"""

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from linsep.data.images import Batch
from linsep.data.tasks import Task
from linsep.errors import ConfigError
from linsep.grids.plan import expand
from linsep.learning.run import EpochEnd, Event, Run, batches
from linsep.prepare import prepare
from linsep.randomness import Cursor
from linsep.settings.config import from_settings
from linsep.settings.layers import merged
from linsep.storage import manifest, snapshots
from linsep.storage.bundle import shared
from linsep.storage.folder import COMPRESSED, COST, TIMING, RunFolder
from linsep.storage.session import Session
from linsep.storage.store import Record, Store

from . import equivalence, pretrained
from .evidence import PROTOCOL, RESULTS, Runs, protocol

KEPT = {
    PROTOCOL: RESULTS / "small",
    equivalence.PROTOCOL: equivalence.FOLDER / "linsep",
    pretrained.PROTOCOL: pretrained.FOLDER,
}
Settings = Mapping[str, Any]
ANOTHER_HEAD = re.compile(r"\+(wa|refit|transport)$")  # what changes prediction and no training


class Repeated(Run):
    """A run that takes its weights and losses from one that was trained."""

    def __init__(self, mine: Run, trained: Path) -> None:
        super().__init__(mine.scenario, mine.learner)
        self.weights = weights(trained)
        ends = [e for e in RunFolder(trained).events() if e["event"] == "epoch_end"]
        self.losses = {(e["task"], e["stage"], e["epoch"]): e["losses"] for e in ends}

    def _stage(self, task: Task) -> Iterator[Event]:
        learner, stage = self.learner, self.learner.method.stages[self.cursor.stage]
        at = learner.bind(task, stage)
        while len(at.rows) and self.cursor.epoch < stage.epochs_of(learner.training):
            place = self.cursor[:3]
            order = learner.randomness.at("order", *place).permutation(len(at.rows))
            every = batches(torch.from_numpy(order), learner.training.batch_size)
            for step, rows in enumerate(every):
                self._observe(at.rows.take(rows), Cursor(*place, step), at)
            ended = self.cursor._replace(step=len(every))
            self.cursor = ended._replace(epoch=ended.epoch + 1, step=0)
            yield EpochEnd(ended, stage.name, self.losses[ended.task, stage.name, ended.epoch])
        tensors = load_file(self.weights[task.index])
        learner.net.load_state_dict(named(tensors, "net."))
        for name, term in snapshots.projections(learner):
            term.load_state_dict(named(tensors, f"terms.{name}."))

    def _observe(self, images: Any, cursor: Cursor, at: Any) -> None:
        """Offer rows to the memory; the logits beside them are not what statistics are made of."""
        logits = torch.zeros(len(images), self.learner.spec.classes)
        self.learner.observe(at, Batch(torch.empty(0), images.y, images), logits, cursor)


def named(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def weights(folder: Path) -> dict[int, Path]:
    """The snapshots at the ends of a run's tasks."""
    return {s.task: s.path for s in snapshots.found(folder) if s.ends_task}


def tasks(folder: Path) -> int:
    return len(RunFolder(folder).results()["groups"])


def trained_alike(settings: Settings, runs: Path, opened: dict[str, Any]) -> Path | None:
    """A finished run, with all its snapshots, that differs in how it is tested only."""
    evaluation = dict(settings.get("evaluation", {}))
    evaluation.pop("batchnorm", None)
    for method, tested in product(
        dict.fromkeys((settings["method"], ANOTHER_HEAD.sub("", settings["method"]))),
        (evaluation, {}),
    ):
        like = {**settings, "method": method, "evaluation": tested}
        with suppress(ConfigError):  # they go with their own rule only
            folder = runs / prepare(from_settings(like), lenient=True, opened=opened).name
            if RunFolder(folder).finished and len(weights(folder)) == tasks(folder):
                return folder
    return None


def evaluate(settings: Settings, runs: Path, opened: dict[str, Any]) -> str:
    """Write the run's folder beside the others; returns what was done."""
    prepared = prepare(from_settings(settings), lenient=True, opened=opened)
    mine = RunFolder(runs / prepared.name)
    if mine.finished or mine.begun:
        return f"{prepared.name}: there already{'' if mine.finished else ', half-finished'}"
    trained = trained_alike(settings, runs, opened)
    if trained is None:
        return f"{prepared.name}: no run that was trained alike"
    with Session(prepared, runs, keep="end") as session:
        assert session.run is not None
        method = session.run.learner.method
        if method.average is not None or prepared.config.memory.policy == "loss_aware":
            raise SystemExit(f"{prepared.name}: its training is needed")
        session.run = Repeated(session.run, trained)
        for _ in session:
            pass
    cost = json.loads((session.folder / COST).read_text())
    cost.pop("seconds", None)
    (session.folder / COST).write_text(json.dumps(cost, indent=1) + "\n")
    (session.folder / TIMING).unlink()
    return f"{prepared.name}: tested with the weights of {trained.name}"


def evaluate_parts(runs: Path, parts: Iterable[str], data: str | None) -> Iterator[str]:
    """Test the runs of these parts of the protocol again; yields what was done with each."""
    opened: dict[str, Any] = {}
    placed = {"scenario": {"data": data}} if data else {}
    for part in parts:
        for settings in expand(protocol()[part]):
            yield evaluate(merged(settings, placed), runs, opened)


def keep_finished(runs: Path) -> int:
    """Copy the finished runs that a protocol asks for and that are not kept; returns how many."""
    records = Store(runs).records()
    new = [
        (folder, results)
        for file, results in KEPT.items()
        for folder in sorted(asked_for(records, file))
        if not RunFolder(results / folder.name).exists
    ]
    for folder, results in new:
        keep(folder, results)
    return len(new)


def asked_for(records: list[Record], file: Path = PROTOCOL) -> set[Path]:
    runs = Runs(records, file)
    found = (runs.run(settings) for part in runs.parts.values() for settings in part)
    return {record.folder for record in found if record is not None}


def keep(folder: Path, results: Path) -> None:
    """A copy of a run, its folder named last so that an interrupted copy is no run."""
    part = results / f".{folder.name}"
    told, contents = shared(folder)
    contents[manifest.NAME] = told.model_copy(update={"files": {}}).to_bytes()
    for name, content in contents.items():
        if name == TIMING:
            continue  # cost.json has the sum
        path = part / COMPRESSED.get(name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        packed = gzip.compress(content, mtime=0) if name in COMPRESSED else content
        path.write_bytes(packed)
    part.rename(results / folder.name)
