"""The door that every untrusted file is read through: whatever goes wrong inside becomes one line.

Knows errors. Knows nothing of formats.
"""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import DataError, LinsepError


@contextmanager
def reading(
    place: object, problem: str = "cannot be read", only: type[Exception] = Exception
) -> Iterator[None]:
    """Report any error inside as a DataError that names the file; our own pass through.

    Parsers raise nearly everything on a broken file, a KeyError as well as a RecursionError.
    """
    try:
        if isinstance(place, Path) and place.exists():
            mode = place.stat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a pipe would be waited for
                raise DataError(f"{place} {problem}: it is neither a file nor a folder")
        yield
    except LinsepError:
        raise
    except only as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, OSError) and error.filename and error.strerror:
            place, reason = error.filename, error.strerror
        raise DataError(f"{place} {problem}: {reason}") from error
