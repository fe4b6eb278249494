"""Tiny finished runs to analyse."""

from pathlib import Path
from typing import Any

from linsep.prepare import prepare
from linsep.settings.config import from_settings
from linsep.settings.sections import Keep
from linsep.storage.session import Session

SETTINGS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 6, "train": 30, "test": 20},
    "net": {"name": "cnn", "width": 8},
    "memory": 24,
    "training": {"epochs": 2, "batch_size": 10},
}
T = 3  # tasks


def trained(runs: Path, method: str, seed: int = 0, keep: Keep | None = None) -> Path:
    """A finished run's folder."""
    prepared = prepare(from_settings(SETTINGS | {"method": method, "seed": seed}), lenient=True)
    with Session(prepared, runs, keep=keep) as session:
        for _ in session:
            pass
    return session.folder
