"""The command line, called in this process: torch is imported already."""

import contextlib
import io
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from linsep.cli import main

TINY = (
    "run", "--scenario", "blobs", "--method", "derpp+bfp", "--memory", "20", "--epochs", "1",
    "--set", "scenario.train=10", "--set", "scenario.test=5",
)  # fmt: skip


class Said(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def command(*words: str, cwd: Path) -> Said:
    out, err = io.StringIO(), io.StringIO()
    before, code = (sys.argv, warnings.showwarning), 0
    sys.argv = ["linsep", *words]
    try:
        with contextlib.chdir(cwd), redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv, warnings.showwarning = before
    return Said(code, out.getvalue(), err.getvalue())
