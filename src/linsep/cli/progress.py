"""Progress of runs, grids and downloads: bars in a terminal or notebook, plain lines elsewhere.

`watched` is the loop that every command and notebook trains in.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from html import escape
from statistics import fmean
from typing import Any, NamedTuple, SupportsFloat

from rich import progress as rich_bars
from rich.console import Console
from rich.filesize import decimal
from rich.live import Live
from rich.table import Column

from ..learning.cost import TRAINED, Workload
from ..learning.run import ChunkEnd, EpochEnd, Event, Run, StepEnd, TaskEnd
from ..storage.resumable import Resumable
from .terminal import Stop, say

REFRESH = 0.2  # seconds between looks at the losses: reading one waits for the device


class Bar(NamedTuple):
    """How far something is, and a text about it, of which a terminal shows what fits."""

    name: str
    share: float
    text: str  # "0:42 left  task 2/5  epoch 3/5  ce 0.431"

    def html(self) -> str:
        whole = f"{self.share:.0%}  {self.text}"
        bar = f'<progress value="{self.share:.4f}" max="1"></progress>'
        return f"<div>{bar} {escape(whole).replace('  ', ' &nbsp; ')}</div>"


def drawn(bars: Sequence[Bar]) -> rich_bars.Progress:
    """Bars below each other for a console to print; names are never cut."""
    text = rich_bars.TextColumn(
        "{task.fields[text]}", markup=False, table_column=Column(ratio=1, no_wrap=True)
    )
    name = [rich_bars.TextColumn("{task.description}", markup=False)] if bars[0].name else []
    bar = rich_bars.BarColumn(bar_width=16), rich_bars.TaskProgressColumn()
    shown = rich_bars.Progress(*name, *bar, text, expand=True)
    for one in bars:
        shown.add_task(one.name, completed=round(1e6 * one.share), total=1e6, text=one.text)
    return shown


def in_notebook() -> bool:
    """Return whether this is a notebook's kernel, which displays HTML."""
    ipython = sys.modules.get("IPython")  # a notebook has imported it
    shell: Any = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class Watcher:
    """`with watcher.bar: for event in ...: watcher.see(event)`."""

    def __init__(self, run: Run, console: Console, accuracies: bool = True) -> None:
        self.run, self.console, self.accuracies = run, console, accuracies
        self._images, self._seen, self._last = 0, 0.0, time.monotonic()
        self._first = self._counts()
        self._seconds = [0.0, 0.0]  # training and testing
        self.bar: AbstractContextManager[object] = nullcontext()
        self._draw: Callable[[Bar], object] | None = None
        first = Bar("", self._share(), "starting")
        if not console.quiet and in_notebook():
            from IPython.display import display

            handle: Any = display({"text/html": first.html()}, raw=True, display_id=True)
            self._draw = lambda bar: handle.update({"text/html": bar.html()}, raw=True)
        elif console.is_terminal and not console.quiet:
            self.bar = live = Live(drawn([first]), console=console, transient=True)
            self._draw = lambda bar: live.update(drawn([bar]))

    def see(self, event: Event) -> None:
        now = time.monotonic()
        self._seconds[isinstance(event, ChunkEnd | TaskEnd)] += now - self._last
        self._last = now
        match event:
            case StepEnd() | ChunkEnd():
                self._images += event.images if isinstance(event, StepEnd) else 0
                if self._draw and now - self._seen > REFRESH:
                    self._seen = now
                    self._draw(self.line(event))
            case EpochEnd() if not self._draw:
                rate, left = self._pace()
                place, terms = self.run.place(event.cursor), "  ".join(spelled(event.losses))
                say(self.console, f"{place}  {terms}  {rate:.0f} images/s  {clock(left)} left")
            case TaskEnd() if self.accuracies:
                class_il, task_il = (100 * fmean(a) for a in (event.class_il, event.task_il))
                text = f"Class-IL {class_il:.2f} %  Task-IL {task_il:.2f} %"
                if self._draw and in_notebook():
                    self._draw(Bar("", self._share(), f"after task {event.task + 1}: {text}"))
                else:
                    say(self.console, f"after task {event.task + 1}: {text}")

    def line(self, event: StepEnd | ChunkEnd) -> Bar:
        """The bar after an event. While a task is tested, its place counts images."""
        rate, left = self._pace()
        if isinstance(event, StepEnd):
            place, notes = self.run.place(event.cursor), spelled(event.losses)
        else:
            place, notes = self.run.place(), []
            rate = (self._counts()[1] - self._first[1]) / max(self._seconds[1], 1e-9)
        words = [f"{clock(left)} left", place, *notes, f"{rate:.0f} images/s"]
        return Bar("", self._share(), "  ".join(words))

    def _share(self) -> float:
        done, total = self.run.passes()
        return done / max(total, 1)

    def _counts(self) -> tuple[int, int]:
        """Images trained on and tested so far."""
        work, now = self.run.workload, self.run.cursor
        return work.trained(now), work.tested(now) + self.run.tested

    def _pace(self) -> tuple[float, float]:
        """Images trained on a second, and seconds left at the pace of training and of testing."""
        work, counts = self.run.workload, self._counts()
        trained, tested = (done - first for done, first in zip(counts, self._first, strict=True))
        train = self._seconds[0] / max(trained, 1)
        test = self._seconds[1] / tested if tested else train / TRAINED  # a guess, until it is
        left = train * (work.trained() - counts[0]) + test * (work.tested() - counts[1])
        return self._images / max(self._seconds[0], 1e-9), left


def watched(
    session: Resumable, console: Console, stopping: Stop, accuracies: bool = True
) -> Iterator[Event]:
    """Yield a session's events and show its progress; a signal saves it and ends the loop."""
    assert session.run is not None
    watcher = Watcher(session.run, console, accuracies)
    with watcher.bar:
        for event in session:
            watcher.see(event)
            yield event
            if stopping.signal is not None and not session.run.finished:
                session.save()
                break


def cost_of_testing(work: Sequence[Workload]) -> list[str]:
    """A line on what testing costs, if it passes more images through the net than training."""
    trained, tested = sum(w.trained() for w in work), sum(w.tested() for w in work)
    if tested <= trained or not trained:
        return []
    share = tested / (tested + TRAINED * trained)
    return [
        f"Testing on {tested} images may take up to {share:.0%} of the time, beside training on "
        f"{trained}. --test-per-class N tests on fewer."
    ]


def spelled(losses: Mapping[str, SupportsFloat]) -> list[str]:
    return [f"{name} {float(loss):.3f}" for name, loss in losses.items()]


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def counting(
    what: str, bytes_: bool = False, quiet: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr, if that is a terminal and once something is reported to it."""
    console, began = Console(stderr=True), time.monotonic()
    live = Live(console=console)
    spell: Callable[[int], str] = decimal if bytes_ else str

    def report(done: int, total: int) -> None:
        if console.is_terminal and not quiet:
            left = clock((time.monotonic() - began) / max(done, 1) * (total - done))
            text = f"{spell(done)}/{spell(total)}  {left} left"
            live.start()
            live.update(drawn([Bar(what, done / max(total, 1), text)]))

    try:
        yield report
    finally:
        live.stop()
