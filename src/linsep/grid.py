"""Many configs at once on this machine: one process per core, one thread each.

Knows which runs there are and which are finished; a run's folder is the only contract with the
processes that do them, so a grid may be killed at any time and started again.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .config import Config, assignment, from_settings, gathered, merged, nested, prepare
from .errors import ConfigError, LinsepError
from .results import SAVE_EVERY

TRIES = 3  # of a run whose process died


def expand(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the lists under `over`, the first list varying slowest."""
    fixed = {k: v for k, v in settings.items() if k != "over"}
    over = _flat(settings.get("over", {}))
    for name, values in over.items():
        if not isinstance(values, list) or not values:
            raise ConfigError(f"over.{name}: should be a list of values, not {values!r}")
    found = []
    for combination in itertools.product(*over.values()):
        chosen = [nested(name, value) for name, value in zip(over, combination, strict=True)]
        found.append(gathered(merged(fixed, *chosen)))
    return found


def over(text: str) -> tuple[str, list[Any]]:
    """'seed=0..4' -> ('seed', [0, 1, 2, 3, 4]); 'method=er,er+bfp' -> ('method', [...])."""
    name, equals, values = text.partition("=")
    if not equals or not values:
        raise ConfigError(f"--over {text!r}: should look like seed=0..4 or method=er,derpp")
    first, dots, last = values.partition("..")
    if dots and first.isdigit() and last.isdigit():
        return name, list(range(int(first), int(last) + 1))
    parsed = [assignment(f"v={v}")["v"] for v in values.split(",")]
    return name, parsed


@dataclass
class Cell:
    """One run of a grid."""

    settings: dict[str, Any]
    name: str
    folder: Path
    status: str = "waiting"  # running, done, failed, stopped
    reason: str = ""
    share: float = 0.0  # of its steps
    rate: float = 0.0  # images a second
    seconds: float = 0.0
    tries: int = 0


def plan(settings: Mapping[str, Any], runs: Path) -> list[Cell]:
    """The runs of a grid, each once, the finished ones marked."""
    opened: dict[str, Any] = {}
    cells: dict[str, Cell] = {}
    for combination in expand(settings):
        one_thread = merged({"compute": {"threads": 1}}, combination)
        config: Config = from_settings(one_thread)
        try:
            prepared = prepare(config, lenient=True, opened=opened)
        except LinsepError as error:
            raise type(error)(f"{config.method}, seed {config.seed}: {error}") from None
        cell = Cell(one_thread, prepared.name, runs / prepared.name)
        if (cell.folder / "results.json").exists():
            cell.status, cell.share = "done", 1.0
        cells.setdefault(prepared.name, cell)
    return list(cells.values())


@dataclass
class Grid:
    """Iterate to make it happen: yields the cell that something has happened to.

    `stop()` asks the processes to save and go; the iteration then ends by itself.
    """

    cells: list[Cell]
    runs: Path
    workers: int
    save_every: float = SAVE_EVERY
    _inbox: queue.Queue[tuple[int, dict[str, Any] | None]] = field(default_factory=queue.Queue)
    _processes: dict[int, subprocess.Popen[str]] = field(default_factory=dict)
    _working_on: dict[int, int] = field(default_factory=dict)
    _stopping: bool = False

    def __iter__(self) -> Iterator[Cell]:
        waiting = [i for i, cell in enumerate(self.cells) if cell.status == "waiting"]
        try:
            for _ in range(min(self.workers, len(waiting))):
                self._hire(waiting)
            while self._processes:
                number, message = self._inbox.get()
                yield from self._hear(number, message, waiting)
        finally:
            for process in self._processes.values():
                process.kill()

    def stop(self) -> None:
        self._stopping = True
        for process in self._processes.values():
            process.terminate()

    def _hire(self, waiting: list[int]) -> None:
        number = max(self._processes, default=-1) + 1
        self.runs.mkdir(parents=True, exist_ok=True)
        threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        with (self.runs / "grid.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "linsep.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | threads,
            )
        self._processes[number] = process
        threading.Thread(target=self._listen, args=(number, process), daemon=True).start()
        self._give(number, waiting)

    def _listen(self, number: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                self._inbox.put((number, json.loads(line)))
        self._inbox.put((number, None))

    def _give(self, number: int, waiting: list[int]) -> None:
        """Hand a worker its next run, or send it home."""
        job: dict[str, Any] = {"quit": True}
        if waiting and not self._stopping:
            index = waiting.pop(0)
            cell = self.cells[index]
            cell.status, cell.tries = "running", cell.tries + 1
            self._working_on[number] = index
            where = {"runs": str(self.runs), "save_every": self.save_every}
            job = {"index": index, "settings": cell.settings} | where
        process = self._processes[number]
        assert process.stdin is not None
        with suppress(OSError):  # if it has died, `_listen` says so
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()

    def _hear(
        self, number: int, message: dict[str, Any] | None, waiting: list[int]
    ) -> Iterator[Cell]:
        if message is None:
            yield from self._bury(number, waiting)
            return
        cell = self.cells[message["index"]]
        match message["kind"]:
            case "progress":
                cell.share = message["done"] / max(message["total"], 1)
                cell.rate = message["images_per_second"]
            case "done":
                cell.status, cell.share, cell.seconds = "done", 1.0, message["seconds"]
            case "failed":
                cell.status, cell.reason = "failed", message["reason"]
            case "stopped":
                cell.status = "stopped"
        yield cell
        if message["kind"] in ("done", "failed"):
            del self._working_on[number]
            self._give(number, waiting)

    def _bury(self, number: int, waiting: list[int]) -> Iterator[Cell]:
        """A process has ended: if in the middle of a run, somebody else goes on with it."""
        process = self._processes.pop(number)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()
        index = self._working_on.pop(number, None)
        if index is None:
            return
        cell = self.cells[index]
        if cell.status == "stopped" or self._stopping:
            cell.status = "stopped"
        elif cell.tries < TRIES:
            cell.status = "waiting"
            waiting.insert(0, index)
            self._hire(waiting)
        else:
            reason = f"its process died {cell.tries} times (exit code {process.returncode})"
            cell.status, cell.reason = "failed", reason
            if waiting:
                self._hire(waiting)
        yield cell


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        inner = isinstance(value, Mapping)
        flat |= _flat(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value}
    return flat
