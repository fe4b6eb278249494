"""Writes what a run cost: the declared passes and bytes, and the seconds that its epochs took.

Knows a prepared run and its timings. `session` calls it, and `folder` reads the file.
"""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import LinsepError
from ..learning.cost import cost_of
from . import files
from .folder import COST, RunFolder

if TYPE_CHECKING:
    from ..learning.run import Run
    from ..prepare import Prepared

TRAINING = ("epoch_end", "EpochEnd")  # lines of timings that are not about tests


def add(prepared: Prepared, folder: RunFolder) -> None:
    """Note the cost of a finished run that lacks it or has it damaged, if that can be done."""
    with suppress(LinsepError):  # a damaged one
        if folder.cost():
            return
    with suppress(LinsepError):  # a net that cannot be built here, a folder of others
        write(prepared, prepared.build(), folder)


def write(prepared: Prepared, run: Run, folder: RunFolder) -> None:
    try:
        found = cost_of(run.learner, run.scenario, prepared.data.scenario).facts()
    except Exception as error:  # noqa: BLE001 - a user's part; its results matter more
        warnings.warn(f"the cost of this run is not known: {error}", stacklevel=2)
        return
    seconds = _seconds(folder, accelerated=run.learner.device.type != "cpu")
    whole = found | ({} if seconds is None else {"seconds": seconds})
    files.write(folder.path / COST, json.dumps(whole, indent=1).encode() + b"\n")


def _seconds(folder: RunFolder, *, accelerated: bool) -> float | None:
    """The epochs' CPU time, or on an accelerator their time; None if it was not recorded."""
    lines = [line for line in folder.timing() if line["event"] in TRAINING]
    name = "seconds" if accelerated else "cpu"
    if not lines or any(name not in line for line in lines):
        return None
    return round(float(sum(line[name] for line in lines)), 3)
