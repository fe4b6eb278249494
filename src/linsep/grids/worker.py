"""Workers: each walks a grid's plan and does the runs that are neither finished nor held.

A grid and its workers share a folder, the board: it has the plan, and a report on every run that a
worker has taken up. A worker stops when the plan is gone. Leases keep two processes from doing the
same run, so workers need not know of each other, nor of other grids.
"""

import json
import multiprocessing
import os
import signal
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ..custom import blamed
from ..errors import HeldError, LinsepError, out_of_memory

TRIES = 3  # of a run that crashes without progress
LOOK_EVERY = 0.2  # seconds between looks whether to stop
REPORT_EVERY = 1.0  # seconds
PLAN = "plan.json"

Status = Literal["waiting", "running", "done", "failed", "stopped", "elsewhere"]


@dataclass(frozen=True)
class Report:
    """The progress or outcome of a run.

    waiting     nobody has taken it up, or it crashed and may be tried again
    running     by the worker with this number
    done        finished
    failed      trying again would not help
    stopped     saved, because it was asked to stop
    elsewhere   a process that is not of this grid holds it
    """

    status: Status = "waiting"
    reason: str = ""
    worker: int = -1
    tries: int = 0  # in a row without progress
    resumed: float = 0.0  # share of its work that was done when it was last started
    share: float = 0.0  # of its work
    place: str = ""  # "task 2/5  epoch 3/5"
    rate: float = 0.0  # images a second
    seconds: float = 0.0  # since it was last started; all in all, once it is done

    def crashed(self, reason: str) -> "Report":
        if self.tries < TRIES:
            return replace(self, status="waiting", reason=reason)
        return replace(self, status="failed", reason=f"{reason} ({self.tries} times)")


@dataclass(frozen=True)
class Board:
    """The plan and the reports.

    The plan: {"runs": folder, "save_every": s, "keep": k, "log": loggers, "tries": n, "cells":
    {name: settings}}, where runs that crashed more than n times are not to be taken up.
    """

    folder: Path

    def post(self, plan: Mapping[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write(PLAN, plan)

    def plan(self) -> dict[str, Any]:
        """The plan; one without runs if it is gone."""
        with suppress(OSError):
            plan: dict[str, Any] = json.loads((self.folder / PLAN).read_bytes())
            return plan
        return {"cells": {}}

    def stop(self) -> None:
        (self.folder / PLAN).unlink(missing_ok=True)

    def stopped(self) -> bool:
        return not (self.folder / PLAN).exists()

    def read(self, name: str) -> Report:
        with suppress(OSError, ValueError, TypeError):
            return Report(**json.loads((self.folder / f"{name}.report").read_bytes()))
        return Report()

    def write(self, name: str, report: Report) -> None:
        with suppress(OSError):  # a run matters more than news of it
            self._write(f"{name}.report", asdict(report))

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        """Replace a file in one step, unflushed: no report outlives its grid."""
        temporary = self.folder / f".{uuid.uuid4().hex}"
        temporary.write_text(json.dumps(content))
        temporary.replace(self.folder / name)


def work(folder: Path, number: int, ending: Callable[[], bool] = lambda: False) -> None:
    """Walk the plan once, until it is gone or `ending` is true."""
    board, looked, opened = Board(folder), 0.0, dict[str, Any]()

    def stop() -> bool:
        nonlocal looked
        if time.monotonic() - looked < LOOK_EVERY:
            return False
        looked = time.monotonic()
        return board.stopped() or ending()

    plan = board.plan()
    names = list(plan["cells"])
    first = number % max(len(names), 1)  # each worker starts somewhere else
    for name in names[first:] + names[:first]:
        if board.stopped() or ending():
            return
        before = board.read(name)
        again = before.status == "running" and before.worker == number  # after a preemption
        free = before.status == "waiting" and before.tries <= plan["tries"]
        if not again and not free:
            continue
        tries = before.tries + (not again)
        last = replace(before, status="running", reason="", worker=number, tries=tries, rate=0.0)
        board.write(name, last)
        try:
            for report in _train(name, plan, last, stop, opened):
                last = report
                board.write(name, last)
        except HeldError as error:
            if board.read(name).worker == number:  # else another worker of this grid was faster
                board.write(name, replace(before, status="elsewhere", reason=str(error)))
        except Exception as error:  # noqa: BLE001 - one bad run must not stop the others
            board.write(name, _failure(last, error))


def _train(
    name: str,
    plan: Mapping[str, Any],
    report: Report,
    stop: Callable[[], bool],
    opened: dict[str, Any],
) -> Iterator[Report]:
    """Do one run and report on it: first when it is ready, last when it has ended."""
    from ..learning.run import StepEnd
    from ..prepare import prepare
    from ..settings.config import from_settings
    from ..storage.loggers import writing
    from ..storage.session import Session

    prepared = prepare(from_settings(plan["cells"][name]), lenient=True, opened=opened)
    saving = {"save_every": plan["save_every"], "keep": plan["keep"]}
    with Session(prepared, plan["runs"], **saving) as session, ExitStack() as opened_logs:
        images, began, told = 0, time.monotonic(), 0.0
        if session.run is not None:
            before, report = report.resumed, replace(report, **_progress(session.run))
            tries = 1 if report.share > before else report.tries  # the last try was not in vain
            report = replace(report, resumed=report.share, tries=tries)
            yield report
            see = opened_logs.enter_context(writing(plan["log"], session))
        for event in session:
            assert session.run is not None
            see(event)
            images += event.images if isinstance(event, StepEnd) else 0
            if stop():
                session.save()
                yield replace(report, status="stopped")
                return
            if (now := time.monotonic()) - told > REPORT_EVERY:
                told, rate = now, images / max(now - began, 1e-9)
                report = replace(report, **_progress(session.run), rate=rate, seconds=now - began)
                yield report
    yield replace(report, status="done", share=1.0, seconds=time.monotonic() - began)


def _progress(run: Any) -> dict[str, Any]:
    done, total = run.passes()
    return {"share": done / max(total, 1), "place": run.place()}


def _failure(report: Report, error: Exception) -> Report:
    if isinstance(error, LinsepError):
        return replace(report, status="failed", reason=str(error))
    traceback.print_exc()
    if out_of_memory(error):
        return report.crashed("out of memory")
    first_line = str(error).strip().partition("\n")[0]
    reason = blamed(error) or f"{type(error).__name__}: {first_line}"
    return replace(report, status="failed", reason=reason)


def work_here(folder: Path, number: int, environment: Mapping[str, str], log: Path) -> None:
    """Work as a process of this machine: SIGTERM and the parent's death end it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    os.environ.update(environment)
    with log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    terminated, parent = threading.Event(), multiprocessing.parent_process()
    signal.signal(signal.SIGTERM, lambda *_: terminated.set())

    def ending() -> bool:
        return terminated.is_set() or (parent is not None and not parent.is_alive())

    work(folder, number, ending)
