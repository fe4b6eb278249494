"""Features before and after a task on one plane, to look at (figure 1).

t-SNE comes from openTSNE or scikit-learn; `pca` is the plane of the first two principal components.
All matrices are embedded together, so their points share axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError
from .analyse import Analysis, Content, Row
from .features import Features, check_features
from .spectrum import spectrum

Engine = Literal["opentsne", "sklearn", "pca"]
PERPLEXITY = 30.0
COMPONENTS = 50  # t-SNE's neighbours are sought among this many principal components


@dataclass(frozen=True, eq=False)
class Embedding:
    points: tuple[Tensor, ...]  # one (n_i, 2) float32 per matrix, in the order given
    engine: Engine  # what made them


def best_engine() -> Engine:
    """openTSNE, which is faster, where it is installed."""
    return "opentsne" if find_spec("openTSNE") is not None else "sklearn"


def embed(matrices: Sequence[Tensor], *, engine: Engine, seed: int = 0) -> Embedding:
    """Points of all matrices (n_i, d) on the same axes; equal inputs and seed give equal points.

    The perplexity is lowered to a third of the rows when there are few, and two or three rows are
    shown by PCA.
    """
    for i, matrix in enumerate(matrices):
        check_features(matrix, f"features {i}")
    if engine not in get_args(Engine):
        raise ValueError(f"engine: want one of {get_args(Engine)}, got {engine!r}")
    z = torch.cat([m.detach().cpu().double() for m in matrices])  # (n, d)
    components = principal_components(z, max(2, min(COMPONENTS, *z.shape)))  # (n, <= 50)
    if engine == "pca" or len(z) < 4 or float(components.abs().max()) == 0:
        engine, plane = "pca", components[:, :2]
    else:
        fit = _open_tsne if engine == "opentsne" else _sklearn_tsne
        x = components.numpy()
        start = x[:, :2] / max(float(x[:, 0].std()), 1e-30) * 1e-4
        plane = torch.from_numpy(fit(x, start, min(PERPLEXITY, (len(z) - 1) / 3), seed))
    parts = torch.split(plane.float(), [len(m) for m in matrices])
    return Embedding(tuple(parts), engine)


def principal_components(z: Tensor, k: int) -> Tensor:
    """Coordinates along the k directions of largest variance, centred: (n, k) float64."""
    basis = spectrum(z, centred=True)
    along = (z.detach().cpu().double() - basis.centre) @ basis.directions[:, :k]
    return torch.nn.functional.pad(along, (0, k - along.shape[1]))  # a single feature has one


def _open_tsne(x: Any, start: Any, perplexity: float, seed: int) -> Any:
    tsne = import_module("openTSNE").TSNE(
        perplexity=perplexity, initialization=start, random_state=seed, n_jobs=1, neighbors="exact"
    )
    return np.asarray(tsne.fit(x))


def _sklearn_tsne(x: Any, start: Any, perplexity: float, seed: int) -> Any:
    with import_module("threadpoolctl").threadpool_limits(1):  # threads sum in any order
        tsne = import_module("sklearn.manifold").TSNE(
            perplexity=perplexity, init=start.astype(np.float32), random_state=seed
        )
        return tsne.fit_transform(x.astype(np.float32))


# --- of a run ------------------------------------------------------------------------------------


def make(
    run: Features, *, task: int = 1, points: int = 1000, engine: Engine | None = None, seed: int = 0
) -> Content:
    """Test images of the classes seen by the end of a task, before and after it; tasks from 0."""
    pairs = {after.task: (before, after) for before, after in run.pairs}
    if task not in pairs:
        known = ", ".join(str(t + 1) for t in pairs)
        raise ConfigError(f"--task: {task + 1} has no before and after here; one of {known}")
    y = run.labels("test")[: run.rows("test", 0, task + 1).stop]
    classes = y.unique().tolist()
    each = max(1, points // len(classes))
    rows = torch.cat([(y == c).nonzero()[:each, 0] for c in classes]).sort().values
    matrices = [run.matrix(s, "test")[rows] for s in pairs[task]]
    found = embed(matrices, engine=engine or best_engine(), seed=seed)
    before, after = ([[round(v, 3) for v in p] for p in side.tolist()] for side in found.points)
    return {
        "task": task,
        "engine": found.engine,
        "labels": y[rows].tolist(),
        "new": sorted(run.scenario.tasks[task].classes),
        "before": before,
        "after": after,
    }


def rows(content: Content) -> Iterator[Row]:
    yield (content["task"] + 1, content["engine"]), {"points": len(content["labels"])}


def consistent(content: Content) -> bool:
    """Whether there are a point before and one after for each label."""
    before, after = content["before"], content["after"]
    sizes = len(content["labels"]), len(before), len(after)
    return sizes[0] > 0 and len(set(sizes)) == 1 and all(len(p) == 2 for p in (*before, *after))


SHAPE = {
    "task": int, "engine": str, "labels": [int], "new": [int], "before": [[float]],
    "after": [[float]],
}  # fmt: skip
ANALYSIS = Analysis(
    make, SHAPE, "features on a plane", ("task", "engine"), rows, Features.no_pairs,
    best={"engine": best_engine}, consistent=consistent,
)  # fmt: skip
