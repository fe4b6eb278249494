"""How well a fresh linear classifier does on frozen features (section 4.4).

By portions of the training images at the end of a run, and by all of those seen so far after every
task. The classifier is a logistic regression on standardised features with an L2 penalty, C = 1.
The penalty is needed: with 1 % of the data the classes are separable and the loss alone has no
minimum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..compare.statistics import mean
from ..learning.logistic import Logistic, fit_logistic, mean_and_deviation
from .analyse import Analysis, Content, Row
from .features import Features, Split, check_features

Rows = tuple[Tensor, Tensor]  # features (n, d) and labels (n,)
SPLITS: tuple[Split, Split] = ("train", "test")
PORTIONS = (0.01, 0.1 / 3, 0.1, 1 / 3, 1.0)  # of each class's rows, as in the authors' program


@dataclass(frozen=True, eq=False)
class ProbeResult:
    portion: float
    rows: int  # training rows that were drawn
    accuracy: float  # on the test rows, a share in [0, 1]
    train_accuracy: float  # on the drawn rows
    predicted: Tensor  # (n_test,) int64 labels
    fit: Logistic  # on standardised features


def draw_rows(y: Tensor, portion: float, rng: np.random.Generator) -> Tensor:
    """Row numbers of `portion` of every class, at least one each, drawn without replacement."""
    if not 0 < portion <= 1:
        raise ValueError(f"portion: want a share above 0 and at most 1, got {portion}")
    if portion == 1:
        return torch.arange(len(y))
    labels = y.cpu().numpy()
    drawn = []
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        drawn.append(rng.choice(rows, max(1, round(portion * len(rows))), replace=False))
    return torch.from_numpy(np.sort(np.concatenate(drawn)))


def probe(
    train: Rows, test: Rows, portion: float, rng: np.random.Generator, *, c: float = 1.0
) -> ProbeResult:
    """Fit on a portion of the training rows, drawn per class, and score the test rows.

    Features are standardised with the drawn rows' mean and standard deviation; a feature that is
    the same in all of them is only centred.
    """
    (train_z, train_y), (test_z, test_y) = train, test
    check_features(train_z, "training features")
    check_features(test_z, "test features")
    labels = torch.from_numpy(np.unique(train_y.cpu().long().numpy()))  # (K,) sorted
    strange = sorted(set(test_y.tolist()) - set(labels.tolist()))
    if strange:
        raise ValueError(f"test rows of classes without training rows: {strange[:10]}")
    rows = draw_rows(train_y, portion, rng)
    x, y = train_z.detach().cpu()[rows].float(), train_y.cpu().long()[rows]
    mean, deviation = mean_and_deviation(x)
    x = x.sub_(mean).div_(deviation)
    target = torch.searchsorted(labels, y)
    fit = fit_logistic(x, target, len(labels), c=c)
    scores = fit.scores((test_z.detach().cpu().float() - mean) / deviation)
    predicted = labels[scores.argmax(1)]
    return ProbeResult(
        portion=portion,
        rows=len(x),
        accuracy=float((predicted == test_y.cpu()).double().mean()),
        train_accuracy=float((fit.scores(x).argmax(1) == target).double().mean()),
        predicted=predicted,
        fit=fit,
    )


def probe_draws(
    train: Rows,
    test: Rows,
    *,
    portions: Sequence[float] = PORTIONS,
    draws: int = 3,
    seed: int = 0,
    c: float = 1.0,
) -> Iterator[ProbeResult]:
    """`draws` probes of every portion, and one of portion 1, where there is nothing to draw.

    Each draw has a generator of its own, keyed by seed, portion and number: another portion or one
    more draw changes none of the others.
    """
    if draws < 1:
        raise ValueError(f"draws: want at least 1, got {draws}")
    for portion in portions:
        for draw in range(draws if portion < 1 else 1):
            rng = np.random.default_rng([seed, round(portion * 1_000_000), draw])
            yield probe(train, test, portion, rng, c=c)


# --- of a run ------------------------------------------------------------------------------------


def make(
    run: Features,
    *,
    portions: tuple[float, ...] = PORTIONS,
    draws: int = 3,
    c: float = 1.0,
    seed: int = 0,
) -> Content:
    """Probes of the final features, and of each task's beside the head it had then."""
    train, test = ((run.matrix(run.last, split), run.labels(split)) for split in SPLITS)
    final = [
        {
            "portion": found.portion,
            "rows": found.rows,
            "accuracy": found.accuracy,
            "train_accuracy": found.train_accuracy,
            "tasks": _by_task(run, found.predicted),
        }
        for found in probe_draws(train, test, portions=portions, draws=draws, seed=seed, c=c)
    ]
    whole = [one["tasks"] for one in final if one["portion"] == 1]
    rounds = []
    for end in run.ends:
        seen, tested = (run.of_tasks(end, split, 0, end.task + 1) for split in SPLITS)
        if len(seen[1].unique()) < 2:
            continue
        if end == run.last and whole:  # it is among the portions already
            tasks = whole[0]
        else:
            found = probe(seen, tested, 1.0, np.random.default_rng(seed), c=c)
            tasks = _by_task(run, found.predicted)
        head = _by_task(run, run.rule(end).scores(tested[0]).argmax(1))
        rounds.append({"task": end.task, "probe": tasks, "head": head})
    decided = run.rule(run.last).scores(test[0]).argmax(1)
    share = float((decided == test[1]).double().mean())
    return {
        "final": final, "head": share, "head_tasks": _by_task(run, decided), "rounds": rounds,
    }  # fmt: skip


