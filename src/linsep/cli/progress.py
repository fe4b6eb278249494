"""The progress of one run: a bar in a terminal, plain lines elsewhere.

Knows events and how to print. Knows nothing of files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from ..learning.run import EpochEnd, Event, Run, StepEnd, TaskEnd
from ..randomness import Cursor
from .terminal import say

REFRESH = 0.2  # seconds between looks at the losses: reading one waits for the device


class Watcher:
    """`with Watcher(run, console) as w: for event in ...: w.see(event)`."""

    def __init__(self, run: Run, console: Console) -> None:
        self.run, self.console = run, console
        self.tasks = len(run.scenario.tasks)
        self._started, self._images, self._seen = time.monotonic(), 0, 0.0
        self._first = run.steps()[0]
        self._bar: Progress | None = None
        if console.is_terminal and not console.quiet:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeRemainingColumn(),
                TextColumn("[dim]{task.fields[note]}"),
            )
            self._bar = Progress(*columns, console=console, transient=True)
            self._row = self._bar.add_task("starting", total=None, note="")

    def __enter__(self) -> Watcher:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def see(self, event: Event) -> None:
        match event:
            case StepEnd():
                self._images += event.images
                if self._bar is not None and time.monotonic() - self._seen > REFRESH:
                    self._seen = time.monotonic()
                    losses = {name: float(loss) for name, loss in event.losses.items()}
                    self._draw(event.cursor, losses)
            case EpochEnd() if self._bar is None:
                rate, left = self._pace()
                place, terms = self._place(event.cursor), spelled(event.losses)
                say(self.console, f"{place}  {terms}  {rate:.0f} images/s  {clock(left)} left")
            case TaskEnd():
                class_il, task_il = (100 * fmean(a) for a in (event.class_il, event.task_il))
                text = f"Class-IL {class_il:.2f} %  Task-IL {task_il:.2f} %"
                say(self.console, f"after task {event.task + 1}: {text}")

    def _place(self, cursor: Cursor) -> str:
        """'task 2/5 train epoch 3/5'."""
        stage = self.run.learner.method.stages[cursor.stage]
        epochs = self.run.epochs(stage)
        return f"task {cursor.task + 1}/{self.tasks} {stage.name} epoch {cursor.epoch + 1}/{epochs}"

    def _draw(self, cursor: Cursor, losses: dict[str, float]) -> None:
        assert self._bar is not None
        done, total = self.run.steps()
        rate, _ = self._pace()
        self._bar.update(
            self._row,
            description=self._place(cursor),
            completed=done,
            total=total,
            note=f"{rate:.0f} images/s  {spelled(losses)}",
        )

    def _pace(self) -> tuple[float, float]:
        """Images a second, and seconds left."""
        elapsed = time.monotonic() - self._started
        done, total = self.run.steps()
        here = max(1, done - self._first)
        return self._images / max(elapsed, 1e-9), elapsed / here * (total - done)


def spelled(losses: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.3f}" for name, value in losses.items())


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def counting(
    what: str, bytes_: bool = False, quiet: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr, if that is a terminal and once something is reported to it."""
    amount: Any = DownloadColumn() if bytes_ else MofNCompleteColumn()
    console = Console(stderr=True)
    columns = ("{task.description}", BarColumn(), amount, TimeRemainingColumn())
    bar = Progress(*columns, console=console, disable=quiet or not console.is_terminal)
    task = bar.add_task(what, total=None)

    def report(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield report
    finally:
        bar.stop()
