"""Grids: start workers, watch their reports, retry runs that crashed.

A run's folder is the only thing that outlives its grid, so a grid may be killed at any time and
started again, here or elsewhere, or beside another one.
"""

import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

from ..settings.sections import Keep
from ..storage.folder import RunFolder
from ..storage.lease import release_dead
from ..storage.resumable import SAVE_EVERY
from .engines import Engine, Local, cpu_slots
from .plan import Cell, done
from .worker import TRIES, Board, Report

LOOK_HERE, LOOK_SHARED = 0.1, 1.0  # seconds between looks at the reports
RETRY = 3.0  # seconds before trying again for a run that another process is working on


class Grid:
    """Iterate to carry it out: yields each cell whose state has changed.

    `stop()` asks the runs to save and end; the iteration then ends by itself. `add()` gives it more
    to do, even while it is being iterated.
    """

    def __init__(
        self,
        cells: list[Cell],
        runs: Path,
        save_every: float = SAVE_EVERY,
        keep: Keep | None = None,
        engine: Engine | None = None,
        workers: int = 1,
    ) -> None:
        self.cells, self.runs, self.save_every, self.keep = cells, runs, save_every, keep
        self.engine = engine or Local(runs, cpu_slots(workers))
        self.stopping = False
        self._board = Board(runs.absolute() / ".grid" / uuid.uuid4().hex[:12])
        self._numbers = count()
        self._workers: dict[int, Cell] = {}  # and where each begins its walk
        self._retried = time.monotonic()

    def __iter__(self) -> Iterator[Cell]:
        try:
            while True:
                self._hire()
                if not self._open():
                    return
                time.sleep(LOOK_HERE if self.engine.here else LOOK_SHARED)
                yield from self._news()
        finally:
            self.engine.close()
            shutil.rmtree(self._board.folder, ignore_errors=True)
            with suppress(OSError):  # another grid may be under way
                self._board.folder.parent.rmdir()

    def add(self, cell: Cell) -> None:
        self.cells.append(cell)

    def stop(self) -> None:
        self.stopping = True
        self._board.stop()

    # --- the inside ------------------------------------------------------------------------------

    def _running(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.status == "running"]

    def _open(self) -> bool:
        """Return whether there is anything to wait for."""
        if not self.stopping:
            return any(cell.open for cell in self.cells)
        self._board.stop()  # a signal may have come while the plan was being posted
        if self._workers if self.engine.here else self._running():
            return True
        for cell in self.cells:
            if cell.open:
                cell.report = replace(cell.report, status="stopped")
        return False

    def _hire(self) -> None:
        """Start workers, as far as there are runs for them."""
        waiting = sorted((c for c in self.cells if c.status == "waiting"), key=lambda c: c.tries)
        tries = TRIES - 1
        if self.engine.here:  # where a last try runs alone, in case memory ran out before
            if any(cell.tries == TRIES for cell in self._running()):
                return
            others = [cell for cell in waiting if cell.tries < tries]
            if others or self._workers:
                waiting, tries = others, tries - 1
            else:
                waiting = waiting[:1]
        wanted = min(self.engine.most, len(waiting) + len(self._running())) - len(self._workers)
        if not waiting or wanted <= 0 or self.stopping:
            return
        saving = {"save_every": self.save_every, "keep": self.keep}
        cells = {cell.name: cell.settings for cell in waiting}
        runs = str(self.runs.absolute())
        self._board.post({"runs": runs, **saving, "tries": tries, "cells": cells})
        hired = [next(self._numbers) for _ in range(wanted)]
        self._workers |= {number: waiting[number % len(waiting)] for number in hired}
        self.engine.start(self._board.folder, hired)

    def _news(self) -> Iterator[Cell]:
        """Read the reports; yield the cells that changed."""
        ended = self.engine.ended()  # first, so that the last report of a worker is not missed
        retry = time.monotonic() - self._retried >= RETRY
        if retry:
            self._retried = time.monotonic()
        for cell in [cell for cell in self.cells if cell.open]:
            before, cell.report = cell.report, self._settled(cell, ended, retry)
            if cell.report != before:
                yield cell
        for number, reason in ended.items():
            first = self._workers.pop(number)
            idle = all(cell.report.worker != number for cell in self.cells)
            if reason and idle and first.status == "waiting":  # it did not get as far as its run
                report = replace(first.report, tries=first.tries + 1).crashed(reason)
                self._board.write(first.name, report)
                first.report = report
                yield first

    def _settled(self, cell: Cell, ended: Mapping[int, str], retry: bool) -> Report:
        """What is reported of a run, and what follows from it."""
        report = told = self._board.read(cell.name)
        if report.status == "running" and report.worker in ended:
            report = report.crashed(ended[report.worker] or "its worker ended without a report")
        elif report.status == "elsewhere" and RunFolder(cell.folder).finished:
            report = replace(report, status="done")
        elif report.status == "elsewhere" and retry and release_dead(cell.folder):
            report = replace(report, status="waiting")
        if report != told:
            self._board.write(cell.name, report)
        return done(cell.folder, report) if report.status == "done" else report