def _by_task(run: Features, predicted: Tensor) -> list[float]:
    """Accuracy on each task, from the predictions of the first tasks' test rows in order."""
    right = predicted == run.labels("test")[: len(predicted)]
    rows = [run.rows("test", task, task + 1) for task in range(len(run.scenario.groups))]
    return [float(right[own].double().mean()) for own in rows if own.stop <= len(right)]


def rows(found: Content) -> Iterator[Row]:
    by_portion: dict[float, list[float]] = {}
    for one in found["final"]:
        by_portion.setdefault(one["portion"], []).append(100 * one["accuracy"])
    probes = {f"{100 * portion:.3g} %": mean(values) for portion, values in by_portion.items()}
    yield (), {"own head": 100 * found["head"], **probes}


def consistent(found: Content) -> bool:
    """Whether every round has an accuracy for each task so far."""
    rounds = [(r["task"] + 1, len(r["probe"]), len(r["head"])) for r in found["rounds"]]
    return bool(found["final"]) and all(len(set(sizes)) == 1 for sizes in rounds)


SHAPE = {
    "final": [{"portion": float, "accuracy": float, "tasks": [float]}], "head": float,
    "rounds": [{"task": int, "probe": [float], "head": [float]}],
}  # fmt: skip
PROBE = Analysis(
    make, SHAPE, "linear probing of the final features, accuracy in %", (), rows, Features.no_final,
    consistent, "1 %, 10 %, ...: a new classifier trained on this share of the training images",
)  # fmt: skip


# --- forward transfer ----------------------------------------------------------------------------


def make_transfer(run: Features, *, c: float = 1.0, seed: int = 0) -> Content:
    """Probes of each task alone: on the features from before it, after it, and of random weights.

    The definition is CaSSLe's (Fini et al. 2022): what earlier tasks taught that a later one can
    use, whatever the head makes of it.
    """
    random, tasks = run.prepared.build().learner, []
    for before, after in run.pairs:
        span = after.task, after.task + 1
        labels = [run.of_tasks(after, split, *span)[1] for split in SPLITS]
        if len(labels[0].unique()) < 2:
            continue
        run.say(f"forward transfer to task {after.task + 1}")
        features = {
            "before": [run.of_tasks(before, split, *span)[0] for split in SPLITS],
            "after": [run.of_tasks(after, split, *span)[0] for split in SPLITS],
            "random": [random.embed(run.images(split, *span)) for split in SPLITS],
        }
        found: Content = {"task": after.task}
        for name, z in features.items():
            train, test = zip(z, labels, strict=True)
            found[name] = probe(train, test, 1.0, np.random.default_rng(seed), c=c).accuracy
        tasks.append(found | {"transfer": found["before"] - found["random"]})
    return {"tasks": tasks}


def transfer_rows(found: Content) -> Iterator[Row]:
    """A row for each task, and their mean: the metric."""
    tasks = {task["task"] + 1: task for task in found["tasks"]}
    for number, task in tasks.items():
        yield (number,), {shown: 100 * task[name] for name, shown in SOURCES.items()}
    if tasks:
        means = {name: mean([task[name] for task in tasks.values()]) for name in SOURCES}
        yield ("mean",), {shown: 100 * means[name] for name, shown in SOURCES.items()}


SOURCES = {
    "transfer": "forward transfer", "before": "before it", "after": "after it",
    "random": "random weights",
}  # fmt: skip
TRANSFER = Analysis(
    make_transfer, {"tasks": [{"task": int, **dict.fromkeys(SOURCES, float)}]},
    "forward transfer: a linear probe of each task's classes, accuracy in %", ("task",),
    transfer_rows, Features.no_pairs,
    note="before it, after it, random weights: the network whose features are probed; forward "
    "transfer: before it minus random weights",
)  # fmt: skip
