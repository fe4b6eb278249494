"""Feature matrices on one plane, to look at (figure 1).

Knows feature matrices. Knows nothing of labels, colours, runs or files. t-SNE comes from openTSNE
or scikit-learn, whichever is installed; without either the plane is that of the first two
principal components. All matrices are embedded together, so their points share axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from .spectrum import Moments, check_features, spectrum

Engine = Literal["opentsne", "sklearn", "pca"]
COMPONENTS = 50  # t-SNE's neighbours are sought among this many principal components


@dataclass(frozen=True, eq=False)
class Embedding:
    points: tuple[Tensor, ...]  # one (n_i, 2) float32 per matrix, in the order given
    engine: Engine  # what made them


def available_engine() -> Engine:
    """The best that is installed."""
    if find_spec("openTSNE") is not None:
        return "opentsne"
    return "sklearn" if find_spec("sklearn") is not None else "pca"


def embed(
    matrices: Sequence[Tensor],
    *,
    engine: Engine | None = None,
    seed: int = 0,
    perplexity: float = 30.0,
) -> Embedding:
    """Points of all matrices (n_i, d) on the same axes; equal inputs and seed give equal points.

    The perplexity is lowered to a third of the rows when there are few, and two or three rows are
    shown by PCA.
    """
    if not matrices:
        raise ValueError("embed: no feature matrices")
    for i, z in enumerate(matrices):
        check_features(z, f"features {i}")
        if z.shape[1] != matrices[0].shape[1]:
            raise ValueError(
                f"features {i} have {z.shape[1]} columns, the first {matrices[0].shape[1]}"
            )
    if engine is not None and engine not in get_args(Engine):
        raise ValueError(f"engine: want one of {get_args(Engine)}, got {engine!r}")
    if not perplexity >= 1:
        raise ValueError(f"perplexity: want at least 1, got {perplexity}")
    z = torch.cat([m.detach().cpu().double() for m in matrices])  # (n, d)
    components = principal_components(z, max(2, min(COMPONENTS, *z.shape)))  # (n, <= 50)
    chosen = engine or available_engine()
    if chosen == "pca" or len(z) < 4 or float(components.abs().max()) == 0:
        chosen, plane = "pca", components[:, :2]
    else:
        fit = _open_tsne if chosen == "opentsne" else _sklearn_tsne
        x = components.numpy()
        start = x[:, :2] / max(float(x[:, 0].std()), 1e-30) * 1e-4
        plane = torch.from_numpy(fit(x, start, min(perplexity, (len(z) - 1) / 3), seed))
    parts = torch.split(plane.float(), [len(m) for m in matrices])
    return Embedding(tuple(parts), chosen)


def principal_components(z: Tensor, k: int) -> Tensor:
    """Coordinates along the k directions of largest variance, centred: (n, k) float64."""
    check_features(z)
    basis = spectrum(Moments.of(z), centred=True)
    along = (z.detach().cpu().double() - basis.centre) @ basis.directions[:, :k]
    return torch.nn.functional.pad(along, (0, k - along.shape[1]))  # a single feature has one


def _open_tsne(x: Any, start: Any, perplexity: float, seed: int) -> Any:
    tsne = import_module("openTSNE").TSNE(
        perplexity=perplexity, initialization=start, random_state=seed, n_jobs=1, neighbors="exact"
    )
    return np.asarray(tsne.fit(x))


def _sklearn_tsne(x: Any, start: Any, perplexity: float, seed: int) -> Any:
    one_thread = import_module("threadpoolctl").threadpool_limits(1)
    with one_thread:  # sums over threads come in no fixed order
        tsne = import_module("sklearn.manifold").TSNE(
            perplexity=perplexity, init=start.astype(np.float32), random_state=seed
        )
        return tsne.fit_transform(x.astype(np.float32))
