"""The loop that drives every run, whether of a scenario or of a classifier: leased, saved, resumed.

A folder holds the two newest states. What a state relies on is on disk before it, or in it, so that
a power cut at any time costs only what was learned since the last save.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch

from .. import __version__
from ..errors import StateError, printable
from ..learning.run import Event, Recorded, Run
from . import files, manifest, snapshots
from .folder import DECISIVE, STATES, RunFolder
from .lease import Lease

SAVE_EVERY = 30.0  # seconds
# What loading a state of another shape may raise.
UNFIT = ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError


class Resumable(ABC):
    """A run in a folder, from opening to closing: `with ... as s: for event in s: ...`

    Stop whenever you like: call `save()` first and nothing is lost at all.
    """

    WHAT: ClassVar[str]  # what messages call it: run or lesson
    REMEDY: ClassVar[str]  # what to do if no saved state can be read

    def __init__(self, folder: Path, save_every: float) -> None:
        self.folder, self.save_every = folder, save_every
        self.files, self.lease = RunFolder(folder), Lease(folder)
        self.run: Run | None = None  # None: there is nothing left to do
        self.key = ""
        self.resumed = False
        self.manifest = manifest.new()
        self._events, self._saved = b"", 0.0

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            with files.reporting(f"cannot use {self.folder}"):
                if not self.folder.exists():
                    self.folder.mkdir(parents=True)
                    files.sync_folder(self.folder.parent)  # so that the folder's name lasts
                    undo.callback(_remove_if_unused, self.folder)
                self.lease.acquire()
            undo.callback(self.lease.release)
            for pattern in (".*.tmp", f"{snapshots.FOLDER}/.*.tmp"):  # of a process that was killed
                for stray in self.folder.glob(pattern):
                    stray.unlink(missing_ok=True)
            self.manifest = self._read_manifest()
            self._open()
            if self.run is not None:
                self._continue()
            self._saved = time.monotonic()
            undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.lease.release()

    def __iter__(self) -> Iterator[Event]:
        if self.run is None:
            return
        for event in self.run:
            self._record(event)
            if isinstance(event, Recorded) or time.monotonic() - self._saved >= self.save_every:
                self.save()
            yield event
        self._finish()

    def save(self) -> None:
        """Write everything up to the last event to disk, and flush it."""
        assert self.run is not None
        state = {"run": self.run.state_dict(), "key": self.key, "events": self._events.decode()}
        for name, value in self.run.learner.net.state_dict().items():
            if value.is_floating_point() and not torch.isfinite(value).all():
                raise StateError(
                    f"the net's {name} is no longer finite; the last good state is kept"
                )
        newest, previous = STATES
        self._write(newest, files.seal(state), keep=self.folder / previous)
        self._saved = time.monotonic()

    # --- what a kind of run says --------------------------------------------------------------

    @abstractmethod
    def _open(self) -> None:
        """Find out what there is to do, and build the run if there is anything."""

    @abstractmethod
    def _build(self) -> Run:
        """Build the run as it begins."""

    @abstractmethod
    def _record(self, event: Event) -> None:
        """Record what should be on disk before the state that follows the event."""

    @abstractmethod
    def _finish(self) -> None:
        """Write the result."""

    @abstractmethod
    def _sections(self) -> dict[str, Any]:
        """What the manifest should have while the run is under way."""

    def _read_manifest(self) -> manifest.Manifest:
        return self.files.manifest()

    # --- what all of them share ---------------------------------------------------------------

    def _note(self, **sections: Any) -> None:
        """Change sections of the manifest; its only writer is the one that has the lease."""
        self.manifest = self.manifest.model_copy(update=sections)
        self._write(manifest.NAME, self.manifest.to_bytes())

    def _write(self, name: str, content: bytes, keep: Path | None = None) -> None:
        self.lease.check()
        files.write(self.folder / name, content, keep)

    def _set_threads(self, wanted: int | None) -> None:
        """Use as many as asked for, or as before, or one: their number changes the last bits."""
        before = self.manifest.environments[-1:]
        torch.set_num_threads(wanted or (before[0].get("threads") if before else None) or 1)

    def _continue(self) -> None:
        """Resume from the newest state that is whole, if one was saved, and note where."""
        there = [path for name in STATES if (path := self.folder / name).exists()]
        for path in there:
            assert self.run is not None
            try:
                self._events = load_state(self.run, path, self.key).encode()
                self.resumed = True
                break
            except StateError as error:
                warnings.warn(str(error), stacklevel=4)
                self.run = self._build()  # the state may have been loaded in part
        if there and not self.resumed:
            raise StateError(f"no saved state in {self.folder} can be read; {self.REMEDY}")
        assert self.run is not None
        known, here = self.manifest.environments, environment(self.run.learner.device)
        before: Mapping[str, Any] = known[-1] if known and self.resumed else {}
        for field in DECISIVE:
            if field in before and before[field] != here[field]:
                warnings.warn(
                    f"this {self.WHAT} was begun with {field} = {before[field]!r} and resumes with "
                    f"{here[field]!r}: the rest may differ in the last bits",
                    stacklevel=4,
                )
        self._note(environments=[*known, here], **self._sections())


def load_state(run: Run, path: Path, key: str) -> str:
    """Give the run the state in a file, and return the events until then.

    StateError if the file is damaged, of another run, or lacks something.
    """
    state = files.unseal(path)
    if state.get("key") != key:
        raise StateError(f"{path} is the state of another run, {state.get('key')!r}")
    try:
        run.load_state_dict(state["run"])
        _require_sound(run, state["run"])
        events = state["events"]
    except UNFIT as error:
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise StateError(f"{path} holds no state of this run: {reason}") from None
    if not isinstance(events, str):
        raise StateError(f"{path} holds no events, but {type(events).__name__}")
    return events


def _require_sound(run: Run, saved: dict[str, Any]) -> None:
    """Refuse a state that could be loaded and that no run can be in."""
    ends = (len(run.scenario.tasks), len(run.learner.method.stages), 10**9, 10**9)
    at = [type(n) is int and 0 <= n <= end for n, end in zip(saved["cursor"], ends, strict=True)]
    shapes = [saved[name].shape == run.class_il.shape for name in ("class_il", "task_il")]
    sums = saved["sums"].keys() == saved["counts"].keys()
    single = [value.numel() == 1 and value.is_floating_point() for value in saved["sums"].values()]
    counts = [type(count) is int and count > 0 for count in saved["counts"].values()]
    if not all([*at, *shapes, sums, *single, *counts]):
        raise ValueError("its cursor, accuracies or losses are those of no run")


def _remove_if_unused(folder: Path) -> None:
    if all(path.name.startswith(".lock") for path in folder.iterdir()):
        shutil.rmtree(folder)


# --- where it happens ---------------------------------------------------------------------------


def environment(device: torch.device) -> dict[str, Any]:
    """Where a run happens: versions, hardware, the state of the user's checkout, and threads."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {
        "linsep": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.release()}",
        "cpu": cpu(),
        # Which of its kernels torch has chosen: those for AVX2 and AVX-512 round differently.
        "instructions": torch.backends.cpu.get_cpu_capability(),
        # The same for oneDNN's convolutions, which do not follow torch's choice.
        "onednn": os.environ.get("ONEDNN_MAX_CPU_ISA", "native"),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "device": name,
        "git": checkout(Path.cwd()),
        "command": [printable(word) for word in sys.argv],
    }


def cpu() -> str:
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    every = os.cpu_count() or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else every


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch compute with `count` threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def checkout(folder: Path) -> dict[str, Any] | None:
    """Commit and whether anything is changed, if the folder is in a git checkout."""

    def git(*arguments: str) -> str:
        asked = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True
        )
        return asked.stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None
