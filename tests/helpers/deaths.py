"""Processes that die at every moment that matters to files, or at any moment at all."""

import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FORK = multiprocessing.get_context("fork")
PLACES: tuple[tuple[Any, str], ...] = (
    (Path, "replace"), (Path, "unlink"), (os, "link"), (os, "rmdir"), (os, "unlink"),
)  # fmt: skip
DEAD = 9


def deaths(act: Callable[[Path], object], folders: Callable[[str], Path]) -> Iterator[Path]:
    """Folders in which `act` died before its first, second, ... rename, removal or link.

    The last one is that in which it came to its end.
    """
    for moment in range(60):
        folder = folders(f"death {moment}")
        process = FORK.Process(target=_dying, args=(act, folder, moment))
        process.start()
        process.join()
        assert process.exitcode in (0, DEAD)
        yield folder
        if process.exitcode == 0:
            assert moment
            return
    raise AssertionError("it has no end")


def _dying(act: Callable[[Path], object], folder: Path, moment: int) -> None:
    done = 0

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal done
            if done == moment:
                os._exit(DEAD)
            done += 1
            return real(*given, **named)

        return call

    for owner, name in PLACES:
        setattr(owner, name, dying(getattr(owner, name)))
    act(folder)


def sigkills(
    act: Callable[[Path], object], folders: Callable[[str], Path], count: int = 20
) -> Iterator[Path]:
    """Folders in which `act` was killed: never, at once, and then at moments at random."""
    moments, duration = random.Random(0), 0.0
    for number in range(count + 1):
        folder, began = folders(f"kill {number}"), time.monotonic()
        process = FORK.Process(target=act, args=(folder,))
        process.start()
        waits = {0: None, 1: 0.0}
        process.join(waits.get(number, moments.uniform(0.0, duration)))
        duration = duration or time.monotonic() - began
        process.kill()
        process.join()
        yield folder
