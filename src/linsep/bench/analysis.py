"""What the analyses of a finished run cost, beyond extracting its features.

Trains a run on made-up images, hard ones, so that probes have work to do; or takes a run that is
there. Neither training nor extraction is timed. Prints nothing and judges nothing; the caller
compares with the limits.
"""

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..analysis import ANALYSES
from ..analysis.analyse import lacking
from ..analysis.features import Features
from ..analysis.kinds import find
from ..prepare import Prepared, prepare
from ..settings.config import from_settings
from ..storage.environment import threads
from ..storage.session import Session

CPU_SECONDS = 60.0  # limits, at the default sizes
PEAK_MIB = 2048.0


@dataclass
class AnalysisCost:
    """CPU seconds by analysis, and the process's peak memory, training and features included."""

    seconds: dict[str, float] = field(default_factory=dict)
    peak_mib: float = 0.0

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())


def made_up(train: int, test: int, width: int) -> Prepared:
    """Five tasks of two classes with `train` and `test` images of each, and `width` features."""
    settings = {
        "scenario": {
            "name": "blobs", "classes": 10, "train": train, "test": test, "size": 16, "noise": 1.5,
        },
        "net": {"name": "mlp", "width": width},
        "method": "derpp+bfp",
        "memory": 500,
        "training": {"epochs": 1, "batch_size": 128, "lr": 0.03},
        "compute": {"device": "cpu"},
    }  # fmt: skip
    return prepare(from_settings(settings))


def trained(prepared: Prepared, runs: Path) -> Features:
    with Session(prepared, runs, keep="tasks") as session:
        for _ in session:
            pass
    return Features(session.folder, prepared)


def measure(run: Features, say: Callable[[str], None]) -> AnalysisCost:
    """Each analysis that `linsep analyse` would do, once, on one thread."""
    cost = AnalysisCost()
    for at in run.ends:
        say(f"features, {at.name}")
        run.matrix(at, "train")
        run.matrix(at, "test")
    with threads(1):
        for name in ANALYSES:
            if lacking(run, name):
                continue
            say(name)
            start = time.process_time()
            find(name).make(run)
            cost.seconds[name] = time.process_time() - start
    unit = 2**20 if sys.platform == "darwin" else 2**10
    cost.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return cost
