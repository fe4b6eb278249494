"""Grids: hand runs to an engine, retry those that crash, and resume a grid that was stopped.

Knows the cells of a plan and what becomes of them. Knows nothing of processes or clusters; a run's
folder is the only thing that outlives it, so a grid may be killed at any time and started again,
here or elsewhere, beside another one too.
"""

import time
from collections.abc import Iterator
from pathlib import Path

from ..settings.sections import Keep
from ..storage.folder import RunFolder
from ..storage.session import SAVE_EVERY
from .engines import Engine
from .engines.local import Local, cpu_slots
from .plan import Cell, expand, over, plan
from .worker import Job, Message

__all__ = ["Cell", "Grid", "expand", "over", "plan"]

TRIES = 3  # of a run that dies without getting further
LOOK = 1.0  # seconds between looks around when nothing is heard
RETRY = 3.0  # seconds before asking again for a run that another process is working on


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
        self._waiting = [cell for cell in cells if cell.status == "waiting"]
        self.stopping = False

    def __iter__(self) -> Iterator[Cell]:
        try:
            while True:
                self._hand_out()
                if not self._open():
                    return
                for message in self.engine.hear(LOOK):
                    yield self._take(message)
                yield from self._look_elsewhere()
        finally:
            self.engine.close()

    def add(self, cell: Cell) -> None:
        self.cells.append(cell)
        if cell.status == "waiting":
            self._waiting.append(cell)

    def stop(self) -> None:
        self.stopping = True
        self.engine.stop()

    def under_way(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.status in ("queued", "running")]

    # --- the inside ------------------------------------------------------------------------------

    def _open(self) -> bool:
        """Return whether there is anything to wait for."""
        if self.stopping:
            for cell in self.cells:
                if cell.status in ("waiting", "elsewhere"):
                    cell.status = "stopped"
            self._waiting = []
        return any(cell.open for cell in self.cells)

    def _hand_out(self) -> None:
        jobs: list[Job] = []
        while self._waiting and not self.stopping and len(jobs) < self.engine.room():
            if self.engine.shares_memory and self._needs_quiet():
                break
            cell = self._waiting.pop(0)
            cell.status, cell.tries = "queued", cell.tries + 1
            place = self.runs.absolute(), self.save_every, self.keep
            jobs.append(Job(self.cells.index(cell), cell.settings, *place))
        if jobs:
            self.engine.start(jobs)

    def _needs_quiet(self) -> bool:
        """Return whether to wait: a last try runs alone, in case memory ran out before."""
        under_way = self.under_way()
        last = self._waiting[0].tries == TRIES - 1
        return bool(under_way) and (last or any(cell.tries == TRIES for cell in under_way))

    def _take(self, message: Message) -> Cell:
        cell = self.cells[message.index]
        cell.reason = message.reason
        match message.kind:
            case "progress":
                cell.share, cell.rate = message.done / max(message.total, 1), message.rate
                cell.place, cell.seconds = message.place, message.seconds
                if cell.status != "running":
                    cell.resumed = cell.share
                if cell.status != "running" and cell.share > cell.reached:
                    cell.tries, cell.reached = 1, cell.share  # the try before was not for nothing
                cell.status = "running"
            case "done":
                cell.finish(message.seconds)
            case "held":
                cell.status, cell.again = "elsewhere", time.monotonic() + RETRY
                cell.tries -= 1
            case "died":
                self._revive(cell)
            case kind:  # failed, stopped
                cell.status = kind
        return cell

    def _revive(self, cell: Cell) -> None:
        """Put a crashed run back at the end of the queue."""
        if self.stopping:
            cell.status = "stopped"
        elif cell.tries < TRIES:
            cell.status = "waiting"
            self._waiting.append(cell)
        else:
            cell.status, cell.reason = "failed", f"{cell.reason} ({cell.tries} times)"

    def _look_elsewhere(self) -> Iterator[Cell]:
        """Check the runs that another process held: they may be finished or free by now."""
        for cell in self.cells:
            if cell.status != "elsewhere":
                continue
            if RunFolder(cell.folder).finished:
                cell.finish()
                yield cell
            elif time.monotonic() >= cell.again:
                cell.status = "waiting"
                self._waiting.append(cell)
