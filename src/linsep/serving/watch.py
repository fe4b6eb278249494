"""The model that answers now, replaced while requests go on when its folder or file changes."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import LinsepError, StateError
from ..storage import manifest
from .conversion import version
from .model import Runtime, Served, opened

EVERY = 1.0  # seconds between looks at the folder
AGAIN = 30.0  # seconds until a model that could not be read is tried once more


class Watched:
    """`with Watched(path, ...) as models: models.current`"""

    def __init__(
        self,
        path: Path,
        runtime: Runtime = "onnx",
        threads: int = 1,
        custom: Sequence[str] = (),
        tell: Callable[[str], object] = lambda line: None,
    ) -> None:
        """Open the model; `tell` is given a line for each that is picked up, or cannot be."""
        if not path.exists():
            raise StateError(f"there is no model {path}")
        self._path, self._how, self._tell = path, (runtime, threads, custom), tell
        self._stop = threading.Event()
        self._looked_at, self._again = self._looks(), math.inf
        self.current: Served = opened(path, *self._how, stop=self._stop)
        self.swaps, self.failures = 0, 0

    def __enter__(self) -> Watched:
        self._thread = threading.Thread(target=self._watch, daemon=True, name="watch")
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(EVERY):
            try:
                self._look()
            except (LinsepError, OSError) as error:
                if self._stop.is_set():
                    return
                self.failures += 1
                self._tell(f"the new model cannot be used, and the old one goes on: {error}")
                self._again = time.monotonic() + AGAIN

    def _look(self) -> None:
        """Replace the model if its folder holds another. What began with the old one keeps it."""
        found = self._looks()
        if found == self._looked_at and time.monotonic() < self._again:
            return
        self._looked_at, self._again = found, math.inf
        if version(self._path) != self.current.digest:
            self.current = opened(self._path, *self._how, stop=self._stop)
            self.swaps += 1
            known = f"{len(self.current.classes)} classes, {self.current.lessons} lessons"
            self._tell(f"a new model answers: {self.current.digest}, {known}")

    def _looks(self) -> tuple[int, ...] | None:
        """What changes whenever the model is replaced."""
        path = self._path / manifest.NAME if self._path.is_dir() else self._path
        try:
            found = os.stat(path)
        except FileNotFoundError:
            raise StateError(f"{self._path} holds no model any more") from None
        return found.st_mtime_ns, found.st_size, found.st_ino
