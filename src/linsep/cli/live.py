"""Moving progress at any width: a line for one run, lines for many.

What matters comes first and is always there; the rest is shown as far as there is room. Knows
widths. Knows nothing of runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

WIDEST, NARROWEST = 24, 8  # characters of a bar
PLACE = len("task 5/5  testing 4000/4000")  # to be expected: lines should not jump meanwhile


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
