"""Terminal output, and stopping on Ctrl-C or SIGTERM.

Knows signals and the console. Knows nothing of runs.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..errors import printable

if TYPE_CHECKING:
    from rich.console import Console

FAILED, INTERRUPTED, TERMINATED = 1, 130, 143  # exit codes


class Stop:
    """Notes Ctrl-C and SIGTERM instead of stopping at once; a second Ctrl-C stops at once."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.signal: int | None = None
        self._then = then
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        self._then()


def open_console(quiet: bool = False) -> Console:
    """Standard output; a quiet one prints nothing."""
    from rich.console import Console

    return Console(quiet=quiet)


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print a line as it is: no markup, no wrapping, no control characters."""
    console.print(printable(text), style=style, highlight=False, soft_wrap=True, markup=False)
