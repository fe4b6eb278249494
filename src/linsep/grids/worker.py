"""A run done as a job: what a process, a cluster's task or a batch job does when it is given one.

A job is {"index", "settings", "runs", "save_every", "keep"}, plain values all of them. What happens
is said in messages {"kind", "index", ...}, the last of which ends the job:

    progress   "done" and "total" steps, "images_per_second"; the first one as soon as it is ready
    done       "seconds"
    stopped    saved, because it was asked to stop
    held       "reason": another process works on this run, here or on another machine
    failed     "reason": trying again would not help
    died       "reason": memory ran out; trying again may help

As a program it speaks JSON lines on the socket it has as standard input and does one job after
another. {"stop": true}, SIGTERM, and the end of the input, which means that the parent has died,
make it finish the step, save, and go; {"quit": true} ends it when it is idle.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ..errors import HeldError, LinsepError

REPORT_EVERY = 0.5  # seconds
Job = dict[str, Any]
Message = dict[str, Any]


class Stopping(Protocol):
    def is_set(self) -> bool: ...


def do(
    job: Job,
    tell: Callable[[Message], None],
    stopping: Stopping,
    opened: dict[str, Any],
    every: float = REPORT_EVERY,
) -> Message:
    """One job from beginning to end. `opened` holds the data that several runs share."""
    try:
        last = _train(job, tell, stopping, opened, every)
    except HeldError as error:
        last = {"kind": "held", "reason": str(error)}
    except LinsepError as error:
        last = {"kind": "failed", "reason": str(error)}
    except Exception as error:  # noqa: BLE001 - one bad run must not stop the others
        traceback.print_exc()
        kind = "died" if _out_of_memory(error) else "failed"
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        last = {"kind": kind, "reason": "out of memory" if kind == "died" else reason}
    last["index"] = job["index"]
    tell(last)
    return last


def _train(
    job: Job,
    tell: Callable[[Message], None],
    stopping: Stopping,
    opened: dict[str, Any],
    every: float,
) -> Message:
    from ..prepare import prepare
    from ..settings.config import from_settings
    from ..storage.session import Session

    if stopping.is_set():
        return {"kind": "stopped"}
    prepared = prepare(from_settings(job["settings"]), lenient=True, opened=opened)
    runs, every_so_often, keep = Path(job["runs"]), job["save_every"], job["keep"]
    with Session(prepared, runs, save_every=every_so_often, keep=keep) as session:
        images, began, told = 0, time.monotonic(), 0.0

        def report(rate: float) -> None:
            if session.run is not None:
                done, total = session.run.steps()
                facts = {"done": done, "total": total, "images_per_second": rate}
                tell({"kind": "progress", "index": job["index"], **facts})

        report(0.0)
        for event in session:
            images += getattr(event, "images", 0)
            if stopping.is_set():
                session.save()
                return {"kind": "stopped"}
            if (now := time.monotonic()) - told > every:
                told = now
                report(images / max(now - began, 1e-9))
        return {"kind": "done", "seconds": time.monotonic() - began}


def _out_of_memory(error: Exception) -> bool:
    import torch

    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or "can't allocate memory" in str(error)


class Worker:
    """Speaks with its parent on a socket."""

    def __init__(self, channel: socket.socket) -> None:
        self.stopping = threading.Event()
        self.jobs: queue.Queue[Job | None] = queue.Queue()
        self.opened: dict[str, Any] = {}
        self._channel = channel

    def work(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
        signal.signal(signal.SIGTERM, self._stop)
        self._tell({"kind": "hello", "process": os.getpid()})
        threading.Thread(target=self._listen, daemon=True).start()
        while (job := self.jobs.get()) is not None:
            do(job, self._tell, self.stopping, self.opened)
            if self.stopping.is_set():
                return

    def _listen(self) -> None:
        try:
            for line in self._channel.makefile("r", encoding="utf-8"):
                said = json.loads(line)
                if "settings" in said:
                    self.jobs.put(said)
                else:
                    break
            else:
                said = {"stop": True}
        except OSError:
            said = {"stop": True}
        if "stop" in said:
            self.stopping.set()
        self.jobs.put(None)

    def _tell(self, message: Message) -> None:
        try:
            self._channel.sendall(json.dumps(message).encode() + b"\n")
        except OSError:  # nobody listens any more
            self.stopping.set()

    def _stop(self, number: int, frame: object) -> None:
        self.stopping.set()
        self.jobs.put(None)


if __name__ == "__main__":
    Worker(socket.socket(fileno=sys.stdin.fileno())).work()
