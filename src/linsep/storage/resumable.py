"""The loop that drives every run, whether of a scenario or of a classifier: leased, saved, resumed.

A folder holds the two newest states. What a state relies on is on disk before it, or in it, so that
a power cut at any time costs only what was learned since the last save.
"""

from __future__ import annotations

import shutil
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, Self

import torch

from ..errors import StateError
from ..learning.run import Event, Recorded, Run
from . import environment, files, snapshots, states
from .lease import Lease

SAVE_EVERY = 30.0  # seconds


class Resumable(ABC):
    """A run in a folder, from opening to closing: `with ... as s: for event in s: ...`

    Stop whenever you like: call `save()` first and nothing is lost at all.
    """

    NAMES: ClassVar[tuple[str, str]]  # of the newest state and of the one before
    WHAT: ClassVar[str]  # is resumed, for messages

    def __init__(self, folder: Path, save_every: float) -> None:
        self.folder, self.save_every = folder, save_every
        self.lease = Lease(folder)
        self.run: Run | None = None  # None: there is nothing left to do
        self.key = ""
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
            self._open()
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
        state = states.sealed(self.run, self.key, self._events.decode())
        newest, previous = self.NAMES
        self._write(newest, state, keep=self.folder / previous)
        self._saved = time.monotonic()

    # --- what a kind of run says --------------------------------------------------------------

    @abstractmethod
    def _open(self) -> None:
        """Find out what there is to do; build the run, and resume it."""

    @abstractmethod
    def _build(self) -> Run:
        """Build the run as it begins."""

    @abstractmethod
    def _record(self, event: Event) -> None:
        """Record what should be on disk before the state that follows the event."""

    @abstractmethod
    def _finish(self) -> None:
        """Write the result."""

    # --- what all of them share ---------------------------------------------------------------

    def _write(self, name: str, content: bytes, keep: Path | None = None) -> None:
        self.lease.check()
        files.write(self.folder / name, content, keep)

    def _resume(self, otherwise: str) -> bool:
        """Resume from the newest state that is whole; False if none was saved yet."""
        there = [path for name in self.NAMES if (path := self.folder / name).exists()]
        for path in there:
            assert self.run is not None
            try:
                self._events = states.load(self.run, path, self.key).encode()
                return True
            except StateError as error:
                warnings.warn(str(error), stacklevel=5)
                self.run = self._build()  # the state may have been loaded in part
        if there:
            raise StateError(f"no saved state in {self.folder} can be read; {otherwise}")
        return False

    def _compare(self, before: Mapping[str, Any]) -> None:
        """Warn if the rest of a resumed run may differ in the last bits."""
        assert self.run is not None
        here = environment.describe(self.run.learner.device)
        for field in environment.DECISIVE:
            if field in before and before[field] != here[field]:
                warnings.warn(
                    f"this {self.WHAT} was begun with {field} = {before[field]!r} and resumes with "
                    f"{here[field]!r}: the rest may differ in the last bits",
                    stacklevel=5,
                )


def set_threads(*wanted: int | None) -> None:
    """Use the first number of threads that was asked for, or one: it changes the last bits."""
    torch.set_num_threads(next(filter(None, wanted), 1))


def _remove_if_unused(folder: Path) -> None:
    if all(path.name.startswith(".lock") for path in folder.iterdir()):
        shutil.rmtree(folder)
