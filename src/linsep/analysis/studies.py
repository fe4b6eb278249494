"""The paper's analyses of a run: which of its features go into which, and what is told of them.

    spectra       singular values of all data seen so far after each task, and proj-acc(k)
    similarities  how alike features of seen and of unseen data are before and after each task
    probes        linear probing of the final features, and of every task's
    planes        features before and after a task on one plane
    backward      what the backward projection learned, and whether the old head survives it

Each is a function of a run's features and of settings, and gives plain values of the shapes in
`contents`. The arithmetic is in `analysis/`. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError, StateError
from ..storage.snapshots import Snapshot, projections
from . import cka, drift, embed, probe, spectrum
from .contents import Content
from .features import Features, Rule


@dataclass(frozen=True)
class Settings:
    """What a user may choose, for all analyses; each depends on its own ones only."""

    centred: bool = False  # spectrum: take the mean off, as the authors' program does (D17)
    portions: tuple[float, ...] = probe.PORTIONS  # probe: of the training images of each class
    draws: int = 3  # probe: of each portion
    c: float = 1.0  # probe: inverse of the L2 penalty, on standardised features
    task: int = 1  # tsne: the task, counted from 0, before and after which to look
    points: int = 1000  # tsne: images at most, evenly of every class
    engine: Literal["opentsne", "sklearn", "pca"] | None = None  # tsne: None: the best there is
    seed: int = 0  # probe, tsne: of draws and starts


# --- the analyses --------------------------------------------------------------------------------


def spectra(run: Features, chosen: Settings) -> Content:
    """Directions from the training images seen so far; proj-acc on test images."""
    tasks = []
    for end in run.ends:
        seen = run.rows("train", 0, end.task + 1)
        moments = spectrum.Moments.of(run.matrix(end, "train")[seen])
        basis = spectrum.spectrum(moments, centred=chosen.centred)
        rule, test, y = run.rule(end), run.matrix(end, "test"), run.labels("test")
        curves = {}
        for name, first in (("seen", 0), ("newest", end.task)):
            rows = run.rows("test", first, end.task + 1)
            found = spectrum.proj_acc(
                test[rows], y[rows], rule.weight, rule.bias, basis, allowed=rule.seen
            )
            curves[name] = _numbers(found.accuracy)
        tasks.append(
            {
                "task": end.task,
                "classes": int(run.at(end).seen.sum()),
                "rows": moments.count,
                "values": _numbers(basis.values),
                "effective_rank": basis.effective_rank,
                "proj_acc": curves,
            }
        )
    return {"tasks": tasks}


def similarities(run: Features, chosen: Settings) -> Content:
    """CKA of test images' features before and after each task that brings new classes."""
    tasks = []
    y = run.labels("test")
    for before, after in _pairs(run):
        classes = torch.tensor(run.scenario.tasks[after.task].classes)
        if not len(classes):
            continue
        old, new = run.matrix(before, "test"), run.matrix(after, "test")
        seen, own = run.rows("test", 0, after.task), run.rows("test", after.task, after.task + 1)
        unseen = own.start + torch.isin(y[own], classes).nonzero()[:, 0]
        found: Content = {"task": after.task}
        for name, rows in (("seen", seen), ("unseen", unseen)):
            moments = cka.PairMoments()
            moments.add(old[rows], new[rows])
            found[name] = {kind: moments.cka(kind) for kind in ("centred", "debiased", "printed")}
        tasks.append(found)
    return {"tasks": tasks}


def probes(run: Features, chosen: Settings) -> Content:
    """By portions of the training images at the end, by all of them after every task."""
    last = run.last
    sides = run.matrix(last, "train"), run.labels("train")
    tests = run.matrix(last, "test"), run.labels("test")
    final = [
        {
            "portion": found.portion,
            "rows": found.rows,
            "accuracy": found.accuracy,
            "train_accuracy": found.train_accuracy,
            "tasks": _by_task(run, found.predicted, len(run.scenario.groups)),
        }
        for found in probe.probe_draws(
            *sides, *tests, portions=chosen.portions, draws=chosen.draws, seed=chosen.seed,
            c=chosen.c,
        )
    ]  # fmt: skip
    decided = _decisions(run.matrix(last, "test"), run.rule(last))
    heads = _by_task(run, decided, len(run.scenario.groups))
    whole = [found["tasks"] for found in final if found["portion"] == 1]
    several = [end for end in run.ends if len(run.labels("train")[_so_far(run, end)].unique()) > 1]
    rounds = [_round(run, end, chosen) for end in several if not whole or end != last]
    if whole:  # the last round is among the portions already
        rounds.append({"task": last.task, "probe": whole[0], "head": heads})
    return {
        "final": final,
        "head": _share(decided == run.labels("test")),
        "head_tasks": heads,
        "rounds": rounds,
    }


def _so_far(run: Features, end: Snapshot) -> slice:
    return run.rows("train", 0, end.task + 1)


