"""Measure heads on vectors against scikit-learn's, learned class by class.

    python -m benchmarks.heads [--seeds 3]

Digits are scikit-learn's (64 columns, lessons of two classes). Clusters are 20 Gaussian classes in
384 columns with one covariance, in lessons of four; a fifth of the rows tests. "10 of 1000" has
1000 training rows in every other class and 10 in the rest: accuracy is the mean over classes, and
in brackets that over the rare ones. Prints a table in Markdown.
"""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from linsep import IncrementalClassifier

OURS = ("slda", "ncm", "ranpac")
WIDE = 384
EPOCHS = 20  # of SGD, in each lesson


class Task(NamedTuple):
    x: NDArray[np.float64]
    y: NDArray[np.int64]
    test_x: NDArray[np.float64]
    test_y: NDArray[np.int64]
    per_lesson: int
    rare: Sequence[int] = ()


def digits(seed: int) -> Task:
    x, y = load_digits(return_X_y=True)
    parts = train_test_split(x, y, test_size=0.2, stratify=y, random_state=seed)
    return Task(parts[0], parts[2], parts[1], parts[3], 2)


def clusters(seed: int, counts: Sequence[int] = (100,) * 20) -> Task:
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(WIDE, WIDE)) / WIDE**0.5
    centres = 0.35 * rng.normal(size=(len(counts), WIDE))

    def drawn(each: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        y = np.arange(len(each)).repeat(each)
        return centres[y] + rng.normal(size=(len(y), WIDE)) @ mixing, y

    rare = [c for c, count in enumerate(counts) if count < max(counts)]
    return Task(*drawn(counts), *drawn([50] * len(counts)), 4, rare)


def imbalanced(seed: int) -> Task:
    return clusters(seed, [1000, 10] * 10)


def ours(method: str) -> Callable[[int], Any]:
    return lambda seed: IncrementalClassifier(method, "identity", random_state=seed)


class ByEpochs:
    """SGD passes each lesson several times, as training would."""

    def __init__(self, loss: str, seed: int) -> None:
        self.model = SGDClassifier(loss=loss, random_state=seed)
        self.rng = np.random.default_rng(seed)

    def partial_fit(self, x: Any, y: Any, classes: Any) -> None:
        for _ in range(EPOCHS):
            rows = self.rng.permutation(len(x))
            self.model.partial_fit(x[rows], y[rows], classes)

    def predict(self, x: Any) -> Any:
        return self.model.predict(x)


HEADS: Mapping[str, Callable[[int], Any]] = {
    **{f"linsep, {name}": ours(name) for name in OURS},
    "GaussianNB": lambda seed: GaussianNB(),
    "SGDClassifier": lambda seed: ByEpochs("hinge", seed),
    "logistic regression by SGDClassifier": lambda seed: ByEpochs("log_loss", seed),
}
TASKS: Mapping[str, Callable[[int], Task]] = {
    "digits": digits,
    "clusters": clusters,
    "10 of 1000": imbalanced,
}


def measured(head: Any, task: Task, seed: int) -> tuple[float, float]:
    """The mean accuracy over classes in percent, and that over the rare ones."""
    everything, rng = np.unique(task.y), np.random.default_rng(seed)
    order = rng.permutation(len(everything))
    for classes in np.array_split(order, len(order) // task.per_lesson):
        rows = rng.permutation(np.flatnonzero(np.isin(task.y, classes)))
        given = (task.x[rows], task.y[rows])
        if isinstance(head, IncrementalClassifier):
            head.partial_fit(*given)
        else:
            head.partial_fit(*given, classes=everything)
    right = head.predict(task.test_x) == task.test_y
    each = [100 * float(right[task.test_y == c].mean()) for c in everything]
    return float(np.mean(each)), float(np.mean([each[c] for c in task.rare] or [np.nan]))


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args().seeds)
    print(f"| | {' | '.join(TASKS)} |\n|---|{'---:|' * len(TASKS)}")
    for name, make in HEADS.items():
        cells = []
        for task in TASKS.values():
            found = np.array([measured(make(seed), task(seed), seed) for seed in seeds])
            mean, rare = found.mean(axis=0)
            cells.append(f"{mean:.1f}" + ("" if np.isnan(rare) else f" ({rare:.1f})"))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
