"""What is added to methods beside backward terms: a step against plain torch, and the laws."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import linsep
from linsep import testing
from linsep.data.images import Images
from linsep.errors import ConfigError
from linsep.learning.logistic import Refitted
from linsep.learning.method import Method
from linsep.learning.model import Aligned
from linsep.learning.run import Run, StepEnd, TaskEnd
from linsep.methods import ADDONS, METHODS, assemble
from linsep.methods.added_losses import START, WorstCase
from linsep.nets.heads import LinearHead
from linsep.nets.net import Net, Output, Spec
from linsep.testing import same, toy_run
from tests.helpers.combinations import small

from .test_steps import LR, NEW, SEEN, Scene, agree, ce, follows, said, scene, stepped
from .test_steps import moved as descended

# --- the laws, over all methods ------------------------------------------------------------------


@pytest.mark.parametrize("base", METHODS)
def test_laws_hold_for_every_method_with_all_that_it_takes(base: str) -> None:
    method = testing.with_others(small(base))
    for law in testing.LAWS:
        law(method)


@pytest.mark.parametrize("base", ["er", "lwf", "gdumb"])
@pytest.mark.parametrize("law", testing.BACKWARD_LAWS, ids=lambda law: law.__name__)
def test_ser_keeps_the_laws_of_backward_terms(law: Any, base: str) -> None:
    law(assemble(base, {}), ADDONS["ser"].recipe())


def taught(method: Method, seed: int = 0, *, training: dict[str, Any] | None = None) -> Run:
    """Long enough for the net to get rows right, which alone matter to STAR."""
    return toy_run(method, seed, training={"lr": 0.1, "epochs": 5} | (training or {}))


@pytest.mark.parametrize(("base", "on"), [("er", "replay"), ("agem", "replay"), ("ft", "stream")])
def test_star_of_weight_0_changes_nothing(base: str, on: str) -> None:
    """BatchNorm's statistics among it: none of its perturbed passes is remembered."""
    star = ADDONS["star"].recipe(on=on)
    testing.ignores_a_term_of_weight_zero(assemble(base, {}), star, taught)
    steps = [e for e in taught(assemble(base, {}) + star) if isinstance(e, StepEnd)]
    assert sum(float(e.losses.get("star", 0.0)) > 0 for e in steps) > 3


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("er_ace+lode", "splits a plain cross-entropy on the stream, and this method has none"),
        ("bic+lode", "splits a plain cross-entropy"),
        ("icarl+wa", "aligns a plain linear head, and this method predicts by another rule"),
        ("lucir+wa", "aligns a plain linear head"),
        ("ft+refit", "fits a head to stored rows, and this method keeps none"),
        ("icarl+refit", "this combination already has another rule"),
        ("er+wa+refit", "this combination already has another rule"),
        ("er+refit+wa", "aligns a plain linear head, and this method predicts by another rule"),
        ("ft+star", "replays, and this method keeps no memory"),
        ("gdumb+star", "needs replay batches, and this method uses none"),
        ("er+ser+ser", "names the add-on 'ser' twice"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        assemble(name, {})
    assert "\n" not in str(error.value)


# --- SER -----------------------------------------------------------------------------------------


def test_ser() -> None:
    s = scene("er+ser", added={"ser": {"weight": 0.7}})
    old, draw = said(s.old, s.batch.x).logits, s.draws["replay_ce"]

    def loss(net: Net) -> Tensor:
        logits = net(s.batch.x).logits
        replay = ce(net(draw.x).logits, draw.y)
        return ce(logits, s.batch.y) + replay + 0.7 * ((logits - old) ** 2).sum() / old.numel()

    follows(s, loss)


# --- LODE ----------------------------------------------------------------------------------------


def lode_by_hand(o: Tensor, y: Tensor, new: list[int], all_: list[int]) -> tuple[Tensor, Tensor]:
    """Row by row, by probabilities."""
    between, within = [], []
    for row, label in zip(o, y.tolist(), strict=True):
        p = row[all_].softmax(0)
        of_new = p[[all_.index(c) for c in new]].sum()
        own = p[all_.index(label)]
        between.append(-of_new.log() if label in new else torch.zeros(()))
        within.append(-(own / of_new).log() if label in new else -own.log())
    return torch.stack(between).mean(), torch.stack(within).mean()


def test_lode() -> None:
    s = scene("er+lode", added={"lode": {"between": 0.3, "within": 0.8}})
    draw, every = s.draws["replay_ce"], [*range(6)]

    def loss(net: Net) -> Tensor:
        between, within = lode_by_hand(net(s.batch.x).logits, s.batch.y, [2, 3, 4, 5], every)
        return 0.3 * between + 0.8 * within + ce(net(draw.x).logits, draw.y)  # 2 new, 2 old

    assert follows(s, loss).keys() == {"lode_within", "lode_between", "replay_ce"}


def test_lode_leaves_rows_of_old_classes_alone() -> None:
    """GDumb's stream is the memory, and its cross-entropy is among the classes seen."""
    s = scene("gdumb+lode")
    assert set(s.batch.y.tolist()) == set(SEEN)

    def loss(net: Net) -> Tensor:
        between, within = lode_by_hand(net(s.batch.x).logits, s.batch.y, NEW, SEEN)
        return 0.1 * between + within

    follows(s, loss)


@pytest.mark.parametrize("base", ["derpp", "gdumb"])
def test_lode_of_weights_1_is_the_cross_entropy(base: str) -> None:
    even = {"lode": {"between": 1.0, "within": 1.0, "scale": "none"}}
    plain, split = toy_run(assemble(base, {})), toy_run(assemble(f"{base}+lode", even))
    for _ in zip(plain, split, strict=True):
        pass
    for a, b in zip(plain.learner.net.parameters(), split.learner.net.parameters(), strict=True):
        assert_close(a, b, rtol=1e-3, atol=1e-4)


# --- STAR ----------------------------------------------------------------------------------------


def shifted(net: Net, by: Mapping[str, Tensor]) -> Net:
    """A copy that normalises by the batch, its weights moved for real."""
    other = copy.deepcopy(net).train().requires_grad_(True)
    with torch.no_grad():
        for name, p in other.named_parameters():
            p.add_(by.get(name, torch.zeros_like(p)))
    return other


def kl(p: Tensor, logits: Tensor) -> Tensor:
    q = logits.exp() / logits.exp().sum(1, keepdim=True)
    return (p * (p.log() - q.log())).sum(1).mean()


def star_by_hand(net: Net, x: Tensor, y: Tensor, key: int, radius: float) -> list[Tensor]:
    """The gradient: of the divergence at perturbed weights, for every parameter of the net."""
    p = shifted(net, {})(x).logits.softmax(1).detach()
    right = p.argmax(1) == y
    assert 2 <= right.sum() < len(right)
    random = torch.Generator().manual_seed(key)
    start, sizes = {}, {}
    for name, w in net.named_parameters():
        if w.ndim > 1:
            z = torch.randn(w.shape, generator=random)
            sizes[name] = w.detach().square().sum().sqrt()
            start[name] = START * radius * sizes[name] * z / z.square().sum().sqrt()
    near = shifted(net, start)
    kl(p[right], near(x).logits[right]).backward()
    slopes = {name: w.grad for name, w in near.named_parameters() if w.grad is not None}
    worst = {n: radius * sizes[n] * slopes[n] / slopes[n].square().sum().sqrt() for n in sizes}
    far = shifted(net, worst)
    return list(torch.autograd.grad(kl(p[right], far(x).logits[right]), list(far.parameters())))


def star_scene(radius: float, weight: float) -> tuple[Scene, WorstCase]:
    """A draw of which the net gets some rows right and some wrong."""
    s = scene("er+star", added={"star": {"weight": weight, "radius": radius}})
    draw, term = s.draws["star"], s.run.learner.terms["star"]
    assert isinstance(term, WorstCase)
    best = copy.deepcopy(s.net).train()(draw.x).logits.argmax(1)
    wrong = (best + 1) % 6
    y = torch.where(torch.arange(len(best)) < 3, best, wrong)
    return s._replace(draws={**s.draws, "star": draw._replace(y=y)}), term


def test_star() -> None:
    s, term = star_scene(radius=0.2, weight=0.9)
    draw, own = s.draws["replay_ce"], s.draws["star"]
    g = star_by_hand(s.net, own.x, own.y, int(term.key), 0.2)

    def loss(net: Net) -> Tensor:
        return ce(net(s.batch.x).logits, s.batch.y) + ce(net(draw.x).logits, draw.y)

    expected = descended(s.net, loss)
    with torch.no_grad():
        for p, slope in zip(expected.parameters(), g, strict=True):
            p.sub_(LR * 0.9 * slope)
    key = int(term.key)
    stepped(s)
    agree(s.run.learner.net, expected)
    assert max(float((LR * 0.9 * slope).abs().max()) for slope in g) > 1e-4  # it can be noticed
    assert int(term.key) == key + 1


# --- WA ------------------------------------------------------------------------------------------


def test_weight_alignment_by_hand() -> None:
    """Old rows of length 3 and 5, new ones of 6 and 10: the new ones are halved, biases stay."""
    head = LinearHead(2, 5)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[3.0, 0], [0, 5], [6, 0], [0, 10], [7, 7]]))
        head.bias.copy_(torch.tensor([0.0, 1, 2, 3, 4]))
    rule = Aligned(Spec((1, 2, 2), (1, 2, 2), 5, {"features": 2}))
    task = SimpleNamespace(earlier=(0, 1), classes=(2, 3))
    context: Any = SimpleNamespace(net=SimpleNamespace(head=head), task=task)
    nothing: Any = ()
    rule.fit(context, nothing)
    z = torch.tensor([[1.0, -2.0]])
    scores = rule(Output(head(z), z, {}))
    assert_close(scores.detach(), torch.tensor([[3.0, -10 + 1, 3 + 2, -10 + 3, 7 - 14 + 4]]))
    weight, bias = rule.as_linear(head)
    assert_close(z @ weight.T + bias, scores.detach())
    task.earlier = ()
    rule.fit(context, nothing)
    assert_close(rule(Output(head(z), z, {})), head(z))


