"""Progress of a run in Python: the command line's bar in a terminal, HTML in a notebook.

Knows events and where to draw. Knows nothing of files.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from statistics import fmean
from typing import Any

from ..cli.progress import REFRESH, Watcher, clock
from ..cli.terminal import open_console
from ..learning.run import Event, Run, StepEnd, TaskEnd

See = Callable[[Event], None]


@contextmanager
def watching(run: Run, shown: bool) -> Iterator[See]:
    """Hand each event of the run to what this gives; nothing is printed unless `shown`."""
    if not shown:
        yield lambda event: None
    elif in_notebook():
        yield NotebookBar(run).see
    else:
        watcher = Watcher(run, open_console())
        with watcher.bar:
            yield watcher.see


def in_notebook() -> bool:
    """Return whether this is a notebook's kernel, which displays HTML."""
    ipython = sys.modules.get("IPython")  # a notebook has imported it
    shell: Any = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class NotebookBar:
    """A bar, the place, the time left, and the accuracy so far; needs no notebook extension."""

    def __init__(self, run: Run) -> None:
        from IPython.display import display

        self.run = run
        self._began, self._drawn = time.monotonic(), 0.0
        self._first, _ = run.steps()
        self._accuracy = ""
        self._handle: Any = display({"text/html": self.html()}, raw=True, display_id=True)

    def see(self, event: Event) -> None:
        if isinstance(event, TaskEnd):
            mean = 100 * fmean(event.class_il)
            self._accuracy = f"Class-IL {mean:.2f} % after task {event.task + 1}"
        elif not isinstance(event, StepEnd) or time.monotonic() - self._drawn < REFRESH:
            return
        self._drawn = time.monotonic()
        self._handle.update({"text/html": self.html()}, raw=True)

    def html(self) -> str:
        done, total = self.run.steps()
        parts = [f'<progress value="{done}" max="{total}"></progress>']
        parts += [f"{100 * done // max(total, 1)} %", *filter(None, [self._place(), self._left()])]
        return f"<div>{' &nbsp; '.join([*parts, escape(self._accuracy)])}</div>"

    def _place(self) -> str:
        if self.run.finished:
            return "finished"
        cursor, stages = self.run.cursor, self.run.learner.method.stages
        stage = stages[min(cursor.stage, len(stages) - 1)]
        epochs, tasks = self.run.epochs(stage), len(self.run.scenario.tasks)
        epoch = f"epoch {min(cursor.epoch + 1, epochs)}/{epochs}"
        return escape(f"task {cursor.task + 1}/{tasks} {stage.name} {epoch}")

    def _left(self) -> str:
        done, total = self.run.steps()
        here, took = done - self._first, time.monotonic() - self._began
        return f"{clock(took / here * (total - done))} left" if here > 0 and done < total else ""
