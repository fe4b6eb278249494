"""Features of the same images before and after a task: how alike they are, and how they look.

Linear CKA (section 4.6) is of test images, on the classes learned before the task ("seen") and on
those that it brings ("unseen"). The n x n kernels are never made.

    estimator   value                                                            CKA(Z, Z)
    centred     ||X^T Y||^2 / (||X^T X|| ||Y^T Y||), means taken off             1
    debiased    the same ratio of unbiased HSIC estimates                        1
    printed     ||X^T Y||^2 / (||X^T X||^2 ||Y^T Y||^2), equation 15 as it stands  not 1

The printed one depends on the features' scale and on n (D16): use it only to show that.

The plane (figure 1) is t-SNE's, by openTSNE or scikit-learn, or that of the first two principal
components (`pca`). All matrices are embedded together, so their points share axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError
from .analyse import Analysis, Content, Row
from .features import Features, blocks, check_features, mean_row
from .spectrum import spectrum

Estimator = Literal["centred", "debiased", "printed"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
Engine = Literal["opentsne", "sklearn", "pca"]
# openTSNE, which is faster, where it is installed
ENGINE: Engine = "sklearn" if find_spec("openTSNE") is None else "opentsne"
PERPLEXITY = 30.0
COMPONENTS = 50  # t-SNE's neighbours are sought among this many principal components


class Pair:
    """Sums over rows (x_i, y_i), each about its mean: all that the estimators need."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        check_features(x, "first features")
        check_features(y, "second features")
        self.count = len(x)
        self.means = mean_row(x), mean_row(y)
        both = [(a, b) for a in range(2) for b in range(a, 2)]
        sizes = {(a, b): (len(self.means[a]), len(self.means[b])) for a, b in both}
        self.products = {  # (a, b) -> sum of a_i b_i^T
            pair: torch.zeros(size, dtype=torch.float64) for pair, size in sizes.items()
        }
        self.norms = torch.zeros(2, 2, dtype=torch.float64)  # sum of |a_i|^2 |b_i|^2
        for parts in blocks(x, y):
            rows = [part - mean for part, mean in zip(parts, self.means, strict=True)]
            squares = torch.stack([r.square().sum(1) for r in rows])  # (2, r)
            self.norms += squares @ squares.T
            for a, b in both:
                self.products[a, b] += rows[a].T @ rows[b]

    def cka(self, estimator: Estimator = "centred") -> float:
        if estimator == "printed":
            below = self._raw(0, 0) * self._raw(1, 1)
            if below == 0:
                raise ValueError("printed CKA is undefined: a feature matrix is zero in every row")
            return self._raw(0, 1) / below
        least = 4 if estimator == "debiased" else 2
        if self.count < least:
            raise ValueError(f"{estimator} CKA needs at least {least} rows, got {self.count}")
        for a, name in enumerate(("first", "second")):
            varying = float(self.products[a, a].trace())
            if varying <= 1e-24 * self.count * float(self.means[a].square().sum()):
                raise ValueError(f"CKA is undefined: the {name} features are the same in every row")
        hsic = self._unbiased_hsic if estimator == "debiased" else self._biased_hsic
        return hsic(0, 1) / math.sqrt(hsic(0, 0) * hsic(1, 1))

    def _biased_hsic(self, a: int, b: int) -> float:
        """||X_c^T Y_c||^2 = tr(K H L H), X_c with its mean taken off."""
        return float(self.products[a, b].square().sum())

    def _unbiased_hsic(self, a: int, b: int) -> float:
        """Song et al. 2012, for linear kernels K = X X^T, L = Y Y^T without diagonals:

        n (n - 3) HSIC = tr KL + (1'K1)(1'L1) / ((n - 1)(n - 2)) - 2 (1'KL1) / (n - 2).

        Rows sum to zero here, so tr KL = ||X^T Y||^2 - sum |x|^2 |y|^2, 1'K1 = -sum |x|^2 and
        1'KL1 = sum |x|^2 |y|^2.
        """
        n, norms = self.count, float(self.norms[a, b])
        sums = float(self.products[a, a].trace()) * float(self.products[b, b].trace())
        inner = self._biased_hsic(a, b) - norms + sums / ((n - 1) * (n - 2))
        return (inner - 2 * norms / (n - 2)) / (n * (n - 3))

    def _raw(self, a: int, b: int) -> float:
        """||X^T Y||^2 with the means left on, for equation 15 to the letter."""
        moved = self.count * torch.outer(self.means[a], self.means[b])
        return float((self.products[a, b] + moved).square().sum())


