"""Tiny runs whose results are on record, and how they are observed; see tests/test_record.py."""

from functools import cache
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

import linsep
from linsep.methods import METHODS
from linsep.prepare import Prepared, prepare
from linsep.testing import BACKWARD

from .combinations import STILL

TINY: dict[str, Any] = {
    "scenario": {"name": "fashion-mini", "per_class": 8, "test_per_class": 4},
    "net": {"name": "cnn", "width": 8},  # with BatchNorm
    "training": {"epochs": 2, "batch_size": 8},
    "compute": {"device": "cpu", "threads": 1},
}
MEMORYLESS = ("ft", "jt", "lwf", "ewc", "si")
FEW = {"derpp": BACKWARD, "icarl": ("fd",)}  # terms that are like BFP, where their steps differ
SHORT: dict[str, dict[str, Any]] = {"bic": {"bias_epochs": 20}, "gdumb": {"epochs": 5}}


def _settings(method: str, seed: int, **more: Any) -> dict[str, Any]:
    base = method.partition("+")[0]
    memory = {} if base in MEMORYLESS else {"memory": {"size": 20} | more.pop("memory", {})}
    options = {k: v for k, v in SHORT.items() if k == base}
    return {"method": method, "seed": seed, "options": options, **TINY, **memory, **more}


def _cases() -> dict[str, dict[str, Any]]:
    cases = {}
    for base in (name for name in METHODS if name not in STILL):
        for method in (base, f"{base}+bfp", *(f"{base}+{term}" for term in FEW.get(base, ()))):
            cases[f"{method}/0"] = _settings(method, 0)
    for method in ("er", "derpp+bfp"):
        cases[f"{method}/1"] = _settings(method, 1)
    for preset in ("paper", "authors"):
        for method in ("er+bfp", "derpp+bfp", "derpp+fd", "fdr", "icarl", "lucir", "bic"):
            cases[f"{method}/{preset}"] = _settings(method, 0, preset=preset)
    one_draw, quiet = {"replay_batches": "shared"}, TINY["training"] | {"bn_updates": "stream"}
    cases["derpp+bfp/shared draw"] = _settings("derpp+bfp", 0, memory=one_draw)
    cases["derpp+bfp/quiet draws"] = _settings("derpp+bfp", 0, training=quiet)
    layers = {"options": {"bfp": {"layers": ["block2", "features"]}}}
    cases["er+bfp/two layers"] = _settings("er+bfp", 0) | layers
    return cases


CASES = _cases()
_OPENED: dict[str, Any] = {}


def prepared(name: str) -> Prepared:
    return prepare(linsep.Config.model_validate(CASES[name]), opened=_OPENED)


@cache
def observed(name: str) -> dict[str, Any]:
    """The run's accuracies, and digests of its losses and final weights."""
    torch.set_num_threads(1)
    run, losses = prepared(name).build(), blake2b(digest_size=8)
    for event in run:
        if isinstance(event, linsep.StepEnd):
            for term, loss in sorted(event.losses.items()):
                losses.update(term.encode() + _bytes(loss))
    weights = blake2b(digest_size=8)
    for part, value in run.learner.net.state_dict().items():
        weights.update(part.encode() + _bytes(value))
    return {
        "class_il": _rows(run.class_il),
        "task_il": _rows(run.task_il),
        "losses": losses.hexdigest(),
        "weights": weights.hexdigest(),
    }


def calibration() -> str:
    """The rounding of this machine's kernels: bits are comparable only where it is the same."""
    generator = torch.Generator().manual_seed(0)
    torch.set_num_threads(1)
    x = torch.randn(8, 8, 14, 14, generator=generator)
    w = torch.randn(16, 8, 3, 3, generator=generator)
    y = torch.nn.functional.conv2d(x, w, stride=2, padding=1).relu()
    z = y.mean((2, 3)) @ torch.randn(16, 10, generator=generator)
    return blake2b(_bytes(z.log_softmax(1)) + torch.__version__.encode(), digest_size=8).hexdigest()


def _rows(matrix: Tensor) -> list[list[float]]:
    return [[v for v in row if v == v] for row in matrix.tolist()]


def _bytes(value: Tensor) -> bytes:
    return value.detach().cpu().contiguous().numpy().tobytes()
