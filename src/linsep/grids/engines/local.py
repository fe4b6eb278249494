"""Runs on this machine: a process in each slot, one thread each, reused from run to run.

Knows processes and how to speak with them. A slot is the environment its process gets: nothing for
a core, the number of the device for a GPU.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..worker import Job, Message
from .warm import AVAILABLE, ONE_THREAD, Nursery

LONGEST_READ = 1 << 16


def cpu_slots(workers: int) -> list[dict[str, str]]:
    return [{} for _ in range(workers)]


def gpu_slots(visible: str | None, count: int, per_gpu: int) -> list[dict[str, str]]:
    """One process, or `per_gpu` of them, for each device that this process may use.

    `visible` is CUDA_VISIBLE_DEVICES as it is. Devices take turns, so that a few runs spread out.
    """
    named = [name.strip() for name in visible.split(",")] if visible else []
    devices = [name for name in named if name] or [str(i) for i in range(count)]
    return [{"CUDA_VISIBLE_DEVICES": device} for _ in range(per_gpu) for device in devices[:count]]


@dataclass(eq=False)
class _Process:
    slot: int
    channel: socket.socket
    started: subprocess.Popen[bytes] | None  # None: forked, so that its parent is another
    number: int | None = None  # its process id, once it has said hello
    job: int | None = None
    unread: bytes = b""

    def say(self, what: dict[str, object]) -> None:
        with suppress(OSError):  # if it has died, its channel says so
            self.channel.sendall(json.dumps(what).encode() + b"\n")


class Local:
    shares_memory = True

    def __init__(self, runs: Path, slots: Sequence[Mapping[str, str]]) -> None:
        self._log, self._slots = runs / "grid.log", slots
        self._nursery: Nursery | None = None
        self._processes: list[_Process] = []
        self._selector = selectors.DefaultSelector()
        self._stopping = False

    def room(self) -> int:
        busy = sum(process.job is not None for process in self._processes)
        return 0 if self._stopping else len(self._slots) - busy

    def start(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            idle = [process for process in self._processes if process.job is None]
            process = idle[0] if idle else self._hire()
            process.job = job["index"]
            process.say(job)
            if self._stopping:  # a signal came in between
                process.say({"stop": True})

    def hear(self, timeout: float) -> list[Message]:
        return [m for key, _ in self._selector.select(timeout) for m in self._read(key.data)]

    def stop(self) -> None:
        self._stopping = True
        for process in self._processes:
            process.say({"stop": True})

    def close(self) -> None:
        for process in self._processes:
            process.say({"quit": True})
            if process.job is not None and process.number is not None:
                with suppress(OSError):
                    os.kill(process.number, signal.SIGKILL)
            process.channel.close()
            if process.started is not None:
                process.started.wait()
        self._processes = []
        self._selector.close()
        if self._nursery is not None:
            self._nursery.close()

    def working(self) -> list[int]:
        """The ids of the processes that are at work."""
        return [p.number for p in self._processes if p.number is not None and p.job is not None]

    # --- the inside ------------------------------------------------------------------------------

    def _hire(self) -> _Process:
        taken = {process.slot for process in self._processes}
        slot = next(i for i in range(len(self._slots)) if i not in taken)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        ours, theirs = socket.socketpair()
        with theirs:
            started = self._begin(theirs, self._slots[slot])
        process = _Process(slot, ours, started)
        self._processes.append(process)
        self._selector.register(ours, selectors.EVENT_READ, process)
        return process

    def _begin(
        self, channel: socket.socket, slot: Mapping[str, str]
    ) -> subprocess.Popen[bytes] | None:
        if AVAILABLE:
            if self._nursery is not None and not self._nursery.alive():
                self._nursery.close()
                self._nursery = None
            self._nursery = self._nursery or Nursery(self._log)
            self._nursery.fork(channel, slot)
            return None
        with self._log.open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "linsep.grids.worker"],
                stdin=channel.fileno(),
                stdout=log,
                stderr=log,
                env={**os.environ, **ONE_THREAD, **slot},
            )

    def _read(self, process: _Process) -> list[Message]:
        try:
            content = process.channel.recv(LONGEST_READ)
        except OSError:
            content = b""
        if not content:
            return self._bury(process)
        *lines, process.unread = (process.unread + content).split(b"\n")
        messages: list[Message] = [json.loads(line) for line in lines]
        for message in messages:
            if message["kind"] == "hello":
                process.number = message["process"]
            elif message["kind"] != "progress":
                process.job = None
        return [message for message in messages if message["kind"] != "hello"]

    def _bury(self, process: _Process) -> list[Message]:
        """A process has ended: if in the middle of a run, that is news."""
        self._selector.unregister(process.channel)
        process.channel.close()
        self._processes.remove(process)
        if process.job is None:
            return []
        code = None
        if process.started is not None:
            code = process.started.wait()
        elif self._nursery is not None and process.number is not None:
            code = self._nursery.exit_code(process.number)
        return [{"kind": "died", "index": process.job, "reason": last_words(code)}]


def last_words(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed, perhaps because memory ran out"
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"its process died of {signal.Signals(-code).name}"
    return "its process died" + ("" if code is None else f" with exit code {code}")
