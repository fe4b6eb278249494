"""Run folders with everything a report can show, made by hand from random numbers, no training."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from linsep.storage import files, manifest
from tests.helpers.made_runs import make_run

HOSTILE = """<script>alert(1)</script>]]>"'&$x$ id="a" url(#b) #000000"""
ANALYSES = ("spectrum", "cka", "probe", "tsne", "projection", "drift", "transfer")
ADDONS = {"er": ("ce", "replay_ce"), "derpp": ("ce", "replay_logits", "replay_ce")}
DIM = 64  # of the made-up features


def make_full_run(
    runs: Path,
    method: str = "er",
    seed: int = 0,
    *,
    tasks: int = 5,
    classes: int = 10,
    names: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    label: str = "",
    parts: Sequence[str] = ("confusion", "events", "timing", "environment", "memory", *ANALYSES),
) -> Path:
    """A finished run; `parts` says what there is beside results with matrices."""
    rng = np.random.default_rng([seed, len(method), tasks, *label.encode()])
    groups = np.arange(classes).reshape(tasks, -1).tolist()
    matrices = {protocol: _matrix(rng, tasks, method) for protocol in ("class_il", "task_il")}
    metrics = {protocol: _metrics(matrix) for protocol, matrix in matrices.items()}
    folder = make_run(runs, method, seed, metrics=metrics, settings=settings, label=label)
    results = json.loads((folder / "results.json").read_text())
    results |= {
        "name": folder.name,
        "method": method,
        "seed": seed,
        "classes": list(names or (f"class {c}" for c in range(classes))),
        "groups": groups,
        "matrices": {name: _plain(matrix) for name, matrix in matrices.items()},
        "audit": [],
    }
    if "confusion" in parts:
        rates = 0.3 + 60 * np.eye(classes) + 5 * np.eye(classes, k=1)
        results["confusion"] = rng.poisson(rates).tolist()
    (folder / "results.json").write_text(json.dumps(results))
    made: dict[str, Callable[[], object]] = {
        "events": lambda: _write_lines(folder / "events.jsonl", _events(rng, method, tasks)),
        "timing": lambda: _write_lines(folder / "timing.jsonl", _timing(rng, tasks)),
        "environment": lambda: (folder / "manifest.json").write_bytes(
            manifest.new(environments=[ENVIRONMENT]).to_bytes()
        ),
        "memory": lambda: _write_memory(folder, rng, classes),
    }
    for part in parts:
        if part in made:
            made[part]()
        elif part in ANALYSES and (part != "projection" or "+" in method):
            content = {"what": part} | _analysis(part, rng, groups)
            (folder / "analysis").mkdir(exist_ok=True)
            (folder / "analysis" / f"{part}.json").write_text(json.dumps(content))
    return folder


ENVIRONMENT = {
    "linsep": "0.1.0", "python": "3.12.1", "torch": "2.13.0+cpu", "numpy": "2.4.6",
    "system": "Linux 6", "cpu": "a processor", "cores": 8, "threads": 1, "device": "cpu",
    "git": {"commit": "0123456789abcdef", "changed": True}, "command": ["linsep", "run"],
}  # fmt: skip


def _matrix(rng: np.random.Generator, tasks: int, method: str) -> np.ndarray:
    found = np.tril(rng.uniform(0.2, 1.0, (tasks, tasks)))
    found[~np.tril(np.ones((tasks, tasks), bool))] = np.nan
    if method == "jt":
        found[:-1] = np.nan
    return found


def _metrics(matrix: np.ndarray) -> dict[str, float | None]:
    """By the definitions in docs/metrics.md, written out."""
    tasks, last = len(matrix), matrix[-1]
    faa = 100 * float(last.mean())
    if np.isnan(matrix[0, 0]):
        return {"faa": faa, "ff": None, "ala": None, "mean_peak": None}
    peaks = [max(matrix[j, i] for j in range(i, tasks - 1)) for i in range(tasks - 1)]
    falls = [peak - last[i] for i, peak in enumerate(peaks)]
    return {
        "faa": faa,
        "ff": 100 * float(np.mean(falls)),
        "ala": 100 * float(np.mean(np.diag(matrix))),
        "mean_peak": 100 * float(np.mean([*peaks, last[-1]])),
    }


def _plain(matrix: np.ndarray) -> list[list[float | None]]:
    return [[None if np.isnan(v) else float(v) for v in row] for row in matrix]


def _events(rng: np.random.Generator, method: str, tasks: int) -> list[dict[str, Any]]:
    base, *extra = method.split("+")
    terms = [*ADDONS.get(base, ("ce",)), *extra]
    return [
        {"event": "epoch_end", "task": task, "stage": "train", "epoch": epoch, "steps": 9,
         "losses": {term: float(rng.uniform(0.1, 2)) for term in terms}}
        for task in range(tasks)
        for epoch in range(4)
    ]  # fmt: skip


