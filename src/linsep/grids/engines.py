"""Where workers run: on this machine, on a Ray cluster, or as Slurm jobs.

An engine starts workers and tells which have ended. The runs' folder, on a path that all machines
share, is the only thing that engines have in common, so what one began another may resume.
"""

import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import ConfigError, unknown
from ..optional import needed
from .worker import work, work_here

ENGINES = ("local", "ray", "slurm")
NEVER_FULL = 1 << 30  # workers: the cluster keeps the queue
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
PATIENCE = 10.0  # seconds to wait for a process to end
# The first optimiser of a process imports torch._dynamo, which takes as long as torch itself.
PRELOAD = ["torch._dynamo", "linsep.data.scenarios", "linsep.storage.session"]
SLURM = {"cpus_per_task": 1, "timeout_min": 24 * 60, "name": "linsep"}  # defaults
DEVICES = "CUDA_VISIBLE_DEVICES"

Slots = Sequence[Mapping[str, str]]  # environment variables of the process in each


class Engine(ABC):
    here = False  # whether workers share the memory of this machine
    most = NEVER_FULL  # workers at once

    def __init__(self) -> None:
        self.workers: dict[int, Any] = {}  # by number, as the engine knows them

    @abstractmethod
    def start(self, board: Path, numbers: Sequence[int]) -> None:
        """Start a worker with each of these numbers."""

    @abstractmethod
    def ending(self, worker: Any) -> str | None:
        """Return why a worker crashed, "" if it just ended, None while it works."""

    @abstractmethod
    def kill(self, worker: Any) -> None: ...

    def ended(self) -> dict[int, str]:
        """Return the workers that ended since the last call; why, for those that crashed."""
        endings = {number: self.ending(worker) for number, worker in self.workers.items()}
        over = {number: reason for number, reason in endings.items() if reason is not None}
        for number in over:
            del self.workers[number]
        return over

    def close(self) -> None:
        """End all workers by force and release all resources."""
        for worker in self.workers.values():
            self.kill(worker)
        self.workers = {}


def open_engine(
    name: str,
    runs: Path,
    *,
    slots: Slots,
    address: str | None = None,
    slurm: Mapping[str, Any] | None = None,
) -> Engine:
    """`slots` are this machine's."""
    if name not in ENGINES:
        raise ConfigError(f"--on: {unknown('engine', name, ENGINES)}")
    if address and name != "ray":
        raise ConfigError(f"--address is a Ray cluster's; with --on {name} leave it out")
    if slurm and name != "slurm":
        raise ConfigError(f"--slurm sets options of Slurm jobs; with --on {name} leave it out")
    if name == "ray":
        return Ray(address, slots)
    return Slurm(runs, slurm or {}, slots) if name == "slurm" else Local(runs, slots)


def cpu_slots(workers: int) -> list[dict[str, str]]:
    return [{} for _ in range(workers)]


def gpu_slots(visible: str | None, count: int, per_gpu: int) -> list[dict[str, str]]:
    """One process, or `per_gpu` of them, for each device that this process may use.

    `visible` is CUDA_VISIBLE_DEVICES as it is. Devices take turns, so that a few runs spread out.
    """
    named = [name.strip() for name in visible.split(",")] if visible else []
    devices = [name for name in named if name] or [str(i) for i in range(count)]
    return [{DEVICES: device} for _ in range(per_gpu) for device in devices[:count]]


class Local(Engine):
    """A process in each slot, computing on one thread.

    Importing torch takes seconds, so on Linux workers are forked by multiprocessing's fork server,
    which has torch imported, runs no computation, and ends with this process. Elsewhere forking a
    process that has torch loaded is not safe, and every worker imports it. The server belongs to
    the process that first needed it: a process forked from that one cannot start workers.
    """

    here = True

    def __init__(self, runs: Path, slots: Slots) -> None:
        super().__init__()
        self._log, self._slots, self.most = runs.absolute() / "grid.log", slots, len(slots)
        self._context: Any = get_context("forkserver" if sys.platform == "linux" else "spawn")

    def start(self, board: Path, numbers: Sequence[int]) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._context.set_forkserver_preload(PRELOAD)
        for number in numbers:
            taken = {slot for _, slot in self.workers.values()}
            slot = next(i for i in range(self.most) if i not in taken)
            args = (board, number, self._slots[slot], self._log)
            process = self._context.Process(target=work_here, args=args)
            with _apart():
                process.start()
            self.workers[number] = process, slot

    def ending(self, worker: Any) -> str | None:
        code = worker[0].exitcode
        return None if code is None else last_words(code)

    def kill(self, worker: Any) -> None:
        worker[0].kill()
        worker[0].join(PATIENCE)


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