# --- a head fitted anew ---------------------------------------------------------------------------


def blank(labels: Sequence[int]) -> Images:
    x = torch.zeros(len(labels), 1, 1, 1, dtype=torch.uint8)
    return Images.of(x, torch.tensor(labels, dtype=torch.int64))


def refitted(
    z: Tensor, stored: Sequence[int], c: float, shown: Sequence[int], earlier: Sequence[int] = (0,)
) -> tuple[Refitted, LinearHead]:
    """The rule after a task that showed these classes, and the head trained in it.

    The features are the stored rows'.
    """
    seen = tuple(sorted({*stored, *shown}))
    classes = seen[-1] + 1
    spec = Spec((1, 2, 2), (1, 2, 2), classes, {"features": z.shape[1]})
    rule, head = Refitted(spec, c=c), LinearHead(z.shape[1], classes)
    task = SimpleNamespace(index=1, seen=seen, earlier=earlier, train=blank(shown))
    context: Any = SimpleNamespace(
        evaluate=lambda images: Output(z, z, {}), task=task, net=SimpleNamespace(head=head)
    )
    rule.fit(context, blank(stored))
    return rule, head


@pytest.mark.parametrize("c", [0.03, 1.0])
def test_the_refitted_head_is_scikit_learn_s_on_standardised_features(c: float) -> None:
    linear: Any = pytest.importorskip("sklearn.linear_model")
    scaled: Any = pytest.importorskip("sklearn.preprocessing").StandardScaler()
    y = [0, 1, 3] * 20  # class 2 has not been seen
    g = torch.Generator().manual_seed(0)
    z = torch.randn(60, 5, generator=g) * torch.tensor([1.0, 10, 0.1, 3, 0]) + 7  # one is dead
    z[:, 0] += torch.tensor(y)
    rule, _ = refitted(z, y, c, [3])
    new = torch.randn(40, 5, generator=g) * 3 + 7
    new[:, 4] = 7
    x = scaled.fit_transform(z.double().numpy())
    other = linear.LogisticRegression(C=c, tol=1e-9, max_iter=10_000).fit(x, y)
    expected = torch.from_numpy(other.predict_proba(scaled.transform(new.double().numpy())))
    scores = rule(Output(new, new, {}))
    assert_close(scores.double().softmax(1)[:, [0, 1, 3]], expected, rtol=0, atol=1e-4)
    assert (scores.argmax(1) != 2).all()
    weight, bias = rule.as_linear(LinearHead(5, 4))
    assert_close(new @ weight.T + bias, scores)