def _timing(rng: np.random.Generator, tasks: int) -> list[dict[str, Any]]:
    return [
        {"event": "epoch_end", "task": t, "seconds": float(rng.uniform(1, 2)), "images": 1000}
        for t in range(tasks)
    ]


def _write_lines(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def _write_memory(folder: Path, rng: np.random.Generator, classes: int) -> None:
    rough = rng.integers(0, 256, (200, 3, 8, 8), dtype=np.uint8)  # as smooth as pictures are
    x = torch.from_numpy(rough.repeat(4, axis=2).repeat(4, axis=3))
    y = torch.arange(200) % classes
    tensors = {"labels": y, "pictured": y[:32], "images": x[:32]}
    (folder / "memory.safetensors").write_bytes(files.tensor_bytes(tensors))


def _shares(rng: np.random.Generator, n: int) -> list[float]:
    return [float(v) for v in rng.uniform(0.1, 1.0, n)]


def _analysis(what: str, rng: np.random.Generator, groups: list[list[int]]) -> dict[str, Any]:
    tasks = len(groups)
    match what:
        case "spectrum":
            values = [sorted(_shares(rng, DIM), reverse=True) for _ in range(tasks)]
            return {
                "tasks": [
                    {"task": t, "classes": 2, "rows": 9, "values": values[t], "effective_rank": 3.0,
                     "proj_acc": {n: sorted(_shares(rng, DIM + 1)) for n in ("seen", "newest")}}
                    for t in range(tasks)
                ]
            }  # fmt: skip
        case "cka":
            kinds = ("centred", "debiased", "printed")
            made = [{k: float(rng.uniform()) for k in kinds} for _ in range(2 * tasks)]
            return {
                "tasks": [{"task": t, "seen": made[2 * t], "unseen": made[2 * t + 1]}
                          for t in range(1, tasks)]
            }  # fmt: skip
        case "probe":
            portions = [0.01, 0.1, 0.1, 1.0]
            return {
                "final": [{"portion": p, "accuracy": a, "tasks": []}
                          for p, a in zip(portions, _shares(rng, 4), strict=True)],
                "head": 0.5,
                "rounds": [{"task": t, "probe": _shares(rng, t + 1), "head": _shares(rng, t + 1)}
                           for t in range(tasks)],
            }  # fmt: skip
        case "tsne":
            labels = [
                c
                for group in groups[:2]
                for c in group
                for _ in range(1000 // (2 * len(groups[0])))
            ]
            points = [np.round(rng.normal(0, 9, (len(labels), 2)), 3).tolist() for _ in range(2)]
            return {"task": 1, "engine": "pca", "labels": labels, "new": groups[1],
                    "before": points[0], "after": points[1]}  # fmt: skip
        case "drift":
            parts = ("own", "old", "least", "still")
            return {
                "tasks": [
                    {"task": t, "layers": [
                        {"layer": n, **dict(zip(parts, _shares(rng, 4), strict=True))}
                        for n in ("block1", "features")
                    ]}
                    for t in range(1, tasks)
                ]
            }  # fmt: skip
        case "transfer":
            probed = ("transfer", "before", "after", "random")
            return {
                "tasks": [{"task": t, **dict(zip(probed, _shares(rng, 4), strict=True))}
                          for t in range(1, tasks)]
            }  # fmt: skip
        case _:
            names = (
                "to_identity", "to_orthogonal", "accuracy", "accuracy_before", "agreement",
                "residual", "effective_rank",
            )  # fmt: skip
            return {
                "places": [
                    {"term": "bfp", "task": t, "stage": None if e is None else "train", "epoch": e,
                     "singular_values": sorted(_shares(rng, DIM), reverse=True),
                     **dict(zip(names, _shares(rng, 7), strict=True))}
                    for t in range(1, tasks)
                    for e in (0, 1, None)
                ]
            }  # fmt: skip


def hostile_run(runs: Path) -> None:
    """Whatever a user can name has an evil name."""
    names = [f"{HOSTILE} {c}" for c in range(10)]
    folder = make_full_run(runs, "er+bfp", names=names, settings={"scenario": {"name": HOSTILE}})
    config = folder / "config.toml"
    config.write_text(config.read_text().replace('"er+bfp"', json.dumps(HOSTILE)))
    for name in ("events.jsonl", "analysis/projection.json"):
        text = (folder / name).read_text()
        (folder / name).write_text(text.replace('"bfp"', json.dumps(HOSTILE)))
