"""Class statistics carried from network to network: by hand, against references, and by laws."""

import copy
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from linsep.data.images import Images
from linsep.errors import ConfigError, DivergedError
from linsep.learning.learner import Learner
from linsep.learning.projection import BackwardProjection
from linsep.learning.run import Run, TaskEnd
from linsep.learning.statistics import Affine, Statistics
from linsep.learning.transport import Inverted, Linear, Transported
from linsep.methods import assemble
from linsep.nets.heads import LinearHead
from linsep.nets.net import Output, Spec
from linsep.testing import toy_run

Features = tuple[Tensor, Sequence[int]]  # (n, d) and a label for each row
D = 5


def rule(classes: int = 4, d: int = D, **options: Any) -> Transported:
    made = assemble("ft+bfp+transport", {"transport": options}).predictor(
        Spec((1, 1, 1), (1, 1, 1), classes, {"features": d})
    )
    assert isinstance(made, Transported)
    return made


def images(labels: Sequence[int]) -> Images:
    x = torch.zeros(len(labels), 1, 1, 1, dtype=torch.uint8)
    return Images.of(x, torch.tensor(labels, dtype=torch.int64))


def learn(
    made: Transported,
    now: Features,
    before: Tensor | None = None,
    *,
    stored: Features | None = None,
    stored_before: Tensor | None = None,
    terms: Sequence[nn.Module] = (),
) -> Transported:
    """Teach a task whose images have these features, now and in the previous network."""
    seen = tuple(made.statistics.known.tolist())
    train, kept = images(now[1]), images(() if stored is None else stored[1])
    looks = {id(train.sources): (now[0], before)}
    if stored is not None:
        looks[id(kept.sources)] = stored[0], stored_before

    def evaluate(part: Images, which: int) -> Output:
        z = looks[id(part.sources)][which]
        assert z is not None
        return Output(z[part.rows], z[part.rows], {})

    new = tuple(sorted(set(now[1]) - set(seen)))
    context: Any = SimpleNamespace(
        task=SimpleNamespace(index=len(seen), classes=new, earlier=seen, train=train),
        evaluate=lambda part: evaluate(part, 0),
        before=None if before is None else (lambda part: evaluate(part, 1)),
        terms=terms,
    )
    made.fit(context, kept)
    return made


def cloud(n: int, mean: float | Tensor = 0.0, seed: int = 0, d: int = D) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    mixed = torch.randn(d, d, generator=g, dtype=torch.float64)
    return torch.randn(n, d, generator=g, dtype=torch.float64) @ mixed + mean


def scores(made: Transported, z: Tensor) -> Tensor:
    return made(Output(z, z, {}))


# --- without drift: streaming LDA ----------------------------------------------------------------


