"""Run folders made by hand, as the library writes them, for tests that need many."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from linsep.settings.layers import merged

CONFIG: dict[str, Any] = {
    "scenario": {"name": "split-cifar10", "order": "natural", "options": {"flip": True}},
    "net": {"name": "resnet18", "options": {"width": 8}},
    "training": {"epochs": 2, "lr": 0.03, "schedule": {"milestones": [1]}},
    "memory": {"size": 200},
    "compute": {"device": "cpu", "threads": 1},
}


def make_run(
    runs: Path,
    method: str = "er",
    seed: int = 0,
    faa: float | None = None,
    *,
    metrics: Mapping[str, Mapping[str, float | None]] | None = None,
    settings: Mapping[str, Any] | None = None,
    label: str = "",
) -> Path:
    """A finished run, or one that is not: without `faa` and `metrics`."""
    config = merged(CONFIG, {"method": method, "seed": seed}, settings or {})
    folder = runs / f"{method}-{config['memory']['size']}-s{seed}{label}"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
    if metrics is None and faa is not None:
        one = {"faa": faa, "ff": 100 - faa, "ala": faa / 2}
        metrics = {"class_il": one, "task_il": one}
    if metrics is not None:
        key = label[1:] if re.fullmatch("-[0-9a-f]{10}", label) else folder.name
        results = {
            "key": key, "data": "d", "scenario": config["scenario"]["name"],
            "method": method, "memory": config["memory"]["size"], "seed": config["seed"],
            "metrics": metrics,
        }  # fmt: skip
        (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")
    return folder


def spend(folder: Path, compute: float, epochs: int = 1, **more: Any) -> None:
    """Give a run a cost: so many compute in every epoch, each 3000 images for fine-tuning."""
    step = dict.fromkeys(("forward", "backward", "frozen"), 1.0)
    cost = {"compute": compute, "images": compute * epochs * 3000, "bytes": 100, "parameters": 5}
    whole = cost | {"step": step, "run": step, "kept": {"images": 100}} | more
    (folder / "cost.json").write_text(json.dumps(whole), encoding="utf-8")
