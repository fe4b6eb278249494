"""Leases: at most one process works on a run, across all machines that share the folder.

A lease is a small file `lease.<n>` that names its holder's host, process and token; a thread
touches it every few seconds. To claim is to create the next number, which one of many can. A lease
is dead if
- its holder's host is this one and the file lock, which dies with its process, is free;
- its holder is this machine before it was last started;
- it names nobody, as after a power cut: its holder, if it lives, cannot recognise it and stops; or
- it was not touched for `STALE` seconds, told by the clock of the disk that keeps it, since
  machines' clocks differ.
A claim removes dead leases, and a holder checks its own file before each write: if it is gone,
another process has resumed the run, and this one must stop.

The file lock alone is not enough: across hosts it may not hold, or outlive the host that had it.
"""

import json
import os
import re
import socket
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from filelock import FileLock, Timeout

from ..errors import HeldError, StateError, printable
from . import files

BEAT = 5.0  # seconds between touches
LONGEST = 10_000  # bytes of a lease
NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # for the writer of a pipe
STALE = 60.0  # seconds without a touch after which a lease on another host is dead
_NAME = re.compile(r"lease\.(\d{1,9})", re.ASCII)


@dataclass(frozen=True)
class Holder:
    host: str
    process: int
    token: str
    seen: float  # when it last touched its lease, by the disk's clock

    def __str__(self) -> str:
        return f"process {self.process} on {self.host.partition('/')[0]}"


class Lease:
    """`acquire()`, `check()` before every write, `release()`."""

    def __init__(
        self,
        folder: Path,
        *,
        host: str | None = None,
        beat: float = BEAT,
        stale: float = STALE,
        now: Callable[[Path], float] | None = None,  # the disk's, from a file just written
    ) -> None:
        self.folder, self.host = folder, host or this_host()
        self._beat, self._stale = beat, stale
        self._now = now or (lambda path: path.stat().st_mtime)
        self._token = uuid.uuid4().hex
        self._path: Path | None = None
        self._done = threading.Event()
        # Named by the host, since it only tells whether a process of this host is alive.
        self._lock = FileLock(folder / f".lock-{self.host.partition('/')[0]}", timeout=0)

    def acquire(self) -> None:
        """Take the lease; raise HeldError if a live process holds it."""
        try:
            self._lock.acquire()
        except Timeout:
            raise self._held(self._holder()) from None
        except NotImplementedError:  # a disk without locks: only touches tell the dead
            pass
        try:
            self._path = self._claim()
        except BaseException:
            self._lock.release()
            raise
        self._done.clear()
        args = (self._path,)
        threading.Thread(target=self._touch, args=args, daemon=True, name="lease").start()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def check(self) -> None:
        """Raise HeldError if another process took the run over, so that nothing more is written."""
        if not self._mine():
            now = self._holder()
            by = f" by {now}" if now else ""
            raise HeldError(f"{self.folder} was taken over{by}; this process stops")

    def release(self) -> None:
        self._done.set()
        if self._path is not None and self._mine():
            with suppress(OSError):
                self._path.unlink()
        self._path = None
        self._lock.release()

    # --- the inside ------------------------------------------------------------------------------

    def _claim(self) -> Path:
        draft = self.folder / f".lease-{self._token}.tmp"
        content = {"host": self.host, "process": os.getpid(), "token": self._token}
        try:
            files.write(draft, json.dumps(content).encode())
            found = holders(self.folder)
            now = self._now(draft)
            alive = [holder for holder in found.values() if not self._dead(holder, now)]
            if alive:
                raise self._held(alive[0])
            path = self.folder / f"lease.{1 + max(map(_number, found), default=0)}"
            if not _create(path, draft):
                raise self._held(_read(path))
        finally:
            draft.unlink(missing_ok=True)
        # Somebody who saw other leases than we did may have claimed another number meanwhile.
        dead = {holder.token for holder in found.values()}
        rivals = [h for p, h in holders(self.folder).items() if p != path and h.token not in dead]
        if rivals:
            path.unlink(missing_ok=True)
            raise self._held(rivals[0])
        for old in found:
            old.unlink(missing_ok=True)
        return path

    def _dead(self, holder: Holder, now: float) -> bool:
        here = holder.host == self.host and self._lock.is_locked
        name, boot, machine = (*self.host.split("/"), "", "")[:3]
        its_name, its_boot, its_machine = (*holder.host.split("/"), "", "")[:3]
        same = bool(machine) and (name, machine) == (its_name, its_machine)
        before_restart = same and boot != its_boot
        return here or before_restart or not holder.token or now - holder.seen > self._stale

    def _holder(self) -> Holder | None:
        """The newest, dead or alive."""
        return next(iter(holders(self.folder).values()), None)

    def _mine(self) -> bool:
        holder = _read(self._path) if self._path is not None else None
        return holder is not None and holder.token == self._token

    def _touch(self, path: Path) -> None:
        while not self._done.wait(self._beat):
            with suppress(OSError):  # `check` finds out what it means
                if self._mine():
                    os.utime(path)

    def _held(self, by: Holder | None) -> HeldError:
        who = f" ({by})" if by else ""
        return HeldError(
            f"{self.folder} is being worked on by another process{who}; wait for it or stop it"
        )


def holders(folder: Path) -> dict[Path, Holder]:
    """Whose leases lie in a folder, dead or alive; the newest first."""
    with suppress(OSError):
        paths = [folder / name for name in os.listdir(folder) if _NAME.fullmatch(name)]
        found = {path: _read(path) for path in sorted(paths, key=_number, reverse=True)}
        return {path: holder for path, holder in found.items() if holder is not None}
    return {}


def release_dead(folder: Path) -> bool:
    """Remove leases that killed processes left behind; return whether the folder is free."""
    if not holders(folder):
        return True
    try:
        with Lease(folder):
            return True
    except (HeldError, StateError, OSError):  # or a folder that cannot be written
        return False


def this_host() -> str:
    """Its name, which start of the machine it is, and what tells it from others of that name."""
    boot, machine = (_line(path) for path in ("/proc/sys/kernel/random/boot_id", "/etc/machine-id"))
    return f"{socket.gethostname()}/{boot or f'{uuid.getnode():x}'}/{machine}"


def _line(path: str) -> str:
    """A file's only line; nothing where there is no such file."""
    with suppress(OSError, ValueError):
        return Path(path).read_text(encoding="utf-8").strip()
    return ""


def _read(path: Path) -> Holder | None:
    try:
        with open(os.open(path, os.O_RDONLY | NO_WAIT), "rb") as file:
            content, seen = file.read(LONGEST), os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return None
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        said = json.loads(content)
        host, process, token = (said[name] for name in ("host", "process", "token"))
        if isinstance(host, str) and isinstance(token, str):
            return Holder(printable(host), process, token, seen)
    return Holder("an unknown host", 0, "", seen)


def _create(path: Path, draft: Path) -> bool:
    """Give the draft its final name, whole; False if somebody has that name already."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # a disk without links
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(draft.read_text(encoding="utf-8"))
        except FileExistsError:
            return False
    return True


def _number(path: Path) -> int:
    return int(path.name.partition(".")[2])