@pytest.mark.parametrize("shrinkage", [0.1, 0.5])
def test_without_drift_it_is_scikit_learn_s_discriminant_analysis(shrinkage: float) -> None:
    """Unequal classes, whose priors scikit-learn counts; ours are equal unless asked for."""
    analysis: Any = pytest.importorskip("sklearn.discriminant_analysis")
    sizes = (40, 25, 60)
    z = torch.cat([cloud(n, float(c), seed=c) for c, n in enumerate(sizes)])
    y = [c for c, n in enumerate(sizes) for _ in range(n)]
    other = analysis.LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage)
    other.fit(z.numpy(), y)
    new = cloud(30, seed=9)
    for prior, expected in (
        ("counts", other.intercept_),
        ("equal", other.intercept_ - np.log(np.array(sizes) / sum(sizes))),
    ):
        mine = rule(3, shrinkage=shrinkage, prior=prior)
        learn(mine, (z[:65], y[:65]))  # two tasks
        learn(mine, (z[65:], y[65:]))
        ours = scores(mine, new).double()
        theirs = torch.from_numpy(new.numpy() @ other.coef_.T + expected)
        assert_close(ours.softmax(1), theirs.softmax(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("covariance", ["shared", "class", "none"])
def test_without_drift_neither_order_nor_tasks_matter(covariance: str) -> None:
    """One task or twenty, classes that return, one image at a time: one rule, to rounding."""
    z = torch.cat([cloud(20, float(c) + 100, seed=c) for c in range(4)])
    y = torch.arange(4).repeat_interleave(20)
    new = cloud(30, 101.0, seed=9)
    whole = scores(learn(rule(covariance=covariance), (z, y.tolist())), new)
    for seed, tasks in ((1, 20), (2, 3), (3, 80)):
        order = torch.randperm(80, generator=torch.Generator().manual_seed(seed))
        mine = rule(covariance=covariance)
        for rows in order.chunk(tasks):
            learn(mine, (z[rows], y[rows].tolist()))
        assert_close(scores(mine, new), whole, rtol=1e-4, atol=1e-3)
        assert_close(mine.statistics.mean, mean_by_class(z, y), rtol=1e-12, atol=1e-10)


def mean_by_class(z: Tensor, y: Tensor) -> Tensor:
    return torch.stack([z[y == c].mean(0) for c in range(4)])


# --- carried, by hand and against slow references ------------------------------------------------


def test_a_worked_example() -> None:
    """One feature. Class 0 has 0 and 2: mean 1, scatter 2. Then features move by z -> 3 z - 2.

    Carried, class 0 has mean 1 and scatter 18. The images of class 1 move from 9 and 13 to 25 and
    37: mean 31, scatter 72. The variance within classes is 90 / 4, and sides change at 16.
    """
    made = rule(2, 1, ridge=1e-9, shrinkage=0.0)
    learn(made, (torch.tensor([[0.0], [2.0]]), [0, 0]))
    old = torch.tensor([[9.0], [13.0]])
    learn(made, (3 * old - 2, [1, 1]), old)
    mean, scatter = made.statistics.mean, made.statistics.scatter
    assert_close(mean, torch.tensor([[1.0], [31.0]], dtype=torch.float64), rtol=1e-6, atol=1e-6)
    assert_close(scatter, torch.tensor([[18.0 + 72.0]], dtype=torch.float64), rtol=1e-6, atol=1e-6)
    weight, bias = made.as_linear(LinearHead(1, 2))
    assert_close(weight[:, 0].diff(), torch.tensor([30.0]) / 22.5)
    assert_close(bias.diff(), -torch.tensor([31.0**2 - 1]) / 45)
    side = scores(made, torch.tensor([[15.9], [16.1]])).argmax(1)
    assert side.tolist() == [0, 1]


def test_a_drift_that_is_affine_is_undone_exactly() -> None:
    """Statistics carried over three tasks are those of the images in the last network."""
    made = rule(8, ridge=1e-12)
    moves = [(cloud(D, seed=20 + t), cloud(1, seed=30 + t)) for t in range(4)]
    origin = [(cloud(30, float(t), seed=t), [2 * t, 2 * t + 1] * 15) for t in range(4)]

    def at(z: Tensor, t: int) -> Tensor:
        for matrix, shift in moves[1 : t + 1]:
            z = z @ matrix + shift
        return z

    for t, (z, y) in enumerate(origin):
        learn(made, (at(z, t), y), at(z, t - 1) if t else None)
    exact = Statistics(8, D)
    for z, y in origin:
        exact.add(at(z, 3), torch.tensor(y))
    assert_close(made.statistics.mean, exact.mean, rtol=1e-6, atol=1e-6)
    assert_close(made.statistics.scatter, exact.scatter, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_the_map_is_a_ridge_regression_of_the_drift(ridge: float) -> None:
    """In plain numpy, and summed in any chunks; an image of weight 3 is three images."""
    old, new = cloud(40, 7.0, seed=1), cloud(40, seed=2)
    weights = torch.ones(40, dtype=torch.float64)
    weights[:10] = 3
    drift = Linear(D, ridge, 1.0)
    for rows in torch.arange(40).split(7):
        drift.add(old[rows], new[rows], weights[rows])
    found = drift.map()
    o, n = (np.repeat(z.numpy(), weights.int().numpy(), axis=0) for z in (old, new))
    oc, dc = o - o.mean(0), (n - o) - (n - o).mean(0)
    penalty = ridge * np.trace(oc.T @ oc) / 40  # of 40 images, whatever they stand for
    w = np.eye(D) + np.linalg.solve(oc.T @ oc + penalty * np.eye(D), oc.T @ dc)
    b = n.mean(0) - o.mean(0) @ w
    missed = n - (o @ w + b)
    assert_close(found.weight, torch.from_numpy(w))
    assert_close(found.bias, torch.from_numpy(b))
    assert_close(found.residual, torch.from_numpy(missed.T @ missed / len(o)))


@pytest.mark.parametrize("per_class", [False, True])
def test_what_the_map_misses_widens_the_classes(per_class: bool) -> None:
    statistics = Statistics(2, 2, per_class=per_class)
    statistics.add(torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 0, 1]))
    eye = torch.eye(2, dtype=torch.float64)
    statistics.carry(Affine(2 * eye, torch.ones(2, dtype=torch.float64), eye), 0.5)
    assert statistics.mean.tolist() == [[5.0, 1.0], [1.0, 1.0]]
    # Scatter 2 along the first feature becomes 8; each of the images adds half of the residual.
    each = torch.tensor([[[8.0, 0], [0, 0]], [[0.0, 0], [0, 0]]], dtype=torch.float64)
    each[0] += eye
    each[1] += eye / 2
    assert_close(statistics.scatter, each if per_class else each.sum(0))
    assert_close(statistics.covariance(), each.sum(0) / 3)


def test_sdc_is_the_published_formula() -> None:
    """Yu et al. (2020), eq. 9 and 10; by loops, with the floor of their program."""
    made = rule(4, map="sdc", sigma=0.7)
    learn(made, (cloud(30, seed=1), [0, 1, 2] * 10))
    before = made.statistics.mean.clone()
    width = 0.7 * float(made.statistics.covariance().trace()) ** 0.5
    old, new = cloud(20, 1.0, seed=2), cloud(20, seed=3)
    learn(made, (new, [3] * 20), old)
    for c in range(3):
        total, moved = 0.0, torch.zeros(D, dtype=torch.float64)
        for o, n in zip(old, new, strict=True):
            w = float(torch.exp(-((o - before[c]) ** 2).sum() / (2 * width**2))) + 1e-5
            total, moved = total + w, moved + w * (n - o)
        assert_close(made.statistics.mean[c], before[c] + moved / total)


def test_dpcr_is_the_published_formula() -> None:
    """He et al. (2025): both projections, and the ridge head of normalised rows."""
    made = rule(3, map="dpcr", gamma=2.0)
    first = torch.cat([cloud(9, 1.0, seed=1), cloud(9, 2.0, seed=2)])
    first[:9, 4] = 0.0  # class 0 fills four dimensions of five
    labels = [0] * 9 + [1] * 9
    learn(made, (first, labels))
    old, new = cloud(20, 1.0, seed=3), cloud(20, seed=4)
    learn(made, (new, [2] * 20), old)
    projection = (
        torch.linalg.inv(old.T @ old + 1e-9 * torch.eye(D, dtype=torch.float64)) @ old.T @ new
    )
    grams, sums = [], []
    for c in (0, 1):
        z = first[torch.tensor(labels) == c]
        u, s, _ = torch.linalg.svd(z.T @ z)
        u = u[:, s > 1e-9]
        w = projection @ u @ u.T
        grams.append(w.T @ (z.T @ z) @ w)
        sums.append(len(z) * z.mean(0) @ w)
    grams.append(new.T @ new)
    sums.append(new.sum(0))
    whole = torch.stack(grams).sum(0) + 2.0 * torch.eye(D, dtype=torch.float64)
    head = torch.linalg.inv(whole) @ torch.stack(sums).T
    expected = (head / head.norm(dim=0)).T
    weight, bias = made.as_linear(LinearHead(D, 3))
    assert_close(weight.double(), expected, rtol=1e-4, atol=1e-5)
    assert not bias.any()


def test_the_learned_map_is_inverted_by_least_squares() -> None:
    """An exact A is undone exactly; the regression finds the same map."""
    a, shift = cloud(D, seed=1), cloud(1, seed=2)[0]
    new = cloud(40, seed=3)
    old = new @ a.T + shift
    found = Inverted(a, shift, 1e-12, 0.0)
    found.add(old, new, torch.ones(40, dtype=torch.float64))
    assert_close(found.map()(old), new, rtol=1e-6, atol=1e-6)
    assert found.map().residual.abs().max() < 1e-6


def test_class_covariances_are_drawn_towards_the_shared_one() -> None:
    """By hand for two classes on a line: scores are Gaussian log densities."""
    made = rule(2, 1, covariance="class", pooling=0.5, shrinkage=0.0)
    z = torch.tensor([[-1.0], [1.0], [10 - 3.0], [10 + 3.0]])
    learn(made, (z, [0, 0, 1, 1]))
    shared = (1 + 9) / 2
    variances = torch.tensor([(1 + shared) / 2, (9 + shared) / 2])
    x = torch.linspace(-3, 12, 7)[:, None]
    away = (x - torch.tensor([0.0, 10.0])) ** 2
    assert_close(scores(made, x), -away / variances / 2 - variances.log() / 2)
    with pytest.raises(ConfigError, match="quadratic rule; analyses of linear rules need 'shared'"):
        made.as_linear(LinearHead(1, 2))


def test_stored_images_stand_for_their_class_and_correct_its_mean() -> None:
    """Two stored images of a class of 60 weigh 30 each in the map."""
    first = cloud(60, 3.0, seed=1)
    kept, kept_now = first[:2], cloud(2, 9.0, seed=5)
    old, new = cloud(30, seed=2), cloud(30, 1.0, seed=3)
    made = rule(2, ridge=0.3)
    learn(made, (first, [0] * 60))
    mean = made.statistics.mean[0].clone()
    learn(made, (new, [1] * 30), old, stored=(kept_now, [0, 0]), stored_before=kept)
    drift = Linear(D, 0.3, 0.5)
    drift.add(old, new, torch.ones(30, dtype=torch.float64))
    drift.add(kept, kept_now, torch.full((2,), 30.0, dtype=torch.float64))
    through = drift.map()
    missed = (kept_now - through(kept)).mean(0)
    assert_close(made.statistics.mean[0], through(mean[None])[0] + 2 / 62 * missed)


# --- whatever comes ------------------------------------------------------------------------------


def test_features_that_are_no_numbers_are_a_divergence() -> None:
    z = cloud(4)
    z[2, 1] = torch.nan
    with pytest.raises(DivergedError, match=r"features are no longer numbers after task 1; try a"):
        learn(rule(), (z, [0] * 4))


# --- in a run: the laws --------------------------------------------------------------------------


def recalibrated(method: Any, seed: int = 0, **more: Any) -> Run:
    return toy_run(method, seed, evaluation={"batchnorm": "recalibrated"}, **more)


@pytest.mark.parametrize("toy", [toy_run, recalibrated])
def test_the_previous_network_is_the_one_that_predicted(toy: Callable[..., Run]) -> None:
    """The first task's statistics, carried with the networks that predicted before and after."""
    run = toy(assemble("er+transport", {"transport": {"ridge": 1.0}}))
    past: Learner | None = None
    for event in run:
        if not isinstance(event, TaskEnd):
            continue
        if event.task == 0:
            past = copy.deepcopy(run.learner)
        if event.task == 1:
            break
    assert past is not None
    task, mine = run.scenario.tasks[1], run.learner.predictor
    assert isinstance(mine, Transported)
    kept = run.learner.memory.images().select(task.earlier)
    before = past.predictor
    assert isinstance(before, Transported)
    expected = rule(len(mine.bias), run.learner.spec.features, ridge=1.0)
    expected.load_state_dict(before.state_dict())
    both = [learner.embed(task.train) for learner in (run.learner, past)]
    stored = [learner.embed(kept) for learner in (run.learner, past)]
    learn(
        expected, (both[0], task.train.y.tolist()), both[1],
        stored=(stored[0], kept.y.tolist()), stored_before=stored[1],
    )  # fmt: skip
    assert_close(mine.weight, expected.weight, rtol=1e-4, atol=1e-4)


# --- the map from old to new that BFP trains beside its own --------------------------------------


def test_the_cycle_teaches_the_network_nothing() -> None:
    """The gradient of the features is that of BFP alone; A learns from both ways round."""
    torch.manual_seed(0)
    plain, cycle = BackwardProjection(3), BackwardProjection(3, cycle=True)
    cycle.load_state_dict(plain.state_dict(), strict=False)
    new, old = torch.randn(8, 3, requires_grad=True), torch.randn(8, 3)
    grads = [torch.autograd.grad(made(new, old), new)[0] for made in (plain, cycle)]
    assert torch.equal(*grads)
    b = cycle.ahead
    assert b is not None

    def apart(x: Tensor, y: Tensor) -> Tensor:
        return ((x - y) ** 2).sum(1).sqrt().mean() / 3**0.5

    a = cycle.project
    expected = (
        apart(a(new), old) + apart(b(old), new) + apart(b(a(new)), new) + apart(a(b(old)), old)
    )
    assert_close(cycle(new, old), expected)


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("ft+transport", {"map": "bfp"}, "is the map that BFP learns; add it before"),
        ("ft+transport", {"map": "dpcr", "covariance": "class"}, "has a rule of its own"),
        ("icarl+transport", {}, "this combination already has another rule"),
        ("er+refit+transport", {}, "this combination already has another rule"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    name: str, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        assemble(name, {"transport": options})
    assert "\n" not in str(error.value)