def cka(x: Tensor, y: Tensor, estimator: Estimator = "centred") -> float:
    """The similarity of two matrices (n, d1) and (n, d2) whose rows belong together."""
    return Pair(x, y).cka(estimator)


def make_cka(run: Features) -> Content:
    """CKA of test images' features before and after each task that brings new classes."""
    tasks = []
    y = run.labels("test")
    for before, after in run.pairs:
        classes = torch.tensor(run.scenario.tasks[after.task].classes)
        if not len(classes):
            continue
        old, new = run.matrix(before, "test"), run.matrix(after, "test")
        seen, own = run.rows("test", 0, after.task), run.rows("test", after.task, after.task + 1)
        unseen = own.start + torch.isin(y[own], classes).nonzero()[:, 0]
        found: Content = {"task": after.task}
        for name, rows in (("seen", seen), ("unseen", unseen)):
            pair = Pair(old[rows], new[rows])
            found[name] = {estimator: pair.cka(estimator) for estimator in ESTIMATORS}
        tasks.append(found)
    return {"tasks": tasks}


def cka_rows(found: Content) -> Iterator[Row]:
    names = [(side, kind) for kind in ("centred", "debiased") for side in ("seen", "unseen")]
    for task in found["tasks"]:
        yield (task["task"] + 1,), {f"{s}, {kind}": 100 * task[s][kind] for s, kind in names}


BOTH = dict.fromkeys(("seen", "unseen"), dict.fromkeys(ESTIMATORS, float))
CKA = Analysis(
    make_cka, {"tasks": [{"task": int, **BOTH}]}, "CKA before and after each task, x 100",
    ("task",), cka_rows, Features.no_pairs,
    note="seen: test images of earlier classes; unseen: of the classes that the task brings",
)  # fmt: skip


# --- on one plane --------------------------------------------------------------------------------


class Embedding(NamedTuple):
    points: tuple[Tensor, ...]  # one (n_i, 2) float32 per matrix, in the order given
    engine: Engine  # what made them


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


def make_tsne(
    run: Features, *, task: int = 1, points: int = 1000, engine: Engine = ENGINE, seed: int = 0
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
    found = embed([run.matrix(s, "test")[rows] for s in pairs[task]], engine=engine, seed=seed)
    before, after = ([[round(v, 3) for v in p] for p in side.tolist()] for side in found.points)
    return {
        "task": task,
        "engine": found.engine,
        "labels": y[rows].tolist(),
        "new": sorted(run.scenario.tasks[task].classes),
        "before": before,
        "after": after,
    }


def tsne_rows(found: Content) -> Iterator[Row]:
    yield (found["task"] + 1, found["engine"]), {"points": len(found["labels"])}


def consistent(found: Content) -> bool:
    """Whether there are a point before and one after for each label."""
    before, after = found["before"], found["after"]
    sizes = len(found["labels"]), len(before), len(after)
    return sizes[0] > 0 and len(set(sizes)) == 1 and all(len(p) == 2 for p in (*before, *after))


PLANE = {
    "task": int, "engine": str, "labels": [int], "new": [int], "before": [[float]],
    "after": [[float]],
}  # fmt: skip
TSNE = Analysis(
    make_tsne, PLANE, "features on a plane", ("task", "engine"), tsne_rows, Features.no_pairs,
    consistent, "points: images on the plane; `linsep report` draws it",
)  # fmt: skip
