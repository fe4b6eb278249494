"""How linearly features move when a task is learned, and what the backward projection learned.

BFP asks that old features stay a linear function of new ones; `+transport` carries class statistics
by a linear function from old to new. Both are as good as the drift between two networks is linear,
above all on classes that are no longer seen (section 3.3). For each task, a map is fitted to the
task's training images, as `+transport` does it, and judged on test images by the share of the new
features' variance that it misses:

    E |z' - (z W + b)|^2 / E |z' - E z'|^2

on the task's own classes, on earlier classes, and, as the least that any affine map could miss
there, on earlier classes with a map that is fitted to their own training images.

Of the backward projection z' = A z + a, at every snapshot of every task but the first: the shape of
A, and the head from before the task on new features projected back, on test images of earlier
tasks, among the classes that it knew.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ..learning.learner import Learner
from ..learning.statistics import Affine
from ..learning.transport import Linear
from ..nets.net import pooled
from ..storage.snapshots import projections
from . import features
from .analyse import Analysis, Content, Row
from .features import Features, Rule, Split, blocks, check_features, double, mean_row, six_digits
from .spectrum import effective_rank

RIDGE = 0.3  # as `+transport` has it by default
MISSED = {
    "own": "task's own classes", "old": "earlier classes", "least": "earlier classes, own map",
    "still": "earlier classes, no map",
}  # fmt: skip
LINEAR = ("effective_rank", "to_identity", "to_orthogonal")  # and not of other maps
COLUMNS = {
    "accuracy_before": ("old head before", 100), "accuracy": ("on A h(x)", 100),
    "agreement": ("agreement", 100), "residual": ("residual", 100),
    "to_identity": ("to identity", 1), "to_orthogonal": ("to orthogonal", 1),
    "effective_rank": ("effective rank", 1),
}  # fmt: skip
Pairs = dict[str, Linear]  # by layer


def missed(images: Linear, through: Affine) -> float:
    """The share of the new features' variance that a map misses on these images."""
    d = images.features
    mean, covariance = images.moments()
    misses = torch.cat([-through.weight, torch.eye(d, dtype=torch.float64)])  # (2 d, d)
    spread = (misses.T @ covariance @ misses).trace()
    away = (mean[d:] - through(mean[:d])).square().sum()
    whole = covariance[d:, d:].trace()
    return float((spread + away) / whole) if whole > 0 else 0.0


def make_drift(run: Features) -> Content:
    """What maps from the features before a task to those after it miss, for every task but one."""
    tasks = []
    for before, after in run.pairs:
        run.say(f"drift over task {after.task + 1}")
        past = copy.deepcopy(run.at(before).eval_net.backbone)
        learner = run.at(after)
        own, old = (
            [_seen(run, learner, past, split, first, end) for split in ("train", "test")]
            for first, end in ((after.task, after.task + 1), (0, after.task))
        )
        tasks.append({"task": after.task, "layers": [_layer(n, own, old) for n in own[0]]})
    return {"tasks": tasks}


def _layer(name: str, own: list[Pairs], old: list[Pairs]) -> Content:
    through, best = own[0][name].map(), old[0][name].map()
    eye = torch.eye(len(through.bias), dtype=torch.float64)
    return {
        "layer": name,
        "own": missed(own[1][name], through),
        "old": missed(old[1][name], through),
        "least": missed(old[1][name], best),
        "still": missed(old[1][name], Affine(eye, 0 * eye[0], 0 * eye)),
    }


@torch.no_grad()
def _seen(
    run: Features, learner: Learner, past: nn.Module, split: Split, first: int, end: int
) -> Pairs:
    """Sums over images of some tasks of every layer's outputs in both networks."""
    found: Pairs = {}
    past.eval()
    learner.eval_net.eval()
    for images in run.images(split, first, end).chunks(features.CHUNK):
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


def drift_rows(found: Content) -> Iterator[Row]:
    for task in found["tasks"]:
        for layer in task["layers"]:
            numbers = {shown: 100 * layer[name] for name, shown in MISSED.items()}
            yield (task["task"] + 1, layer["layer"]), numbers


DRIFT = Analysis(
    make_drift,
    {"tasks": [{"task": int, "layers": [{"layer": str, **dict.fromkeys(MISSED, float)}]}]},
    "drift of features over a task: % of their variance that a linear map misses",
    ("task", "layer"), drift_rows, Features.no_pairs,
    note="own map: fitted to the earlier classes' training images, not to the task's",
)  # fmt: skip


# --- the backward projection ---------------------------------------------------------------------


