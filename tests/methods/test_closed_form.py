"""Methods that train nothing: one rule whatever the order, and LDA as scikit-learn has it."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NearestCentroid
from torch import Tensor
from torch.testing import assert_close

from linsep import IncrementalClassifier
from linsep.data.images import Images
from linsep.learning.model import Predictor
from linsep.learning.run import TaskEnd
from linsep.methods import assemble
from linsep.nets.net import Output, Spec
from linsep.testing import same, toy_run
from tests.helpers.combinations import STILL

CLASSES, D, EACH = 5, 7, 24
SPEC = Spec((D,), (D,), CLASSES, {"features": D})
OPTIONS: dict[str, dict[str, Any]] = {"ranpac": {"width": 16}, "acil": {"width": 16}}


def rule(name: str, **options: Any) -> Predictor:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        chosen = {name: OPTIONS.get(name, {}) | options}
        return assemble(name, chosen).predictor(SPEC)


def context(z: Tensor, y: Tensor) -> Any:
    task = SimpleNamespace(index=0, train=Images.of(z, y))
    return SimpleNamespace(
        task=task, before=None, terms=(), evaluate=lambda part: Output(part.y, part.pixels(), {})
    )


def learn(made: Predictor, z: Tensor, y: Tensor) -> Predictor:
    made.fit(context(z, y), Images.of(z[:0], y[:0]))
    return made


def clouds(shift: float = 0.0) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(0)
    y = np.arange(CLASSES).repeat(EACH)
    mixed = rng.normal(size=(D, D))
    z = 2 * rng.normal(size=(CLASSES, D))[y] + rng.normal(size=(len(y), D)) @ mixed
    return torch.from_numpy(z + shift).float(), torch.from_numpy(y)


def scores(made: Predictor, z: Tensor) -> Tensor:
    found: Tensor = made(Output(z, z, {}))
    return found.double()


def divisions(y: Tensor) -> Sequence[Sequence[Tensor]]:
    """Class by class, in any order, one row at a time, and a class in many tasks."""
    n, g = len(y), torch.Generator().manual_seed(3)
    mixed = torch.randperm(n, generator=g)
    return [
        [(y == c).nonzero()[:, 0] for c in range(CLASSES)],
        [(y == c).nonzero()[:, 0] for c in (3, 1, 4, 0, 2)],
        mixed.chunk(4), mixed.split(1), [torch.arange(n)],
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["ncm", "slda", "acil"])
def test_any_division_and_order_give_one_rule(name: str) -> None:
    z, y = clouds(shift=30.0)
    whole = scores(learn(rule(name), z, y), z)
    for tasks in divisions(y):
        made = rule(name)
        for rows in tasks:
            learn(made, z[rows], y[rows])
        assert_close(scores(made, z), whole, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", STILL)
def test_rows_that_come_later_count_like_the_others(name: str) -> None:
    """`add` after `fit`, as for the rows that a classifier has held out."""
    z, y = clouds()
    made = learn(rule(name), z[::2], y[::2])
    ridge = made.state_dict().get("ridge")
    made.add(context(z[1::2], y[1::2]))
    other = learn(rule(name), z[::2], y[::2])
    assert not same(scores(made, z), scores(other, z))
    if name == "ranpac":
        assert torch.equal(made.state_dict()["ridge"], ridge)  # type: ignore[arg-type]
    else:
        assert_close(scores(made, z), scores(learn(rule(name), z, y), z), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shrinkage", [0.05, 0.1, 0.7])
def test_lda_is_scikit_learns(shrinkage: float) -> None:
    """With equal priors and as many rows of each class; scores up to what all classes share."""
    z, y = clouds()
    made = learn(rule("slda", shrinkage=shrinkage), z, y)
    priors = [1 / CLASSES] * CLASSES
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage, priors=priors)
    wanted = torch.from_numpy(theirs.fit(z.double().numpy(), y.numpy()).decision_function(z))
    mine = scores(made, z)
    centred = [s - s.mean(1, keepdim=True) for s in (mine, wanted)]
    assert_close(*centred, rtol=1e-4, atol=1e-4)


def test_the_nearest_mean_is_scikit_learns() -> None:
    z, y = clouds()
    theirs = NearestCentroid().fit(z.numpy(), y.numpy()).predict(z.numpy())
    assert scores(learn(rule("ncm"), z, y), z).argmax(1).tolist() == theirs.tolist()


def test_it_is_transport_where_features_are_at_rest() -> None:
    runs = [toy_run(assemble(name, {}), train=("head",)) for name in ("slda", "ft+transport")]
    ends = [[event for event in run if isinstance(event, TaskEnd)] for run in runs]
    assert [one.class_il for one in ends[0]] == [other.class_il for other in ends[1]]
    found, other = (run.learner.predictor.state_dict() for run in runs)
    assert same(dict(found), dict(other))


@pytest.mark.parametrize("name", STILL)
def test_nothing_is_trained(name: str) -> None:
    run = toy_run(assemble(name, {}))
    before = {k: v.clone() for k, v in run.learner.net.state_dict().items()}
    assert run.steps() == (0, 0)
    for _ in run:
        pass
    assert same(dict(run.learner.net.state_dict()), before)
    assert run.passes()[0] == run.passes()[1]


# --- in a classifier ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ncm", "slda", "acil"])
def test_a_classifier_without_memory_learns_what_it_held_out(method: str) -> None:
    """However the lessons are cut: rows that were tested on are learned when the test is over."""
    z, y = (part.numpy() for part in clouds())
    names, rng = np.array(list("abcde"))[y], np.random.default_rng(1)
    order = rng.permutation(len(y))
    answers = []
    for rows in ([order], np.array_split(order, 3), [np.flatnonzero(y == c) for c in range(5)]):
        clf = IncrementalClassifier(
            method, "identity", memory=0, test_share=0.25,
            settings={"options": {method: OPTIONS[method]}} if method in OPTIONS else None,
        )  # fmt: skip
        for part in rows:
            clf.partial_fit(z[part], names[part])
        assert len(clf.history_) == len(rows)
        answers.append(clf.decision_function(z))
    for one in answers[1:]:
        assert np.allclose(one, answers[0], rtol=1e-3, atol=1e-3)
