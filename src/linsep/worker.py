"""A process that does runs one after another, as it is told on its standard input.

Speaks JSON lines: a job is {"index", "settings", "runs", "save_every"}, and what comes back is said
in `Report`. {"quit": true} ends it; the end of the input means that the parent has died, and like
SIGTERM makes it finish the step, save, and go.
"""

from __future__ import annotations

import json
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from .errors import LinsepError

REPORT_EVERY = 0.5  # seconds


class Worker:
    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.jobs: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.opened: dict[str, Any] = {}  # streams that several runs share

    def listen(self) -> None:
        for line in sys.stdin:
            job = json.loads(line)
            self.jobs.put(None if job.get("quit") else job)
            if job.get("quit"):
                return
        self.stopping.set()
        self.jobs.put(None)

    def work(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides, and sends SIGTERM
        signal.signal(signal.SIGTERM, self._stop)
        threading.Thread(target=self.listen, daemon=True).start()
        while (job := self.jobs.get()) is not None:
            try:
                self.do(job)
            except LinsepError as error:
                say("failed", job, reason=str(error))
            except MemoryError:
                say("failed", job, reason="out of memory")
            if self.stopping.is_set():
                return

    def do(self, job: dict[str, Any]) -> None:
        from .config import from_settings, prepare
        from .results import Session

        prepared = prepare(from_settings(job["settings"]), lenient=True, opened=self.opened)
        with Session(prepared, Path(job["runs"]), save_every=job["save_every"]) as session:
            told, images, began = 0.0, 0, time.monotonic()
            for event in session:
                images += getattr(event, "images", 0)
                if self.stopping.is_set():
                    session.save()
                    say("stopped", job)
                    return
                if time.monotonic() - told > REPORT_EVERY and session.run is not None:
                    told = time.monotonic()
                    done, total = session.run.steps()
                    rate = images / max(told - began, 1e-9)
                    say("progress", job, done=done, total=total, images_per_second=rate)
            say("done", job, folder=str(session.folder), seconds=time.monotonic() - began)

    def _stop(self, number: int, frame: object) -> None:
        self.stopping.set()
        self.jobs.put(None)


def say(kind: str, job: dict[str, Any], **facts: Any) -> None:
    sys.stdout.write(json.dumps({"kind": kind, "index": job["index"], **facts}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    Worker().work()
