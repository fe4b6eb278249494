"""Small runs trained for real, straight through or stopped on the way."""

from pathlib import Path
from typing import Any

import linsep
from linsep.learning.run import StepEnd
from linsep.prepare import Prepared, prepare
from linsep.settings.config import from_settings
from linsep.settings.sections import Keep
from linsep.storage import manifest
from linsep.storage.session import Session

PROTOCOLS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 4, "train": 20, "test": 5},
    "method": "derpp+bfp",
    "memory": 8,
    "training": {"epochs": 2, "batch_size": 10},
}
DETERMINISTIC = (
    "config.toml",
    "events.jsonl",
    "model.safetensors",
    "results.json",
    "state.safetensors",
)


def prepared(**changes: Any) -> Prepared:
    return prepare(linsep.Config(**{**PROTOCOLS, **changes}))


def straight(runs: Path) -> Path:
    with Session(prepared(), runs) as session:
        for _ in session:
            pass
    return session.folder


def alone(settings: dict[str, Any], runs: Path, keep: Keep | None = None) -> Path:
    """The folder of a finished run with these settings."""
    with Session(prepare(from_settings(settings), lenient=True), runs, keep=keep) as session:
        for _ in session:
            pass
    return session.folder


def interrupted(runs: Path, steps: int) -> Path:
    """Stopped after so many steps, saved."""
    with Session(prepared(), runs) as session:
        for event in session:
            steps -= isinstance(event, StepEnd)
            if not steps:
                session.save()
                break
    return session.folder


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in DETERMINISTIC}


def model_contents(folder: Path) -> dict[str, Any]:
    """Every file of a classifier's folder, and of its previous states; of manifests, no dates."""
    names = manifest.read(folder).previous
    return _state(folder) | {"previous": [_state(folder / "previous" / name) for name in names]}


def _state(folder: Path) -> dict[str, Any]:
    told = manifest.read(folder).model_dump()
    for entry in told["classifier"]["history"]:
        del entry["when"]
    told["previous"] = len(told["previous"])  # digests of manifests with dates
    names = sorted(p.name for p in folder.iterdir() if p.is_file() and p.name[0] != ".")
    return {n: told if n == manifest.NAME else (folder / n).read_bytes() for n in names}
