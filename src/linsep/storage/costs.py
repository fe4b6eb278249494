"""Writes what a run cost: passes and bytes, as its meter has them, and its epochs' seconds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from . import files
from .folder import COST, RunFolder

if TYPE_CHECKING:
    from ..learning.run import Run
    from ..prepare import Prepared


def write(prepared: Prepared, run: Run, folder: RunFolder) -> None:
    found = run.meter.facts(run.scenario, prepared.data.scenario)
    seconds = _seconds(folder, accelerated=run.learner.device.type != "cpu")
    whole = found | ({} if seconds is None else {"seconds": seconds})
    files.write(folder.path / COST, json.dumps(whole, indent=1).encode() + b"\n")


def _seconds(folder: RunFolder, *, accelerated: bool) -> float | None:
    """The epochs' CPU time, or on an accelerator their time; None if it was not recorded."""
    lines = [line for line in folder.timing() if line["event"] == "epoch_end"]
    name = "seconds" if accelerated else "cpu"
    if not lines or any(name not in line for line in lines):
        return None
    return round(float(sum(line[name] for line in lines)), 3)
