"""Terminal output and tables, a sign of life until there are any, and stopping on Ctrl-C.

It is there before everything else, so it imports nothing heavy.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from ..errors import printable

if TYPE_CHECKING:
    from rich.console import Console

    from ..compare.tables import Table

FAILED, INTERRUPTED, TERMINATED = 1, 130, 143  # exit codes
FORMATS = ("terminal", "markdown", "csv", "latex", "json")

SHOWN_AFTER, TURN_EVERY = 0.2, 0.1  # seconds
TURNS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Spinner:
    """Turns on a terminal from the start of a command until the first thing is printed.

    Importing torch and opening data take seconds. Anything that is written to standard output or
    error in the meantime clears the spinner first, so no other code needs to know about it.
    """

    def __init__(self, text: str, shown: bool = True) -> None:
        self._text = text
        self._streams = sys.stdout, sys.stderr
        self._shown = shown and all(stream.isatty() for stream in self._streams)
        self._ended, self._lock = threading.Event(), threading.RLock()

    def __enter__(self) -> Spinner:
        if self._shown:
            sys.stdout, sys.stderr = (_Watched(s, self.stop) for s in self._streams)
            threading.Thread(target=self._turn, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        with self._lock:
            if not self._shown or self._ended.is_set():
                return
            self._ended.set()
            sys.stdout, sys.stderr = self._streams
            self._write("\r\x1b[K")

    def _turn(self) -> None:
        turns, wait = 0, SHOWN_AFTER
        while not self._ended.wait(wait):
            with self._lock:
                if not self._ended.is_set():
                    self._write(f"\r{TURNS[turns % len(TURNS)]} {self._text}\x1b[K")
            turns, wait = turns + 1, TURN_EVERY

    def _write(self, text: str) -> None:
        self._streams[1].write(text)
        self._streams[1].flush()


class _Watched:
    """A stream that reports that something is about to be written to it."""

    def __init__(self, stream: TextIO, first: Callable[[], None]) -> None:
        self._stream, self._first = stream, first

    def write(self, text: str) -> int:
        self._first()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


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


def wide_console() -> Console:
    """A console as wide as the terminal; where there is none, as wide as tables want to be."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=240)


def publish(
    tables: Sequence[Table],
    notes: Sequence[str] = (),
    format_: str = "terminal",
    output: Path | None = None,
    label: str = "",
) -> None:
    """Print tables or write them to a file, with the notes where the format has room for them.

    `label` is the first table's in LaTeX; the others have it with a number.
    """
    if format_ == "terminal" and output is None:
        from ..compare.tables import show

        console = wide_console()
        for table in tables:
            show(table, console)
        for note in notes:
            say(console, note, "dim")
        return
    text = _written(tables, notes, format_, label)
    if format_ == "csv":
        for note in notes:
            sys.stderr.write(f"{note}\n")
    write(text, output)


def write(text: str, output: Path | None) -> None:
    """Print a text, or write it to a file."""
    if output is None:
        sys.stdout.write(text)
        return
    from ..storage.files import reporting

    with reporting(f"cannot write {output}"):
        output.write_text(text, encoding="utf-8")
    say(open_console(), f"Written to {output}")


def _written(tables: Sequence[Table], notes: Sequence[str], format_: str, label: str) -> str:
    match format_:
        case "terminal":
            return "\n".join([*(t.to_text() for t in tables), *(f"{n}\n" for n in notes)])
        case "markdown":
            return "\n".join([*(t.to_markdown() for t in tables), *(f"- {n}\n" for n in notes)])
        case "latex":
            comments = "".join(f"% {' '.join(note.split())}\n" for note in notes)
            labels = [f"{label}-{n}" if n > 1 else label for n, _ in enumerate(tables, start=1)]
            drawn = zip(tables, labels if label else [""] * len(tables), strict=True)
            return comments + "\n".join(table.to_latex(name or "") for table, name in drawn)
        case "csv":
            return "".join(table.to_csv() for table in tables)
        case _:
            whole = json.loads(tables[0].to_json()) | {"notes": list(notes)} if tables else {}
            return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
