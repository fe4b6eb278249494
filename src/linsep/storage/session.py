"""A run of a scenario and its folder: trains, records and saves.

`folder` describes the files; `resumable` has the loop.
"""

from __future__ import annotations

import time
import tomllib
import warnings
from collections.abc import Mapping
from glob import escape
from os import PathLike
from pathlib import Path
from typing import Any

from torch import Tensor

from ..data.images import Images, join
from ..data.tasks import Scenario
from ..errors import ConfigError, StateError
from ..learning.exemplars import of_class
from ..learning.metrics import audit, summary
from ..learning.run import EpochEnd, Event, Recorded, Run, StepEnd, TaskEnd
from ..prepare import Prepared, Progress
from ..settings.config import to_toml
from ..settings.layers import decides
from ..settings.sections import Keep
from . import files, manifest, snapshots
from .folder import CONFIG, COST, EVENTS, PICTURED, RESULTS, STATES, TIMING, RunFolder, line
from .lease import release_dead
from .manifest import MEMORY, MODEL, noted, to_json
from .resumable import SAVE_EVERY, Resumable
from .store import Value, flat, labels_in, relabel

EACH = 8  # images of a class, at most, that are kept to be looked at


class Session(Resumable):
    """A run and its folder, from opening to closing: `with Session(...) as s: for event in s: ...`

    Opening finds out whether the run is new, half-finished or finished. Iterating trains, records
    and saves.
    """

    WHAT, REMEDY = "run", "remove the folder to start afresh"

    def __init__(
        self,
        prepared: Prepared,
        runs: str | PathLike[str],
        *,
        save_every: float = SAVE_EVERY,
        keep: Keep | None = None,
        progress: Progress | None = None,
    ) -> None:
        """`keep` chooses snapshots; None: those of all tasks if the net is small, else the last.

        `progress` is that of `Prepared.build`.
        """
        super().__init__(Path(runs) / prepared.name, save_every)
        self.prepared, self.keep, self.key = prepared, keep, prepared.key
        self.progress = progress
        self._images = 0
        self._epoch_started = 0.0, 0.0  # by the clock, and CPU time

    @property
    def finished(self) -> bool:
        return self.files.finished

    def results(self) -> dict[str, Any]:
        return self.files.results()

    def __enter__(self) -> Session:
        if self.finished:
            release_dead(self.folder)  # left by a process that was killed at its end
            self._relabel()
            return self
        check_sources(self.prepared, self.folder.parent)
        return super().__enter__()

    # --- the inside ------------------------------------------------------------------------------

    def _build(self) -> Run:
        return self.prepared.build(self.progress)

    def _read_manifest(self) -> manifest.Manifest:
        try:
            return super()._read_manifest()
        except StateError as error:
            warnings.warn(f"{error}; a new one is begun", stacklevel=4)
            return manifest.new()

    def _sections(self) -> dict[str, Any]:
        return {"key": self.key}

    def _open(self) -> None:
        if self.finished:  # by another process, between our look and our lease
            return
        self.run = self._build()  # a net that cannot be made leaves no run behind
        self._check_config()
        self._set_threads(self.prepared.config.compute.threads)

    def _continue(self) -> None:
        super()._continue()
        if self.resumed:
            self._compare_events()
        self._tidy_records()
        self._epoch_started = _now()

    def _check_config(self) -> None:
        """Write the config; refuse one that was changed since the run began."""
        if self.files.begun and self.files.exists:
            said = flat(self.files.config())
            mine = flat(tomllib.loads(to_toml(self.prepared.config)))
            for name in sorted(filter(decides, said)):
                if said[name] != mine.get(name):
                    raise StateError(
                        f"{self.folder / CONFIG} was changed since the run began: {name} is "
                        f"{said[name]!r}, and the run has {mine.get(name)!r}; delete the file to "
                        "have it written again, or the folder to start afresh"
                    )
            self._relabel()
        else:
            self._write(CONFIG, to_toml(self.prepared.config).encode())

    def _relabel(self) -> None:
        """Take over the labels that this command gives a run that was begun before."""
        relabel(self.folder, labels_in(self.prepared.config.model_dump(mode="json")))

    def _compare_events(self) -> None:
        """Warn if the file of events is not that of the state, which is about to replace it."""
        path, there = self.folder / EVENTS, self.files.content(EVENTS)
        shorter = min(len(self._events), len(there))
        if self._events[:shorter] != there[:shorter]:
            warnings.warn(f"{path} was changed; it is restored from the state", stacklevel=5)

    def _tidy_records(self) -> None:
        """Drop what was recorded after the state was saved, which will happen again, the same.

        And write again what the state has and the file lost, in a power cut or by other hands.
        """
        self._write(EVENTS, self._events)
        timing = self.files.content(TIMING)
        if not timing.endswith(b"\n"):  # cut in a line, or not there yet
            self._write(TIMING, timing[: timing.rfind(b"\n") + 1])

    def _record(self, event: Event) -> None:
        if isinstance(event, StepEnd):
            self._images += event.images
        if not isinstance(event, Recorded):
            return
        assert self.run is not None
        self.lease.check()
        self._keep(self.run, event)
        # At a fixed offset, not appended: a process that lost its lease without noticing then
        # overwrites equal bytes.
        record = event_record(event)
        files.put(self.folder / EVENTS, line(record), at=len(self._events))
        self._events += line(record)
        now, before = _now(), self._epoch_started
        place = {"event": record["event"], "task": record["task"]}
        seconds, cpu = (round(b - a, 3) for a, b in zip(before, now, strict=True))
        took = {"seconds": seconds, "cpu": cpu, "images": self._images}
        files.put(self.folder / TIMING, line(place | took))
        self._epoch_started, self._images = now, 0

    def _keep(self, run: Run, event: Recorded) -> None:
        """Write a snapshot. A run that is killed before its next save writes the same one again."""
        keep = self.keep or ("tasks" if run.learner.spec.parameters <= snapshots.SMALL else "end")
        if isinstance(event, TaskEnd) and (keep != "end" or run.finished):
            self._note_files(snapshots.write(self.folder, run.learner, event.group))
        if isinstance(event, EpochEnd) and keep == "epochs":
            task = run.scenario.tasks[event.cursor.task].index
            place = event.cursor.stage, event.stage, event.cursor.epoch
            self._note_files(snapshots.write(self.folder, run.learner, task, place))

    def _note_files(self, written: Mapping[str, bytes]) -> None:
        new = {name: noted(content) for name, content in written.items()}
        self._note(files=self.manifest.files | new)

    def _finish(self) -> None:
        assert self.run is not None
        weights = files.tensor_bytes(self.run.learner.eval_net.state_dict())
        whole = {MODEL: weights, EVENTS: self._events}
        if len(stored := self.run.learner.memory.images()):
            whole[MEMORY] = files.tensor_bytes(pictured(stored, self.run.scenario))
        for name, content in whole.items():
            self._write(name, content)
        whole[RESULTS] = to_json(final_results(self.prepared, self.run))
        self._write(COST, to_json(self._cost(self.run)))
        self._note_files(whole)
        self._write(RESULTS, whole[RESULTS])
        (self.folder / STATES[1]).unlink(missing_ok=True)

    def _cost(self, run: Run) -> dict[str, Any]:
        """Passes and bytes, and the epochs' CPU time, or on an accelerator their time."""
        name = "cpu" if run.learner.device.type == "cpu" else "seconds"
        epochs = [line for line in self.files.timing() if line["event"] == "epoch_end"]
        seconds = round(float(sum(line.get(name, 0.0) for line in epochs)), 3)
        return run.meter.facts(run.scenario, self.prepared.data.scenario) | {"seconds": seconds}