def _round(run: Features, end: Snapshot, chosen: Settings) -> Content:
    """How separable the tasks seen so far are after one of them."""
    train, test = _so_far(run, end), run.rows("test", 0, end.task + 1)
    z = run.matrix(end, "test")[test]
    found = probe.probe(
        run.matrix(end, "train")[train],
        run.labels("train")[train],
        z,
        run.labels("test")[test],
        1.0,
        np.random.default_rng(chosen.seed),
        c=chosen.c,
    )
    return {
        "task": end.task,
        "probe": _by_task(run, found.predicted, end.task + 1),
        "head": _by_task(run, _decisions(z, run.rule(end)), end.task + 1),
    }


def planes(run: Features, chosen: Settings) -> Content:
    """Test images of the classes seen by the end of a task, before it and after it."""
    pairs = {after.task: (before, after) for before, after in _pairs(run)}
    if chosen.task not in pairs:
        known = ", ".join(str(task + 1) for task in pairs)
        raise ConfigError(f"--task: {chosen.task + 1} has no before and after here; one of {known}")
    before, after = pairs[chosen.task]
    end = run.rows("test", 0, chosen.task + 1).stop
    rows = _evenly(run.labels("test")[:end], chosen.points)
    matrices = [run.matrix(s, "test")[rows] for s in (before, after)]
    found = embed.embed(matrices, engine=chosen.engine, seed=chosen.seed)
    return {
        "task": chosen.task,
        "engine": found.engine,
        "labels": run.labels("test")[rows].tolist(),
        "new": sorted(run.scenario.tasks[chosen.task].classes),
        "before": [[round(v, 3) for v in point] for point in found.points[0].tolist()],
        "after": [[round(v, 3) for v in point] for point in found.points[1].tolist()],
    }


def backward(run: Features, chosen: Settings) -> Content:
    """At every snapshot of every task but the first: the old head on new features projected back.

    On test images of earlier tasks, among the classes the old head knew.
    """
    ends = {end.task: end for end in run.ends}
    terms = [name for name, term in projections(run.learner) if "features" in term.layers]
    if not terms:
        raise ConfigError(
            f"{run.folder.name}: projection is of methods with +bfp, +bfp2 or +fd on the features"
        )
    places = []
    for at in run.snapshots:
        if at.task - 1 not in ends:
            continue
        old = ends[at.task - 1]
        before = run.rule(old)
        rows = run.rows("test", 0, at.task)
        z, z_old, y = (
            run.matrix(at, "test")[rows],
            run.matrix(old, "test")[rows],
            run.labels("test"),
        )
        for name, term in projections(run.at(at)):
            if name in terms:
                place = {"term": name, "task": at.task, "stage": at.stage or None}
                place["epoch"] = None if at.ends_task else int(at.epoch)
                map_ = term.projection("features")
                places.append(place | _kept(map_, z, z_old, y[rows], before))
    return {"places": places}


def _kept(project: torch.nn.Module, z: Tensor, z_old: Tensor, y: Tensor, rule: Rule) -> Content:
    found: Content = {}
    d = z.shape[1]
    if isinstance(project, torch.nn.Linear):
        matrix, offset = project.weight.detach().cpu(), project.bias.detach().cpu()
    else:  # the identity, or a map that is not linear: applied first, and then nothing is left
        matrix, offset = torch.eye(d), torch.zeros(d)
        with torch.no_grad():
            z = project.cpu()(z.float())
    if not isinstance(project, torch.nn.Sequential):
        shape = drift.describe_projection(matrix)
        found = asdict(shape) | {"singular_values": _numbers(shape.singular_values)}
    head = drift.old_head_on_projected(
        z, z_old, y, matrix, offset, rule.weight, rule.bias, allowed=rule.seen
    )
    return found | asdict(head)


# --- small things --------------------------------------------------------------------------------


def _pairs(run: Features) -> list[tuple[Snapshot, Snapshot]]:
    """(before, after) of every task whose predecessor was kept too."""
    ends = run.ends
    found = [(a, b) for a, b in pairwise(ends) if b.task == a.task + 1]
    if not found:
        raise StateError(
            f"{run.folder.name}: there are no two tasks' ends in a row to compare; joint training "
            "has one, and of a large net the last is kept unless it is run with --keep tasks"
        )
    return found


def _decisions(z: Tensor, rule: Rule) -> Tensor:
    scores = z @ rule.weight.T + rule.bias
    return scores.masked_fill(~rule.seen, -torch.inf).argmax(1)


def _by_task(run: Features, predicted: Tensor, tasks: int) -> list[float]:
    """Accuracy on each of the first tasks, from the predictions of their test rows in order."""
    y = run.labels("test")
    rows = [run.rows("test", task, task + 1) for task in range(tasks)]
    return [_share(predicted[r] == y[r]) for r in rows]


def _share(right: Tensor) -> float:
    return float(right.double().mean())


def _evenly(y: Tensor, limit: int) -> Tensor:
    """The first rows of every class, at most `limit` in all, in order."""
    classes = y.unique().tolist()
    each = max(1, limit // len(classes))
    return torch.cat([(y == c).nonzero()[:each, 0] for c in classes]).sort().values


def _numbers(values: Tensor | Sequence[float]) -> list[float]:
    """To six digits: what figures and tables need, at half the size."""
    return [float(f"{v:.6g}") for v in torch.as_tensor(values).tolist()]
