"""The progress of one run: a bar in a terminal, plain lines elsewhere.

Knows events and how to print. Knows nothing of files.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import fmean
from typing import Any, SupportsFloat

from rich import progress as bars
from rich.console import Console

from ..learning.run import EpochEnd, Event, Run, StepEnd, TaskEnd
from ..randomness import Cursor
from .terminal import say

REFRESH = 0.2  # seconds between looks at the losses: reading one waits for the device


class Watcher:
    """`with watcher.bar: for event in ...: watcher.see(event)`."""

    def __init__(self, run: Run, console: Console) -> None:
        self.run, self.console = run, console
        self._started, self._images, self._seen = time.monotonic(), 0, 0.0
        self._first = run.steps()[0]
        share, left = "{task.percentage:>3.0f} %", bars.TimeRemainingColumn()
        note = bars.TextColumn("{task.fields[note]}", style="dim")
        columns = ("{task.description}", bars.BarColumn(bar_width=24), share, left, note)
        disable = console.quiet or not console.is_terminal
        self.bar = bars.Progress(*columns, console=console, transient=True, disable=disable)
        self._row = self.bar.add_task("starting", total=None, note="")

    def see(self, event: Event) -> None:
        match event:
            case StepEnd():
                self._images += event.images
                if not self.bar.disable and time.monotonic() - self._seen > REFRESH:
                    self._seen = time.monotonic()
                    self._draw(event)
            case EpochEnd() if self.bar.disable:
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
        tasks, epochs = len(self.run.scenario.tasks), self.run.epochs(stage)
        return f"task {cursor.task + 1}/{tasks} {stage.name} epoch {cursor.epoch + 1}/{epochs}"

    def _draw(self, event: StepEnd) -> None:
        done, total = self.run.steps()
        note = f"{self._pace()[0]:.0f} images/s  {spelled(event.losses)}"
        place = self._place(event.cursor)
        self.bar.update(self._row, description=place, completed=done, total=total, note=note)

    def _pace(self) -> tuple[float, float]:
        """Images a second, and seconds left."""
        elapsed = time.monotonic() - self._started
        done, total = self.run.steps()
        here = max(1, done - self._first)
        return self._images / max(elapsed, 1e-9), elapsed / here * (total - done)


def spelled(losses: Mapping[str, SupportsFloat]) -> str:
    return "  ".join(f"{name} {float(loss):.3f}" for name, loss in losses.items())


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def counting(
    what: str, bytes_: bool = False, quiet: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr, if that is a terminal and once something is reported to it."""
    amount: Any = bars.DownloadColumn() if bytes_ else bars.MofNCompleteColumn()
    console = Console(stderr=True)
    columns = ("{task.description}", bars.BarColumn(), amount, bars.TimeRemainingColumn())
    bar = bars.Progress(*columns, console=console, disable=quiet or not console.is_terminal)
    task = bar.add_task(what, total=None)

    def report(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield report
    finally:
        bar.stop()
