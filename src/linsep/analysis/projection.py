"""What the backward projection z' = A z + a learned (section 3.3).

At every snapshot of every task but the first: the shape of A, and the head from before the task on
new features projected back, on test images of earlier tasks, among the classes that it knew.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from ..storage.snapshots import projections
from .analyse import Analysis, Content, Row
from .features import Features, Rule, blocks, check_features, double, mean_row, six_digits
from .spectrum import effective_rank


@dataclass(frozen=True, eq=False)
class Projection:
    """The shape of A. Distances are Frobenius norms over sqrt(d), so that A = 0 is 1 from both."""

    singular_values: Tensor  # (d,) largest first
    effective_rank: float  # 0 for A = 0
    to_identity: float  # ||A - I||: 0 means plain feature distillation
    to_orthogonal: float  # ||A - Q|| for the nearest orthogonal Q: 0 means a rotation


def describe_projection(a: Tensor) -> Projection:
    """With A = U S V^T the nearest orthogonal matrix is U V^T, at distance ||S - I||."""
    check_features(a, "projection")
    if a.shape[0] != a.shape[1]:
        raise ValueError(f"projection: want a square matrix, got {tuple(a.shape)}")
    a = double(a)
    values = torch.linalg.svdvals(a)
    size = len(a) ** 0.5
    return Projection(
        singular_values=values,
        effective_rank=effective_rank(values) if float(values[0]) > 0 else 0.0,
        to_identity=float((a - torch.eye(len(a), dtype=a.dtype)).norm()) / size,
        to_orthogonal=float((values - 1).norm()) / size,
    )


@dataclass(frozen=True)
class OldHead:
    """How the old head g' does when the new features are projected back. Shares in [0, 1]."""

    accuracy: float  # of g'(A h(x) + a)
    accuracy_before: float  # of g'(h'(x)), what there was to keep
    agreement: float  # rows on which the two decide alike
    residual: float  # sum |A z + a - z'|^2 / sum |z' - mean z'|^2: 0 is perfect, 1 is the mean


def old_head_on_projected(
    z: Tensor, z_old: Tensor, y: Tensor, a: Tensor, offset: Tensor, old: Rule
) -> OldHead:
    """Equations 5 and 6: do the old separators w survive as A^T w?

    `z` are the new net's features (n, d) and `z_old` the old net's (n, d') of the same rows, A is
    (d', d), and `old` is how the old head decided, among the classes that it knew.
    """
    for matrix, name in ((z, "new features"), (z_old, "old features"), (a, "projection")):
        check_features(matrix, name)
    w, b, mask = double(old.weight), double(old.bias), old.barred(len(z))
    matrix, shift, mean = double(a), double(offset), mean_row(z_old)
    sums = torch.zeros(5, dtype=torch.float64)
    for new, kept, labels, barred in blocks(z, z_old, y, mask):
        back = new @ matrix.T + shift
        now, then = ((t @ w.T + b + barred).argmax(1) for t in (back, kept))
        right = [(now == labels).sum(), (then == labels).sum(), (now == then).sum()]
        sums += torch.stack([*right, (back - kept).square().sum(), (kept - mean).square().sum()])
    if float(sums[4]) == 0:
        raise ValueError("old features: the same in every row, so there is nothing to recover")
    accuracy, before, agreement = (sums[:3] / len(z)).tolist()
    return OldHead(accuracy, before, agreement, float(sums[3] / sums[4]))


# --- of a run ------------------------------------------------------------------------------------


def make(run: Features) -> Content:
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
                map_ = term.projection("features")
                places.append(place | _kept(map_, z, z_old, run.labels("test")[rows], rule))
    return {"places": places}


def _terms(run: Features) -> list[str]:
    """The method's terms that project the features themselves."""
    return [name for name, term in projections(run.learner) if "features" in term.layers]


def _kept(project: torch.nn.Module, z: Tensor, z_old: Tensor, y: Tensor, rule: Rule) -> Content:
    found: Content = {}
    if isinstance(project, torch.nn.Linear):
        matrix, offset = project.weight.detach().cpu(), project.bias.detach().cpu()
    else:  # the identity, or a map that is not linear: applied first, and then nothing is left
        matrix, offset = torch.eye(z.shape[1]), torch.zeros(z.shape[1])
        with torch.no_grad():
            z = project.cpu()(z.float())
    if not isinstance(project, torch.nn.Sequential):
        shape = describe_projection(matrix)
        found = asdict(shape) | {"singular_values": six_digits(shape.singular_values)}
    return found | asdict(old_head_on_projected(z, z_old, y, matrix, offset, rule))


def _lacking(run: Features) -> str:
    if not _terms(run):
        return "projection is of methods with +bfp, +bfp2 or +fd on the features"
    return run.no_pairs()


COLUMNS = {
    "old head before": ("accuracy_before", 100),
    "on A h(x)": ("accuracy", 100),
    "agreement": ("agreement", 100),
    "residual": ("residual", 100),
    "to identity": ("to_identity", 1),
    "to orthogonal": ("to_orthogonal", 1),
    "effective rank": ("effective_rank", 1),
}


def rows(content: Content) -> Iterator[Row]:
    for place in content["places"]:
        last = place.get("epoch") is None
        epoch = "end" if last else f"{place.get('stage')} {place['epoch'] + 1}"
        numbers = {
            column: None if place.get(name) is None else factor * place[name]
            for column, (name, factor) in COLUMNS.items()
        }
        yield (place["term"], place["task"] + 1, epoch), numbers


LINEAR = ("effective_rank", "to_identity", "to_orthogonal")  # and not of other maps
SHAPE = {
    "places": [
        {"term": str, "task": int, "stage": (str, None), "epoch": (int, None)}
        | dict.fromkeys(("accuracy", "accuracy_before", "agreement", "residual"), float)
        | dict.fromkeys(LINEAR, (float, None))
        | {"singular_values": ([float], None)}
    ]
}
TITLE, PLACES = "the old head on projected features, %", ("term", "task", "epoch")
ANALYSIS = Analysis(make, SHAPE, TITLE, PLACES, rows, _lacking)
