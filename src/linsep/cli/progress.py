"""Progress of runs and downloads: bars that fit any width in a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from statistics import fmean
from typing import Any, SupportsFloat

from rich import progress as bars
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from ..learning.run import ChunkEnd, EpochEnd, Event, Run, StepEnd, TaskEnd
from ..learning.workload import TRAINED, Workload
from .terminal import say

REFRESH = 0.2  # seconds between looks at the losses: reading one waits for the device

WIDEST, NARROWEST = 24, 8  # characters of a bar
PLACE = len("task 5/5  testing 4000/4000")  # room for this, so that lines do not jump


@dataclass(frozen=True)
class Line:
    """A bar and what belongs to it; of the notes, those that fit."""

    share: float
    left: str  # "0:42 left"
    place: str  # "task 2/5  epoch 3/5"
    notes: Sequence[str] = ()

    @property
    def narrowest(self) -> int:
        return NARROWEST + 2 + len(self._words) + max(0, PLACE - len(self.place))

    @property
    def _words(self) -> str:
        return "  ".join(filter(None, (f"{min(self.share, 1):4.0%}", self.left, self.place)))

    def text(self, width: int) -> Text:
        words = self._words
        room = min(width - len(words) - 2, width // 6)  # so that notes get some of it
        bar = min(WIDEST, max(NARROWEST, room))
        full = round(bar * min(self.share, 1))
        line = Text.assemble(("━" * full, "green"), ("─" * (bar - full), "dim"), f"  {words}")
        for note in self.notes:  # whole ones: half a number would be read as another
            if len(line) + 2 + len(note) > width:
                break
            line.append(f"  {note}", "dim")
        return line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text(options.max_width)


@dataclass(frozen=True)
class Lines:
    """A line for each of several runs beside its name, or below it where that is too wide."""

    rows: Sequence[tuple[str, Line]]
    below: str  # about all of them

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        name = max((len(name) for name, _ in self.rows), default=0)
        beside = name + 2 + max((line.narrowest for _, line in self.rows), default=0) <= width
        for called, line in self.rows:
            if beside:
                yield Text.assemble(f"{called:{name}}  ", line.text(width - name - 2))
            else:
                yield Text(called, overflow="fold")
                yield Text.assemble("  ", line.text(width - 2))
        yield Text(self.below)


class Watcher:
    """`with watcher.bar: for event in ...: watcher.see(event)`."""

    def __init__(self, run: Run, console: Console) -> None:
        self.run, self.console = run, console
        self._images, self._seen, self._last = 0, 0.0, time.monotonic()
        self._first = self._counts()
        self._seconds = [0.0, 0.0]  # training and testing
        self._live = Live(console=console, refresh_per_second=5, transient=True)
        self._drawing = console.is_terminal and not console.quiet
        self.bar: AbstractContextManager[object] = self._live if self._drawing else nullcontext()
        if self._drawing:
            self._live.update(Line(self._share(), "", "starting"))

    def see(self, event: Event) -> None:
        now = time.monotonic()
        self._seconds[isinstance(event, ChunkEnd | TaskEnd)] += now - self._last
        self._last = now
        match event:
            case StepEnd() | ChunkEnd():
                self._images += event.images if isinstance(event, StepEnd) else 0
                if self._drawing and now - self._seen > REFRESH:
                    self._seen = now
                    self._live.update(self.line(event))
            case EpochEnd() if not self._drawing:
                rate, left = self._pace()
                place, terms = self.run.place(event.cursor), "  ".join(spelled(event.losses))
                say(self.console, f"{place}  {terms}  {rate:.0f} images/s  {clock(left)} left")
            case TaskEnd():
                class_il, task_il = (100 * fmean(a) for a in (event.class_il, event.task_il))
                text = f"Class-IL {class_il:.2f} %  Task-IL {task_il:.2f} %"
                say(self.console, f"after task {event.task + 1}: {text}")

    def line(self, event: StepEnd | ChunkEnd) -> Line:
        """The bar after an event. While a task is tested, its place counts images."""
        rate, left = self._pace()
        if isinstance(event, StepEnd):
            place, notes = self.run.place(event.cursor), spelled(event.losses)
        else:
            place, notes = self.run.place(), []
            rate = (self._counts()[1] - self._first[1]) / max(self._seconds[1], 1e-9)
        notes = [*notes, f"{rate:.0f} images/s"]
        return Line(self._share(), f"{clock(left)} left", place, notes)

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


def cost_of_testing(work: Sequence[Workload]) -> list[str]:
    """A line on what testing costs, if it passes more images through the net than training."""
    trained, tested = sum(w.trained() for w in work), sum(w.tested() for w in work)
    if tested <= trained:
        return []
    share = tested / (tested + TRAINED * trained)
    return [
        f"Testing passes {tested} images through the net, training {trained}: up to {share:.0%} "
        "of the time. --test-per-class N tests on fewer."
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
    amount: Any = bars.DownloadColumn() if bytes_ else bars.MofNCompleteColumn()
    console = Console(stderr=True)
    columns = ("{task.description}", bars.BarColumn(), amount, bars.TimeRemainingColumn())
    drawn = console.is_terminal and not quiet
    bar = bars.Progress(*columns, console=console)
    task = bar.add_task(what, total=None)

    def report(done: int, total: int) -> None:
        if drawn:
            bar.start()
            bar.update(task, completed=done, total=total)

    try:
        yield report
    finally:
        if drawn:  # before rich 14.3, one that was never drawn would end with an empty line
            bar.stop()
