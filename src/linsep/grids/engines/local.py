"""Runs on this machine: a process in each slot, one thread each, reused from run to run.

A slot is the environment variables that its process gets: nothing for a core, the number of the
device for a GPU. Importing torch takes seconds, so on Linux workers are forked by multiprocessing's
fork server, which has torch imported, runs no computation, and ends with this process. Elsewhere
forking a process that has torch loaded is not safe, and every worker imports it. The server belongs
to the process that first needed it: a process forked from that one cannot start workers.
"""

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType

from ..worker import Job, Message, Order, work

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# The first optimiser of a process imports torch._dynamo, which takes as long as torch itself.
PRELOAD = ["torch._dynamo", "linsep.data.scenarios", "linsep.storage.session"]
PATIENCE = 10.0  # seconds to wait for a process to end


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
class _Worker:
    slot: int
    pipe: Connection
    process: BaseProcess
    job: int | None = None  # its index

    def order(self, what: Order) -> None:
        with suppress(OSError):  # if it has died, its pipe reports so
            self.pipe.send(what)


class Local:
    shares_memory = True

    def __init__(self, runs: Path, slots: Sequence[Mapping[str, str]]) -> None:
        self._log, self._slots = runs.absolute() / "grid.log", slots
        self._workers: list[_Worker] = []
        self._stopping = False

    def room(self) -> int:
        busy = sum(worker.job is not None for worker in self._workers)
        return 0 if self._stopping else len(self._slots) - busy

    def start(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            idle = [worker for worker in self._workers if worker.job is None]
            worker = idle[0] if idle else self._hire()
            worker.job = job.index
            worker.order(job)
            if self._stopping:  # a signal came in between
                worker.order("stop")

    def hear(self, timeout: float) -> list[Message]:
        ready = wait([worker.pipe for worker in self._workers], timeout)
        heard = [worker for worker in self._workers if worker.pipe in ready]
        return [message for worker in heard for message in self._read(worker)]

    def stop(self) -> None:
        self._stopping = True
        for worker in self._workers:
            worker.order("stop")

    def close(self) -> None:
        for worker in self._workers:
            worker.order("quit")
            if worker.job is not None:
                worker.process.kill()
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join(PATIENCE)
            if worker.process.is_alive():
                worker.process.kill()
        self._workers = []

    # --- the inside ------------------------------------------------------------------------------

    def _hire(self) -> _Worker:
        taken = {worker.slot for worker in self._workers}
        slot = next(i for i in range(len(self._slots)) if i not in taken)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        context = _context()
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, self._slots[slot], self._log))
        with _apart():
            process.start()
        theirs.close()
        self._workers.append(_Worker(slot, ours, process))
        return self._workers[-1]

    def _read(self, worker: _Worker) -> list[Message]:
        messages: list[Message] = []
        try:
            while worker.pipe.poll():
                messages.append(worker.pipe.recv())
                if messages[-1].kind != "progress":
                    worker.job = None
        except (EOFError, OSError):  # the process has ended
            worker.pipe.close()
            worker.process.join(PATIENCE)
            self._workers.remove(worker)
            if worker.job is not None:
                messages.append(Message("died", worker.job, last_words(worker.process.exitcode)))
        return messages


def _context() -> ForkServerContext | SpawnContext:
    if sys.platform != "linux":
        return get_context("spawn")
    found = get_context("forkserver")
    found.set_forkserver_preload(PRELOAD)
    return found


@contextmanager
def _apart() -> Iterator[None]:
    """What is started here computes on one thread and does not execute the user's script again.

    multiprocessing would import the main module in every worker, and run a script that has no
    `if __name__ == "__main__"` once more.
    """
    main, environment = sys.modules["__main__"], os.environ.copy()
    sys.modules["__main__"] = ModuleType("__main__")
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        for name in ONE_THREAD:
            del os.environ[name]
        os.environ.update(environment)


def last_words(code: int | None) -> str:
    """Return why a process ended, as far as its exit code shows."""
    if code == -signal.SIGKILL:
        return "its process was killed, perhaps because memory ran out"
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"its process died of {signal.Signals(-code).name}"
    return "its process died" + ("" if code is None else f" with exit code {code}")