def last_words(code: int) -> str:
    """Return why a process crashed, as far as its exit code shows; nothing if it did not."""
    if code == -signal.SIGKILL:
        return "its process was killed, perhaps because memory ran out"
    if code < 0:
        with suppress(ValueError):
            return f"its process died of {signal.Signals(-code).name}"
    return f"its process died with exit code {code}" if code else ""


class Ray(Engine):
    """Tasks of a Ray cluster: one CPU each, or a share of a GPU.

    Ray itself retries nothing, so that nothing runs twice.
    """

    def __init__(self, address: str | None, slots: Slots) -> None:
        super().__init__()
        self._ray = needed("ray", "--on ray")
        gpus = [slot[DEVICES] for slot in slots if DEVICES in slot]
        self._gpu_share = len(set(gpus)) / len(gpus) if gpus else 0.0
        self._address, self._cpus = address, len(slots)
        self._ours = False  # whether to disconnect at the end

    def start(self, board: Path, numbers: Sequence[int]) -> None:
        self._connect()
        task = self._ray.remote(work).options(
            num_cpus=1, num_gpus=self._gpu_share, max_retries=0, name="linsep run"
        )
        self.workers |= {number: task.remote(board, number) for number in numbers}

    def ending(self, worker: Any) -> str | None:
        if not self._ray.wait([worker], timeout=0)[0]:
            return None
        try:
            self._ray.get(worker)
        except self._ray.exceptions.RayError as error:
            return f"its worker or node was lost ({type(error).__name__})"
        return ""

    def kill(self, worker: Any) -> None:
        self._ray.cancel(worker, force=True)

    def close(self) -> None:
        super().close()
        if self._ours:
            self._ray.shutdown()

    def _connect(self) -> None:
        if self._ray.is_initialized():
            return
        where: dict[str, Any] = {"address": self._address}
        if self._address is None:
            where = {"address": "local", "num_cpus": self._cpus}
        try:
            self._ray.init(
                **where, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            first = str(error).strip().partition("\n")[0]
            raise ConfigError(f"--address {self._address}: no Ray cluster there: {first}") from None
        self._ours = True


class Preemptible:
    """A worker as submitit calls it; `checkpoint` is what it asks for when time is up."""

    def __call__(self, board: Path, number: int) -> None:
        work(board, number)

    def checkpoint(self, board: Path, number: int) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, board, number)


class Slurm(Engine):
    """Jobs of a Slurm cluster, one job array for all that start together, through submitit.

    A job that Slurm preempts or that reaches its time limit is queued again and resumes.
    `cluster=local` runs the jobs as processes of this machine instead, for trying out.
    """

    def __init__(self, runs: Path, options: Mapping[str, Any], slots: Slots) -> None:
        super().__init__()
        submitit = needed("submitit", "--on slurm")
        given = dict(options)
        cluster = given.pop("cluster", "slurm")
        gpus = {"gpus_per_node": 1} if any(DEVICES in slot for slot in slots) else {}
        common = submitit.AutoExecutor._valid_parameters()
        named = {k if k in common else f"slurm_{k}": v for k, v in given.items()}
        try:
            self._executor = submitit.AutoExecutor(runs.absolute() / ".slurm", cluster=cluster)
            self._executor.update_parameters(**{**SLURM, **gpus, **named})
        except (RuntimeError, ValueError, TypeError, NameError, AssertionError) as error:
            first = str(error).strip().partition("\n")[0]
            raise ConfigError(f"--on slurm: {first}") from None
        self.most = NEVER_FULL if cluster == "slurm" else len(slots)

    def start(self, board: Path, numbers: Sequence[int]) -> None:
        jobs = self._executor.map_array(Preemptible(), [board] * len(numbers), numbers)
        self.workers |= dict(zip(numbers, jobs, strict=True))

    def ending(self, worker: Any) -> str | None:
        if not worker.done():
            return None
        return "" if worker.exception() is None else f"its job was lost ({worker.state})"

    def kill(self, worker: Any) -> None:
        worker.cancel(check=False)
