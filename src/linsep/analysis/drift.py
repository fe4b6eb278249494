"""How linear the drift is: what an affine map from old to new features misses, layer by layer.

BFP asks that old features stay a linear function of new ones; `+transport` carries class statistics
by a linear function from old to new. Both are as good as the drift between two networks is linear,
above all on classes that are no longer seen. For each task, a map is fitted to the task's training
images, as `+transport` does it, and judged on test images by the share of the new features'
variance that it misses:

    E |z' - (z W + b)|^2 / E |z' - E z'|^2

on the task's own classes, on earlier classes, and, as the least that any affine map could miss
there, on earlier classes with a map that is fitted to their own training images.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ..learning.learner import Learner
from ..learning.statistics import Affine, Linear
from ..nets.net import pooled
from .analyse import Analysis, Content, Row
from .features import CHUNK, Features, Split

RIDGE = 0.3  # as `+transport` has it by default
COLUMNS = {
    "own": "task's own classes", "old": "earlier classes", "least": "earlier classes, own map",
    "still": "earlier classes, no map",
}  # fmt: skip
Pairs = dict[str, Linear]  # by layer


def missed(images: Linear, through: Affine) -> float:
    """The share of the new features' variance that a map misses on these images."""
    d = images.pairs.features
    mean, covariance = images.pairs.moments()
    misses = torch.cat([-through.weight, torch.eye(d, dtype=torch.float64)])  # (2 d, d)
    spread = (misses.T @ covariance @ misses).trace()
    away = (mean[d:] - through(mean[:d])).square().sum()
    whole = covariance[d:, d:].trace()
    return float((spread + away) / whole) if whole > 0 else 0.0


# --- of a run ------------------------------------------------------------------------------------


def make(run: Features) -> Content:
    """What maps from the features before a task to those after it miss, for every task but one."""
    tasks = []
    for before, after in run.pairs:
        run.say(f"drift over task {after.task + 1}")
        past = copy.deepcopy(run.at(before).eval_net.backbone)
        learner = run.at(after)
        own, old = (
            [seen(run, learner, past, split, first, end) for split in ("train", "test")]
            for first, end in ((after.task, after.task + 1), (0, after.task))
        )
        tasks.append({"task": after.task, "layers": [_layer(n, own, old) for n in own[0]]})
    return {"tasks": tasks}


def _layer(name: str, own: list[Pairs], old: list[Pairs]) -> Content:
    through, best = own[0][name].map(), old[0][name].map()
    d = len(through.bias)
    eye, zero = torch.eye(d, dtype=torch.float64), torch.zeros(d, dtype=torch.float64)
    return {
        "layer": name,
        "own": missed(own[1][name], through),
        "old": missed(old[1][name], through),
        "least": missed(old[1][name], best),
        "still": missed(old[1][name], Affine(eye, zero, 0 * eye)),
    }


@torch.no_grad()
def seen(
    run: Features, learner: Learner, past: nn.Module, split: Split, first: int, end: int
) -> Pairs:
    """Sums over images of some tasks of every layer's outputs in both networks."""
    found: Pairs = {}
    past.eval()
    learner.eval_net.eval()
    for images in run.images(split, first, end).chunks(CHUNK):
        x = learner.inputs(images)
        old, new = (_layers(net(x)) for net in (past, learner.eval_net.backbone))
        for name, z in new.items():
            drift = found.setdefault(name, Linear(z.shape[1], RIDGE, 0.0))
            drift.add(old[name], z, torch.ones(len(z), dtype=torch.float64))
    return found


def _layers(outputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Pooled, once each: the last block and the features are mostly the same."""
    flat = {name: pooled(z).float().cpu() for name, z in outputs.items()}
    last = flat.pop("features")
    same = [n for n, z in flat.items() if z.shape == last.shape and torch.equal(z, last)]
    return {n: z for n, z in flat.items() if n not in same} | {"features": last}


def rows(content: Content) -> Iterator[Row]:
    for task in content["tasks"]:
        for layer in task["layers"]:
            numbers = {shown: 100 * layer[name] for name, shown in COLUMNS.items()}
            yield (task["task"] + 1, layer["layer"]), numbers


TITLE = "drift of features over a task: % of their variance that a linear map misses"
SHAPE = {"tasks": [{"task": int, "layers": [{"layer": str, **dict.fromkeys(COLUMNS, float)}]}]}
ANALYSIS = Analysis(make, SHAPE, TITLE, ("task", "layer"), rows, Features.no_pairs)
