"""CPU time and memory of the analyses of a finished run.

The run is a given one, or trained here on generated images that are hard to tell apart, so that
probes have work to do. Neither training nor extracting the features is timed.
"""

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import linsep
from linsep.analysis import ANALYSES
from linsep.analysis.analyse import find, lacking
from linsep.analysis.features import Features, reopen
from linsep.storage.resumable import threads

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


def trained(runs: Path, train: int = 5000, test: int = 1000, width: int = 512) -> Features:
    """Five tasks of two classes with `train` and `test` images of each, and `width` features."""
    settings = {
        "scenario": {
            "name": "blobs", "classes": 10, "train": train, "test": test, "image_size": 16,
            "noise": 1.5,
        },
        "net": {"name": "mlp", "width": width},
        "method": "derpp+bfp",
        "memory": 500,
        "training": {"epochs": 1, "batch_size": 128, "lr": 0.03},
        "compute": {"device": "cpu"},
    }  # fmt: skip
    folder = linsep.train(settings, runs=runs, keep="tasks").folder
    return Features(folder, reopen(folder))


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
