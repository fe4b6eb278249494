"""A run's folder: the only writer of results. What is in it can be read, and gone on from.

    config.toml        the resolved config
    environment.json   versions and hardware, one entry for every time the run was started
    events.jsonl       what happened, without clock times: equal for equal runs, byte for byte
    timing.jsonl       how long it took
    state.pt           the resumable state, and state.previous.pt the one before
    snapshots/         the net at the end of each task, or of the last, for analyses
    model.safetensors  the net's weights, at the end
    results.json       accuracies and metrics, written last: its presence means "finished"
    lease.<n>          who is working on it, if somebody is

Knows files and the order of writing them. Knows nothing of how learning works.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as safetensors_bytes

from ..errors import StateError
from ..learning.metrics import audit, summary
from ..learning.run import EpochEnd, Event, Run, StepEnd, TaskEnd
from ..prepare import Prepared
from ..settings.config import to_toml
from ..settings.sections import Keep
from . import environment, files, snapshots
from .lease import Lease

SAVE_EVERY = 30.0  # seconds


class Session:
    """A run and its folder, from opening to closing: `with Session(...) as s: for event in s: ...`

    Opening finds out whether the run is new, half-finished or finished. Iterating trains, records
    and saves. Stop whenever you like: call `save()` first and nothing is lost at all.
    """

    def __init__(
        self,
        prepared: Prepared,
        runs: Path,
        *,
        save_every: float = SAVE_EVERY,
        keep: Keep | None = None,
    ) -> None:
        """`keep` says which snapshots to keep; None: all tasks if the net is small, or the last."""
        self.prepared, self.save_every, self.keep = prepared, save_every, keep
        self.folder = runs / prepared.name
        self.run: Run | None = None
        self.lease = Lease(self.folder)
        self._events_end = 0
        self._started = self._saved = self._epoch_started = 0.0
        self._images = 0

    @property
    def finished(self) -> bool:
        return (self.folder / "results.json").exists()

    def results(self) -> dict[str, Any]:
        return read_results(self.folder)

    def __enter__(self) -> Session:
        if self.finished:
            return self
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.lease.acquire()
        except OSError as error:
            raise StateError(f"cannot use {self.folder}: {error.strerror or error}") from None
        try:
            if not self.finished:  # by somebody else, between our look and our lease
                self._open()
        except BaseException:
            self.lease.release()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.lease.release()

    def __iter__(self) -> Iterator[Event]:
        if self.run is None:
            return
        for event in self.run:
            self._keep(self.run, event)
            self._record(event)
            due = time.monotonic() - self._saved >= self.save_every
            if due or not isinstance(event, StepEnd):
                self.save()
            yield event
        self._finish(self.run)

    def save(self) -> None:
        """Everything up to the last event, on disk, flushed."""
        assert self.run is not None
        state = {"run": self.run.state_dict(), "events": self._events_end}
        _require_finite(self.run)
        newest, previous = self._states()
        content = files.seal(state)
        self.lease.check()
        files.write(newest, content, keep=previous)
        self._saved = time.monotonic()

    # --- the inside ------------------------------------------------------------------------------

    def _open(self) -> None:
        for pattern in (".*.tmp", f"{snapshots.FOLDER}/.*.tmp"):  # of a process that was killed
            for stray in self.folder.glob(pattern):
                stray.unlink(missing_ok=True)
        path = self.folder / "environment.json"
        sessions = json.loads(path.read_text()) if path.exists() else []
        self.run = self.prepared.build()
        learner, wanted = self.run.learner, self.prepared.config.compute.threads
        before = sessions[-1] if sessions else {}
        torch.set_num_threads(wanted or before.get("threads") or 1)
        here = environment.describe(learner.device)
        if self._restore(self.run):
            for field in environment.DECISIVE:
                if field in before and before[field] != here[field]:
                    warnings.warn(
                        f"this run was begun with {field} = {before.get(field)!r} and goes on with "
                        f"{here[field]!r}: the rest may differ in the last bits",
                        stacklevel=4,
                    )
        else:
            files.write(self.folder / "config.toml", to_toml(self.prepared.config).encode())
        files.write(path, _json([*sessions, here]))
        self._started = self._saved = self._epoch_started = time.monotonic()

    def _states(self) -> tuple[Path, Path]:
        return self.folder / "state.pt", self.folder / "state.previous.pt"

    def _restore(self, run: Run) -> bool:
        """Go on from the newest state that is whole; False if there is none yet."""
        found = [path for path in self._states() if path.exists()]
        for path in found:
            try:
                state = files.unseal(path)
                self._cut_events(state["events"])
            except StateError as error:
                warnings.warn(str(error), stacklevel=4)
                continue
            run.load_state_dict(state["run"])
            return True
        if found:
            raise StateError(
                f"no saved state in {self.folder} can be read; remove the folder to start afresh"
            )
        self._cut_events(0)
        return False

    def _cut_events(self, end: int) -> None:
        """Drop what was recorded after the state was saved: it will happen again, the same."""
        for name in ("events.jsonl", "timing.jsonl"):
            (self.folder / name).touch()
        path = self.folder / "events.jsonl"
        if path.stat().st_size < end:
            raise StateError(f"{path} is shorter than when the state was saved")
        with path.open("r+b") as file:
            file.truncate(end)
        self._events_end = end

    def _record(self, event: Event) -> None:
        if isinstance(event, StepEnd):
            self._images += event.images
            return
        self.lease.check()
        # At its place and not at the end: a process that lost its lease unawares does no harm so.
        line = _line(event_record(event))
        _put(self.folder / "events.jsonl", line, at=self._events_end)
        self._events_end += len(line)
        now = time.monotonic()
        timing = {
            "event": type(event).__name__,
            "task": event.cursor.task if isinstance(event, EpochEnd) else event.task,
            "seconds": round(now - self._epoch_started, 3),
            "images": self._images,
        }
        _put(self.folder / "timing.jsonl", _line(timing))
        self._epoch_started, self._images = now, 0

    def _keep(self, run: Run, event: Event) -> None:
        """Before the event is recorded: what a kill takes back is then written again, the same."""
        keep = self.keep or ("tasks" if run.learner.spec.parameters <= snapshots.SMALL else "end")
        if isinstance(event, TaskEnd) and (keep != "end" or run.finished):
            self.lease.check()
            snapshots.write(self.folder, run.learner, event.task)
        if isinstance(event, EpochEnd) and keep == "epochs":
            self.lease.check()
            task = run.scenario.tasks[event.cursor.task].index
            place = event.cursor.stage, event.stage, event.cursor.epoch
            snapshots.write(self.folder, run.learner, task, place)

    def _finish(self, run: Run) -> None:
        net = run.learner.net.state_dict()
        weights = {name: value.detach().cpu().contiguous() for name, value in net.items()}
        self.lease.check()
        files.write(self.folder / "model.safetensors", safetensors_bytes(weights))
        content = final_results(self.prepared, run)
        self.lease.check()
        files.write(self.folder / "results.json", _json(content))
        self._states()[1].unlink(missing_ok=True)


def final_results(prepared: Prepared, run: Run) -> dict[str, Any]:
    scenario, config = prepared.stream.scenario, prepared.config
    settings = {"class_il": run.class_il, "task_il": run.task_il}
    metrics = {name: summary(matrix) for name, matrix in settings.items()}
    tasks = len(scenario.groups)
    flaws = [f"{name}: {f.text}" for name, m in metrics.items() for f in audit(m, tasks)]
    return {
        "name": prepared.name,
        "key": prepared.key,
        "scenario": config.scenario.name,
        "method": config.method,
        "memory": config.memory.rows,
        "seed": config.seed,
        "data": prepared.stream.fingerprint,
        "classes": list(scenario.names),
        "groups": [list(g.classes) for g in scenario.groups],
        "metrics": metrics,
        "matrices": {name: _plain(matrix.tolist()) for name, matrix in settings.items()},
        "confusion": run.confusion.tolist(),
        "audit": flaws,
    }


def read_results(folder: Path) -> dict[str, Any]:
    path = folder / "results.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StateError(f"{folder} holds no finished run: there is no results.json") from None
    except (OSError, ValueError) as error:
        raise StateError(f"cannot read {path}: {error}") from None
    if not isinstance(content, dict) or "metrics" not in content:
        raise StateError(f"{path} is not the results of a run")
    return content


def event_record(event: EpochEnd | TaskEnd) -> dict[str, Any]:
    """An event as it is written: no clock, no tensor."""
    if isinstance(event, TaskEnd):
        accuracies = {"class_il": list(event.class_il), "task_il": list(event.task_il)}
        return {"event": "task_end", "task": event.task, **accuracies}
    task, _, epoch, steps = event.cursor
    place = {"task": task, "stage": event.stage, "epoch": epoch, "steps": steps}
    return {"event": "epoch_end", **place, "losses": event.losses}


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"


def _put(path: Path, line: bytes, at: int | None = None) -> None:
    """Write a line at its place, or at the end."""
    try:
        with path.open("r+b") as file:
            if at is None:
                file.seek(0, 2)
            else:
                file.seek(at)
            file.write(line)
    except OSError as error:
        raise StateError(f"cannot write {path}: {error.strerror or error}") from None


def _require_finite(run: Run) -> None:
    for name, value in run.learner.net.state_dict().items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise StateError(f"the net's {name} is no longer finite; the last good state is kept")


def _json(content: Any) -> bytes:
    return json.dumps(content, indent=1).encode() + b"\n"


def _plain(rows: list[list[float]]) -> list[list[float | None]]:
    return [[None if v != v else v for v in row] for row in rows]
