"""The command line: `linsep run`, `grid`, `search`, `runs`, `compare`, `report`, `list`, `show` ...

This module imports nothing heavy, so that Ctrl-C is answered from the first moment; the commands
are in `commands`. Whatever a user can mend is one line on standard error and exit code 2.
"""

import io
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

from ..custom import blamed
from ..errors import LinsepError, out_of_memory, printable
from ..optional import EXTRAS
from .terminal import INTERRUPTED, Spinner

if TYPE_CHECKING:
    from .commands import app as app

LONGEST = 500  # characters of an error or a warning; what was typed or read may be longer
COMPLETING = "_LINSEP_COMPLETE"  # set by the shell's completion
QUIET = {"--help", "--quiet", "-q", "--version", "--show-completion", "--install-completion"}


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'linsep.cli' has no attribute {name!r}")
    from .commands import app

    return app


def main() -> None:
    debug = "--debug" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--debug"]
    warnings.showwarning = _warn
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file's name need not be UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")
    words, completing = sys.argv[1:], COMPLETING in os.environ
    if completing:  # nothing may stand between the words
        warnings.simplefilter("ignore")
    awaited = bool(words) and not completing and not QUIET.intersection(words)
    try:
        with Spinner("starting", awaited):
            from .commands import app

            app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        line = explained(error)
        if debug or line is None:
            raise
        _write("error", line)
        sys.exit(2)


def explained(error: Exception) -> str | None:
    """Return the message for the user, or None if the error is a bug in linsep."""
    if isinstance(error, LinsepError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        if package in EXTRAS:
            return f"{package} is not installed: pip install 'linsep[{EXTRAS[package]}]'"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if line := blamed(error):
        return f"{line} (--debug shows the traceback)"
    if out_of_memory(error):
        return "out of memory; try a smaller net, memory, batch or data set"
    return None


def _warn(message: Warning | str, *where: object, **also: object) -> None:
    _write("warning", str(message))


def _write(kind: str, text: str) -> None:
    line = printable(text)
    sys.stderr.write(f"{kind}: {line[:LONGEST]}{'...' * (len(line) > LONGEST)}\n")
