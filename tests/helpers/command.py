"""The command line, called in this process: torch is imported and the parser is built already."""

import contextlib
import functools
import io
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import typer.main

from linsep.cli import main

TINY = (
    "run", "--scenario", "blobs", "--method", "derpp+bfp", "--memory", "20", "--epochs", "1",
    "--set", "scenario.train=10", "--set", "scenario.test=5",
)  # fmt: skip
BUILT = functools.cache(typer.main.get_command)  # which takes longer than many a command


class Said(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def command(*words: str, cwd: Path) -> Said:
    out, err = io.StringIO(), io.StringIO()
    before, code = (sys.argv, warnings.showwarning), 0
    sys.argv = ["linsep", *words]
    try:
        with (
            mock.patch.object(typer.main, "get_command", BUILT),
            contextlib.chdir(cwd),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv, warnings.showwarning = before
    return Said(code, out.getvalue(), err.getvalue())