def pictured(stored: Images, scenario: Scenario) -> dict[str, Tensor]:
    """The labels of all stored samples, and some images of every class to look at."""
    there = set(stored.y.tolist())
    order = [c for task in scenario.tasks for c in task.classes if c in there][:PICTURED]
    each = max(1, min(EACH, PICTURED // len(order)))
    some = join([of_class(stored, c, each) for c in order])
    return {"labels": stored.y, "pictured": some.y, "images": some.pixels()}


def final_results(prepared: Prepared, run: Run) -> dict[str, Any]:
    scenario, config = prepared.data.scenario, prepared.config
    settings = {"class_il": run.class_il, "task_il": run.task_il}
    metrics = {name: summary(matrix) for name, matrix in settings.items()}
    flaws = {name: audit(found, len(scenario.groups)) for name, found in metrics.items()}
    return {
        "name": prepared.name,
        "key": prepared.key,
        "scenario": config.scenario.name,
        "method": config.method,
        "memory": config.memory.size,
        "seed": config.seed,
        "data": prepared.data.fingerprint,
        "classes": list(scenario.names),
        "groups": [list(g.classes) for g in scenario.groups],
        "metrics": metrics,
        "matrices": {name: _plain(matrix.tolist()) for name, matrix in settings.items()},
        "confusion": run.confusion.tolist(),
        "audit": [f"{name}: {flaw}" for name, found in flaws.items() for flaw in found],
    }


def _now() -> tuple[float, float]:
    return time.monotonic(), time.process_time()


def event_record(event: Recorded) -> dict[str, Any]:
    """An event that the run has just yielded, as it is written: no clock, no tensor."""
    if isinstance(event, TaskEnd):
        class_il, task_il = _plain([list(event.class_il), list(event.task_il)])
        accuracies = {"class_il": class_il, "task_il": task_il}
        order = {"task": event.task, "group": event.group}
        return {"event": "task_end", **order, **accuracies}
    task, _, epoch, steps = event.cursor
    place = {"task": task, "stage": event.stage, "epoch": epoch, "steps": steps}
    return {"event": "epoch_end", **place, "losses": event.losses}


def _plain(rows: list[list[float]]) -> list[list[float | None]]:
    """Rows of accuracies; JSON has no NaN, which is that of a task without test images."""
    return [[None if v != v else v for v in row] for row in rows]


def check_sources(prepared: Prepared, runs: Path) -> None:
    """Refuse parts without a source, and a half-finished run whose sources were changed.

    A digest of each source is in the run's key, so that a changed file makes another run. Whoever
    repeats the command to resume must hear of it, and not find the run begun afresh.
    """
    config = prepared.config
    for name, part in config.custom.items():
        if not part.digest:
            raise ConfigError(
                f"{name}: its source cannot be found, so its runs cannot be told from others; "
                "put the function into a file, and pass the function itself"
            )
    if RunFolder(runs / prepared.name).begun or not (config.custom or config.net.weights):
        return
    mine = flat(tomllib.loads(to_toml(config)))
    for path in sorted(runs.glob(f"{escape(prepared.name.removesuffix(prepared.key))}*")):
        other = RunFolder(path)
        if other.begun and other.exists and not other.finished:
            theirs = flat(other.config())
            if _apart_from_digests(theirs) == _apart_from_digests(mine):
                raise StateError(_changed(path, theirs, mine))


def _changed(path: Path, theirs: dict[str, Value], mine: dict[str, Value]) -> str:
    name = next(name for name in mine if _is_digest(name) and mine[name] != theirs.get(name))
    place = (
        "net.weights" if name == "net.weights_digest" else f"{name.removesuffix('digest')}source"
    )
    return (
        f"{mine[place]} was changed since {path} was begun. To resume that run, restore the file; "
        "to start afresh with the changed one, delete that folder"
    )


def _is_digest(name: str) -> bool:
    return name == "net.weights_digest" or (name.startswith("custom.") and name.endswith(".digest"))


def _apart_from_digests(facts: dict[str, Value]) -> dict[str, Value]:
    return {n: v for n, v in facts.items() if decides(n) and not _is_digest(n)}
