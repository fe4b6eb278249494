"""Errors that the user can fix. The command line prints one line and exits with 2.

    LinsepError
    ├── ConfigError      a name, field or value that is not allowed
    ├── DataError        images, labels or files that are not what they should be
    ├── DeviceError      an accelerator that was asked for and is not there
    ├── StateError       a run folder that cannot be read or written
    │   └── HeldError    ... or that another process is working on
    └── DivergedError    a loss that became NaN or infinite

A message states what was wrong, where, and what would be right.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class LinsepError(Exception):
    """The base class of every error that the library raises on purpose.

    >>> import linsep
    >>> try:
    ...     linsep.Config(method="er", seed=-1)
    ... except linsep.LinsepError as error:
    ...     print(error)
    seed: should be greater than or equal to 0, not -1
    """


class ConfigError(LinsepError):
    pass


class DataError(LinsepError):
    pass


class DeviceError(LinsepError):
    pass


class StateError(LinsepError):
    pass


class HeldError(StateError):
    pass


class DivergedError(LinsepError):
    pass


def out_of_memory(error: BaseException) -> bool:
    """Return whether the machine or an accelerator ran out of memory."""
    text = str(error)  # torch raises a RuntimeError on a CPU, and a class of its own on a GPU
    lacking = "can't allocate memory" in text or "out of memory" in text
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and lacking)


def unknown(what: str, found: object, allowed: Iterable[str]) -> str:
    """'unknown method 'derp'; did you mean 'derpp'? (allowed: ...)'."""
    names = sorted(allowed)
    close = get_close_matches(str(found), names, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"unknown {what} {found!r}.{hint} Allowed: {', '.join(names) or 'none'}"


def shortened(value: object) -> str:
    """The value as Python writes it, cut to 60 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, perhaps inside
        text = f"a {type(value).__name__} too large to print"
    return text if len(text) <= 60 else f"{text[:57]}..."


def printable(text: str) -> str:
    """The text on one line, control characters and lone surrogates written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
