"""A bad input with the command that reads it, and what the command must not do."""

import os
import shutil
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.command import Said, command

from . import badness

LONGEST = 700  # characters of a line on standard error
PATIENCE = 20  # seconds
Spoil = Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """`spoil` makes the bad input in a folder of its own, a fresh copy of the stage."""

    name: str
    words: tuple[str, ...]
    spoil: Spoil = lambda room: None
    many: str = ""  # what must be printed all the same: the command is about other runs, too
    denied: str = ""  # the file or folder that must not be read

    def problem(self, room: Path) -> str:
        """What the command did that it must not do; "" if nothing."""
        self.spoil(room)
        denied = badness.unreadable(room / self.denied) if self.denied else nullcontext()
        try:
            with warnings.catch_warnings(), denied, _patience():
                warnings.simplefilter("always")
                for unheard in (DeprecationWarning, PendingDeprecationWarning, ResourceWarning):
                    warnings.simplefilter("ignore", unheard)
                said = command(*self.words, cwd=room)
        except BaseException as error:  # noqa: BLE001
            frames = [f for f in traceback.extract_tb(error.__traceback__) if "/linsep/" in f[0]]
            at = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
            return f"{type(error).__name__} at {at}: {str(error)[:200]}"
        return "; ".join(self._wrong(said))

    def _wrong(self, said: Said) -> Iterator[str]:
        code, lines = said.returncode, said.stderr.splitlines()
        usage = "Usage:" in said.stderr  # of typer, which draws a box
        errors = [line for line in lines if line.startswith("error: ")]
        if code not in (0, 1, 2):
            yield f"exit code {code}"
        for bad in ("Traceback", "\x1b", "\x07"):
            if bad in said.stderr + said.stdout:
                yield f"{bad!r} is printed"
        if len(errors) != (code == 2) and not usage:
            yield f"exit code {code} and {len(errors)} lines of error: {said.stderr[:300]!r}"
        if not usage:
            yield from (f"unfit to print: {x[:200]!r}" for x in lines if not x.isprintable())
            yield from (f"a line of {len(x)}: {x[:80]}" for x in lines if len(x) > LONGEST)
        if self.many and (code != 0 or self.many not in said.stdout):
            yield f"others are not served: {code}, {said.stderr[:300]!r}, {said.stdout[:200]!r}"


class LateError(BaseException):
    """No Exception, which a command may expect and explain."""


@contextmanager
def _patience() -> Iterator[None]:
    """LateError if it takes too long: a pipe that is read waits for ever."""

    def late(number: int, frame: object) -> None:
        raise LateError(f"no answer for {PATIENCE} seconds")

    before = signal.signal(signal.SIGUSR1, late)  # pytest's own limit has the alarm
    here = threading.main_thread().ident or 0
    timer = threading.Timer(PATIENCE, signal.pthread_kill, (here, signal.SIGUSR1))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR1, before)


def problems(cases: Sequence[Case], stage: Path, room: Path) -> list[str]:
    """What is wrong, by name of the case; each finds the room as the stage is."""
    found = []
    for case in cases:
        shutil.copytree(stage, room, copy_function=shutil.copyfile)
        if wrong := case.problem(room):
            found.append(f"{case.name}: {wrong}")
        shutil.rmtree(room)
    return found


def putting(path: str, make: Callable[[Path], object]) -> Spoil:
    """Replace a file by something else."""

    def spoil(room: Path) -> None:
        clear(room / path)
        (room / path).parent.mkdir(parents=True, exist_ok=True)
        make(room / path)

    return spoil


def writing(path: str, content: bytes) -> Spoil:
    """Replace a file by one of this content."""
    return putting(path, lambda file: file.write_bytes(content))


def clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
