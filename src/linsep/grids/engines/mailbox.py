"""Jobs done on other machines: how they report what happens, and how they are asked to stop.

Every job appends its messages to a file of its own in a folder that all machines share, and looks
there for a file named "stop". Whoever submitted the jobs reads on where it left off. No machine
needs to reach another one.
"""

import json
import shutil
import time
import uuid
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..worker import Job, Message, do

NEVER_FULL = 1 << 30  # jobs: the cluster keeps the queue
TELL_EVERY = 2.0  # seconds; a shared disk is not a pipe
LOOK_EVERY = 1.0
_STOP = "stop"


class Mailbox:
    """The submitter's end: the jobs that were sent, and what they have written."""

    def __init__(self, runs: Path) -> None:
        self.sent: dict[Any, tuple[Job, Path]] = {}  # by the cluster's handle of the job
        self.folder = runs.absolute() / ".grid" / uuid.uuid4().hex[:12]
        self._read: dict[Path, int] = {}  # how far

    def address(self, job: Job) -> Path:
        """Return the file that a job writes to; a second try gets a file of its own."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{job.index}-{uuid.uuid4().hex[:8]}.jsonl"
        self._read[path] = 0
        return path

    def news(self) -> list[Message]:
        """Return the progress reported since the last call, as far as its lines are whole."""
        found = []
        for path, start in self._read.items():
            with suppress(FileNotFoundError), path.open("rb") as file:
                file.seek(start)
                whole, newline, _ = file.read().rpartition(b"\n")
                self._read[path] = start + len(whole + newline)
                found += [_message(line) for line in whole.splitlines()]
        return [message for message in found if message.kind == "progress"]

    def last(self, handle: Any, loss: str) -> Message:
        """How a job that is over has ended; if it did not come to report it, it died of `loss`."""
        job, path = self.sent.pop(handle)
        self._read.pop(path, None)
        with suppress(OSError, ValueError, TypeError, IndexError):
            message = _message(path.read_bytes().splitlines()[-1])
            path.unlink()
            if message.kind != "progress":
                return message
        return Message("died", job.index, loss)

    def stop(self) -> None:
        if self.folder.exists():
            (self.folder / _STOP).touch()

    def close(self) -> None:
        self.sent = {}
        shutil.rmtree(self.folder, ignore_errors=True)


class _Asked:
    """Whether the submitter has asked to stop; looked up now and then."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._looked, self._answer = folder, 0.0, False

    def is_set(self) -> bool:
        if not self._answer and time.monotonic() - self._looked > LOOK_EVERY:
            self._looked = time.monotonic()
            self._answer = (self._folder / _STOP).exists()
        return self._answer


def do_posted(job: Job, box: Path) -> None:
    """Run a job on a cluster node and report its progress through a file."""

    def tell(message: Message) -> None:
        with suppress(OSError), box.open("ab") as file:  # if nobody reads any more, carry on
            file.write(json.dumps(asdict(message)).encode() + b"\n")

    do(job, tell, _Asked(box.parent), {}, TELL_EVERY)


def _message(line: bytes) -> Message:
    return Message(**json.loads(line))