@pytest.mark.parametrize(
    ("shown", "earlier", "trained"),
    [
        ([2, 0, 1], [0], True),
        ([2, 0], [0], False),
        ([2, 0, 1, 2], [0], True),  # half as many of 0 and 1 as of 2
        ([2, 0, 1, 2, 2], [0], False),  # less than half
        ([2, 0, 1, 2, 2], [], True),  # a first task: nothing is old
    ],
)
def test_after_a_task_that_shows_enough_of_every_class_the_trained_head_predicts(
    shown: list[int], earlier: list[int], trained: bool
) -> None:
    z = torch.randn(5, 2)
    rule, head = refitted(z, [0, 1, 2, 0, 1], 0.1, shown, earlier)
    assert torch.allclose(rule(Output(z, z, {})), head(z)) == trained


@pytest.mark.parametrize(("classes", "trained"), [(9, True), (10, False), (11, False)])
def test_if_too_many_classes_lack_rows_the_trained_head_predicts(
    classes: int, trained: bool
) -> None:
    """More than a tenth: here class 1 lacks them, and is else never predicted."""
    z = torch.randn(classes - 1, 2)
    rule, head = refitted(z, [0, *range(2, classes)], 0.1, [1, 2, 2, 2])
    scores = rule(Output(z, z, {}))
    assert torch.allclose(scores, head(z)) == trained
    assert trained or (scores.argmax(1) != 1).all()


