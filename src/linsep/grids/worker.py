"""A run done as a job: what a process, a cluster's task or a batch job does when it receives one.

Jobs and messages are plain values, so that they can be pickled or written as JSON. The last message
of a job reports how it ended; `done` is the only good end.
"""

import os
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, Protocol

from ..errors import HeldError, LinsepError, out_of_memory
from ..own import blamed
from ..settings.sections import Keep

REPORT_EVERY = 0.5  # seconds


@dataclass(frozen=True)
class Job:
    index: int  # of the cell in its grid
    settings: dict[str, Any]
    runs: Path
    save_every: float
    keep: Keep | None = None


@dataclass(frozen=True)
class Message:
    """The progress or outcome of a job.

    progress   work done so far; the first one as soon as the run is ready
    done       finished
    stopped    saved, because it was asked to stop
    held       another process works on this run, here or on another machine
    failed     trying again would not help
    died       memory ran out, or its process did not survive; trying again may help
    """

    kind: Literal["progress", "done", "stopped", "held", "failed", "died"]
    index: int
    reason: str = ""
    done: int = 0  # passes of images through the net
    total: int = 0
    place: str = ""  # "task 2/5  epoch 3/5"
    rate: float = 0.0  # images a second
    seconds: float = 0.0  # since it began here


Order = Job | Literal["stop", "quit"]  # finish the step, save and end; or end when idle


Tell = Callable[[Message], None]
Opened = dict[str, Any]  # the data that several runs share


class Stopping(Protocol):
    def is_set(self) -> bool: ...


def do(job: Job, tell: Tell, stop: Stopping, opened: Opened, every: float = REPORT_EVERY) -> None:
    """Do one job from beginning to end, reporting `every` so many seconds."""
    try:
        last = _train(job, tell, stop, opened, every)
    except HeldError as error:
        last = Message("held", job.index, str(error))
    except LinsepError as error:
        last = Message("failed", job.index, str(error))
    except Exception as error:  # noqa: BLE001 - one bad run must not stop the others
        traceback.print_exc()
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        reason = blamed(error) or reason
        last = Message("failed", job.index, reason)
        if out_of_memory(error):
            last = Message("died", job.index, "out of memory")
    tell(last)


def _train(job: Job, tell: Tell, stop: Stopping, opened: Opened, every: float) -> Message:
    from ..learning.run import StepEnd
    from ..prepare import prepare
    from ..settings.config import from_settings
    from ..storage.session import Session

    if stop.is_set():
        return Message("stopped", job.index)
    prepared = prepare(from_settings(job.settings), lenient=True, opened=opened)
    with Session(prepared, job.runs, save_every=job.save_every, keep=job.keep) as session:
        images, began, told = 0, time.monotonic(), 0.0

        def report() -> None:
            if session.run is not None:
                (done, total), seconds = session.run.passes(), time.monotonic() - began
                rate, place = images / max(seconds, 1e-9), session.run.place()
                tell(Message("progress", job.index, "", done, total, place, rate, seconds))

        report()
        for event in session:
            images += event.images if isinstance(event, StepEnd) else 0
            if stop.is_set():
                session.save()
                return Message("stopped", job.index)
            if (now := time.monotonic()) - told > every:
                told = now
                report()
        return Message("done", job.index, seconds=time.monotonic() - began)


def work(pipe: Connection, environment: Mapping[str, str], log: Path) -> None:
    """Work through the jobs that arrive through the pipe, one after another.

    SIGTERM and the end of the pipe, which means that the parent has died, count as "stop".
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    os.environ.update(environment)
    with log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    stopping = threading.Event()
    jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

    def stop(*_: object) -> None:
        stopping.set()
        jobs.put(None)

    def listen() -> None:
        order: Order = "stop"
        with suppress(EOFError, OSError):
            while isinstance(order := pipe.recv(), Job):
                jobs.put(order)
        if order != "quit":
            stopping.set()
        jobs.put(None)

    def tell(message: Message) -> None:
        try:
            pipe.send(message)
        except OSError:  # nobody listens any more
            stopping.set()

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=listen, daemon=True).start()
    opened: Opened = {}
    while (job := jobs.get()) is not None and not stopping.is_set():
        do(job, tell, stopping, opened)