def describe_map(a: Tensor) -> Content:
    """The shape of A. Distances are Frobenius norms over sqrt(d), so that A = 0 is 1 from both.

    With A = U S V^T the nearest orthogonal matrix is U V^T, at distance ||S - I||.
    """
    check_features(a, "projection")
    if a.shape[0] != a.shape[1]:
        raise ValueError(f"projection: want a square matrix, got {tuple(a.shape)}")
    a = double(a)
    values = torch.linalg.svdvals(a)
    size = len(a) ** 0.5
    return {
        "singular_values": values,
        "effective_rank": effective_rank(values) if float(values[0]) > 0 else 0.0,
        "to_identity": float((a - torch.eye(len(a), dtype=a.dtype)).norm()) / size,
        "to_orthogonal": float((values - 1).norm()) / size,
    }


def old_head_on_projected(
    z: Tensor, z_old: Tensor, y: Tensor, a: Tensor, offset: Tensor, old: Rule
) -> Content:
    """Equations 5 and 6: do the old separators w survive as A^T w?

    Shares in [0, 1]; the residual is sum |A z + a - z'|^2 / sum |z' - mean z'|^2, 0 if perfect.
    `z` are the new net's features (n, d) and `z_old` the old net's (n, d') of the same rows, A is
    (d', d), and `old` is how the old head decided, among the classes that it knew.
    """
    for matrix, name in ((z, "new features"), (z_old, "old features"), (a, "projection")):
        check_features(matrix, name)
    matrix, shift, mean = double(a), double(offset), mean_row(z_old)
    sums = torch.zeros(5, dtype=torch.float64)
    for new, kept, labels in blocks(z, z_old, y):
        back = new @ matrix.T + shift
        now, then = (old.scores(t).argmax(1) for t in (back, kept))
        right = [(now == labels).sum(), (then == labels).sum(), (now == then).sum()]
        sums += torch.stack([*right, (back - kept).square().sum(), (kept - mean).square().sum()])
    if float(sums[4]) == 0:
        raise ValueError("old features: the same in every row, so there is nothing to recover")
    shares = [*(sums[:3] / len(z)).tolist(), float(sums[3] / sums[4])]
    return dict(zip(("accuracy", "accuracy_before", "agreement", "residual"), shares, strict=True))


def make_projection(run: Features) -> Content:
    """Describe the projection at the end of each task, and of each epoch that was kept."""
    ends, terms, places = {end.task: end for end in run.ends}, _terms(run), []
    for at in run.snapshots:
        old = ends.get(at.task - 1)
        if old is None:
            continue
        rule, rows = run.rule(old), run.rows("test", 0, at.task)
        z, z_old = (run.matrix(s, "test")[rows] for s in (at, old))
        for name, term in projections(run.at(at)):
            if name in terms:
                place = {"term": name, "task": at.task, "stage": at.stage or None}
                place["epoch"] = None if at.ends_task else int(at.epoch)
                map_ = term.map_of("features").project
                places.append(place | _kept(map_, z, z_old, run.labels("test")[rows], rule))
    return {"places": places}


def _kept(project: nn.Module, z: Tensor, z_old: Tensor, y: Tensor, rule: Rule) -> Content:
    found: Content = {}
    if isinstance(project, nn.Linear):
        matrix, offset = project.weight.detach().cpu(), project.bias.detach().cpu()
    else:  # the identity, or a map that is not linear: applied first, and then nothing is left
        matrix, offset = torch.eye(z.shape[1]), torch.zeros(z.shape[1])
        with torch.no_grad():
            z = project.cpu()(z.float())
    if not isinstance(project, nn.Sequential):
        found = describe_map(matrix)
        found["singular_values"] = six_digits(found["singular_values"])
    return found | old_head_on_projected(z, z_old, y, matrix, offset, rule)


def _terms(run: Features) -> list[str]:
    """The method's terms that project the features themselves."""
    return [name for name, term in projections(run.learner) if "features" in term.layers]


def _no_projection(run: Features) -> str:
    if not _terms(run):
        return "it needs a method with +bfp, +bfp2 or +fd on the features"
    return run.no_pairs()


def projection_rows(found: Content) -> Iterator[Row]:
    for place in found["places"]:
        last = place.get("epoch") is None
        epoch = "end" if last else f"{place.get('stage')} {place['epoch'] + 1}"
        numbers = {
            shown: None if place.get(name) is None else times * place[name]
            for name, (shown, times) in COLUMNS.items()
        }
        yield (place["term"], place["task"] + 1, epoch), numbers


PLACE = {"term": str, "task": int, "stage": (str, None), "epoch": (int, None)}
PLACE |= dict.fromkeys(COLUMNS, float) | dict.fromkeys(LINEAR, (float, None))
PROJECTION = Analysis(
    make_projection, {"places": [PLACE | {"singular_values": ([float], None)}]},
    "the old head on projected features, %", ("term", "task", "epoch"), projection_rows,
    _no_projection,
    note="old head before: accuracy of the previous head on the previous features; on A h(x): on "
    "the new features, projected back; agreement: images on which the two decide alike; residual: "
    "% of the previous features' variance that A h(x) misses; to identity, to orthogonal: distance "
    "of A from I and from the nearest orthogonal matrix, where A = 0 is 1 from both",
)  # fmt: skip