# --- rules of prediction in a run ----------------------------------------------------------------

TRAINING = ("net", "previous_net", "terms", "memory", "seen", "optimizers")
RECALIBRATED = {"batchnorm": "recalibrated"}


@pytest.mark.parametrize(
    ("base", "added", "evaluation"),
    [
        ("derpp+bfp", "+ema", {}), ("gdumb", "+ema", {}), ("derpp", "+wa", {}),
        ("gdumb", "+wa", {}), ("derpp", "+refit", {}), ("bic", "+refit", {}),
        ("ft+bfp", "+transport", {}), ("lucir", "+transport", {}),
        ("derpp+bfp", "", RECALIBRATED), ("icarl", "", RECALIBRATED),
    ],
)  # fmt: skip
def test_training_does_not_notice(base: str, added: str, evaluation: dict[str, str]) -> None:
    plain = toy_run(assemble(base, {}))
    other = toy_run(assemble(base + added, {}), evaluation=evaluation)
    differs = False
    for _, event in zip(plain, other, strict=True):
        a, b = plain.learner.state_dict(), other.learner.state_dict()
        for part in TRAINING:
            alike = same(a[part], b[part])
            assert alike or (part == "previous_net" and a[part] is None), part
        if isinstance(event, TaskEnd):
            images = plain.scenario.groups[0].test
            scores = [run.learner.predict(images) for run in (plain, other)]
            differs |= not torch.equal(*scores)
    assert differs


def test_aligned_rows_are_as_long_as_the_older_ones() -> None:
    run = toy_run(assemble("derpp+wa", {}))
    for event in run:
        if isinstance(event, TaskEnd) and event.task:
            new = list(run.scenario.tasks[event.task].classes)
            scale, head = run.learner.predictor.state_dict()["scale"], run.learner.net.head
            assert isinstance(head, LinearHead)
            lengths = scale * head.weight.detach().norm(dim=1)
            assert_close(lengths[new].mean(), lengths[: min(new)].mean())
            assert {c for c in range(6) if scale[c] != 1} == set(new)


def test_an_addition_of_ones_own_may_change_more_than_the_sum() -> None:
    """A function from a method to a method, here to one that learns at another rate."""

    def slower(*, by: float = 2.0) -> Any:
        return lambda method: replace(method, lr=method.lr / by)

    config = linsep.Config(scenario="blobs", method=["derpp", slower], training={"epochs": 1})
    assert linsep.build(config).learner.method.lr == assemble("derpp", {}).lr / 2

    def nonsense() -> Any:
        return lambda method: "nothing"

    with pytest.raises(
        ConfigError, match="nonsense should return an add-on, such as a WeightedTerm, not"
    ):
        linsep.build(linsep.Config(scenario="blobs", method=["derpp", nonsense]))
