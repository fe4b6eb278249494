"""Tiny finished runs to analyse."""

from pathlib import Path
from typing import Any

from linsep.settings.sections import Keep
from tests.helpers.real_runs import alone

PROTOCOLS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 6, "train": 30, "test": 20},
    "net": {"name": "cnn", "width": 8},
    "memory": 24,
    "training": {"epochs": 2, "batch_size": 10},
}
T = 3  # tasks


def trained(runs: Path, method: str, seed: int = 0, keep: Keep | None = None) -> Path:
    """A finished run's folder."""
    return alone(PROTOCOLS | {"method": method, "seed": seed}, runs, keep)
