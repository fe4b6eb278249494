"""The ways in which a value, a field or a file can be bad.

Values are kept as text, so that what no Python object can express is among them: numbers of 5 000
digits, lists nested deeper than a parser follows.
"""

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

DEEP = "[" * 3000 + "]" * 3000
MARK = "@bad@"  # stands for a value until the file is written
JSON = {
    "null": "null", "true": "true", "negative": "-1", "huge": "9" * 400, "digits": "9" * 5000,
    "NaN": "NaN", "inf": "-1e999", "largest": "1e308", "fraction": "1.5", "text": '"1"',
    "control": '"a\\u001b[31m\\nb"', "surrogate": '"\\udcff"', "long": f'"{"x" * 20_000}"',
    "empty text": '""', "list": "[]", "table": "{}", "lists": "[[null]]", "deep": DEEP,
}  # fmt: skip
TOML = {
    "true": "true", "negative": "-1", "huge": "9" * 400, "digits": "9" * 5000, "nan": "nan",
    "inf": "-inf", "fraction": "1.5", "text": '"1"', "control": '"a\\u001b[31m\\nb"',
    "long": f'"{"x" * 20_000}"', "empty text": '""', "list": "[]", "table": "{}",
    "lists": '[["a", 1]]', "deep": DEEP, "date": "1979-05-27", "hex": f"0x{'f' * 4000}",
    "not TOML": "=", "wide": "9223372036854775808",
}  # fmt: skip
CONTENTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: b"",
    "half": lambda whole: whole[: len(whole) // 2],
    "cut": lambda whole: whole[:-3],
    "not UTF-8": lambda whole: b"\xff\xfe" + whole,
    "latin": lambda whole: whole.replace(b"e", b"\xe9"),
    "zeros": lambda whole: bytes(len(whole)),
    "control": lambda whole: whole.replace(b'"', b'"\x1b[31m\x07'),
    "UTF-16": lambda whole: whole.decode("latin-1").encode("utf-16"),
    "twice": lambda whole: whole + whole,
    "deep": lambda whole: b"[" * 100_000,
    "deep tables": lambda whole: b'{"a":' * 100_000,
    "carriage returns": lambda whole: whole.replace(b"\n", b"\r"),
    "other text": lambda whole: b"hello\n",
    "flipped": lambda whole: whole[:5] + bytes([whole[5] ^ 64]) + whole[6:],
    "null": lambda whole: b"null\n",
    "list": lambda whole: b"[]\n",
    "table": lambda whole: b"{}\n",
}


def _folder(path: Path) -> None:
    path.mkdir()


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(65 * 2**20)  # a hole: takes no space


PLACES: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "folder": _folder,
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to a device": lambda path: path.symlink_to("/dev/null"),
    "pipe": lambda path: os.mkfifo(path),
    "huge": _huge,
}


def fields(tree: Any, most: int = 2) -> Iterator[tuple[str | int, ...]]:
    """The places of all values in nested tables and lists; of a list, those of the first few."""
    yield ()
    if isinstance(tree, dict | list | tuple):
        for key in tree if isinstance(tree, dict) else range(min(len(tree), most)):
            yield from ((key, *inner) for inner in fields(tree[key], most))


def changed(tree: Any, place: tuple[str | int, ...], value: Any = MARK) -> Any:
    """A copy with another value at a place."""
    if not place:
        return value
    first, *rest = place
    inner = changed(tree[first], tuple(rest), value)
    if isinstance(tree, dict):
        return {key: inner if key == first else old for key, old in tree.items()}
    return type(tree)(inner if i == first else old for i, old in enumerate(tree))


def without(tree: Any, place: tuple[str | int, ...]) -> Any:
    """A copy that lacks a value."""
    *above, last = place
    holder = tree
    for key in above:
        holder = holder[key]
    if isinstance(holder, dict):
        left: Any = {key: value for key, value in holder.items() if key != last}
    else:
        left = type(holder)(value for i, value in enumerate(holder) if i != last)
    return changed(tree, tuple(above), left)


@contextmanager
def unreadable(place: Path) -> Iterator[None]:
    """Permission to read a file, or a folder and what is in it, is denied, to root as well."""

    stat = os.stat  # a file that must not be read can be looked at, unlike one in such a folder

    def denying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *rest: Any, **named: Any) -> Any:
            if isinstance(path, str | bytes | os.PathLike):
                whole = Path(os.path.abspath(os.fsdecode(path)))
                if place in whole.parents or (whole == place and real is not stat):
                    raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return real(path, *rest, **named)

        return call

    doors = ((builtins, "open"), (io, "open"), *((os, n) for n in ("open", "listdir", "scandir")))
    with ExitStack() as stack:
        for module, name in (*doors, (os, "stat")):
            stack.enter_context(mock.patch.object(module, name, denying(getattr(module, name))))
        yield
