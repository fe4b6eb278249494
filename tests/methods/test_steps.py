"""One step of every baseline in its second task, against plain torch that is told only the batches.

A reference gets copies of the net, of the old net and of the step's batches, computes a loss in its
own words and moves each parameter by -lr times its gradient.
"""

import copy
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from linsep.data.images import Batch
from linsep.learning.run import Run
from linsep.learning.terms import Step
from linsep.methods import assemble
from linsep.methods.distillation import BalancedDistillation
from linsep.methods.penalties import FisherPenalty, PathPenalty
from linsep.nets.net import Net, Output, Spec, flat
from linsep.testing import toy_run

LR = 0.05
OLD, NEW, SEEN, FUTURE = [0, 1], [2, 3], [0, 1, 2, 3], [4, 5]


class Scene(NamedTuple):
    """Before a step: what a reference may know."""

    run: Run
    net: Net
    old: Net
    batch: Batch
    draws: Mapping[str, Batch]


def scene(
    name: str,
    options: Mapping[str, object] | None = None,
    step: int = 1,
    added: Mapping[str, Mapping[str, object]] | None = None,
) -> Scene:
    """The second task, one step done; the net of the first task's end, kept by this test."""
    method = assemble(name, {name.partition("+")[0]: options or {}} | dict(added or {}))
    run = toy_run(method, training={"lr": LR, "momentum": 0.0})
    old = copy.deepcopy(run.learner.net)
    for _ in run:
        if run.cursor.task == 1 and run.cursor == (1, 0, 0, 0):
            old = copy.deepcopy(run.learner.net).eval()
        if run.cursor == (1, 0, 0, step):
            break
    task, stage = run.scenario.tasks[1], run.learner.method.stages[0]
    data = run.learner.bind(task, stage).rows
    both = torch.cat([(data.y == c).nonzero()[:2, 0] for c in data.y.unique()])
    batch = run.learner.batch(data.take(both), "augment", run.cursor)
    draws = run.learner.replay_batches(run.learner.bind(task, stage), run.cursor)
    return Scene(run, copy.deepcopy(run.learner.net), old, batch, draws)


def stepped(s: Scene, draws: Mapping[str, Batch] | None = None) -> dict[str, Tensor]:
    run, stage = s.run, s.run.learner.method.stages[0]
    at = run.learner.bind(run.scenario.tasks[1], stage)
    losses, _ = run.learner.step(at, s.batch, s.draws if draws is None else draws, 0)
    return losses


def moved(net: Net, loss: Callable[[Net], Tensor]) -> Net:
    """Plain gradient descent on a copy."""
    net = copy.deepcopy(net).train().requires_grad_(True)
    gradients = torch.autograd.grad(loss(net), list(net.parameters()), materialize_grads=True)
    with torch.no_grad():
        for p, g in zip(net.parameters(), gradients, strict=True):
            p.sub_(LR * g)
    return net


def agree(found: Net, expected: Net) -> None:
    for (name, a), b in zip(found.named_parameters(), expected.parameters(), strict=True):
        assert_close(a.detach(), b.detach(), rtol=1e-5, atol=1e-6, msg=name)


def follows(s: Scene, loss: Callable[[Net], Tensor]) -> dict[str, Tensor]:
    """Make the step, which must be plain descent on this loss."""
    expected = moved(s.net, loss)
    losses = stepped(s)
    agree(s.run.learner.net, expected)
    return losses


def ce(logits: Tensor, y: Tensor) -> Tensor:
    """In other words than the library's."""
    return (logits.exp().sum(1).log() - logits[torch.arange(len(y)), y]).mean()


def soft_ce(logits: Tensor, old: Tensor, t: float) -> Tensor:
    q = (logits / t).exp() / (logits / t).exp().sum(1, keepdim=True)
    p = (old / t).exp() / (old / t).exp().sum(1, keepdim=True)
    return -(p * q.log()).sum(1).mean()


@torch.no_grad()
def said(net: Net, x: Tensor) -> Output:
    out = net.eval()(x)
    assert isinstance(out, Output)
    return out


def test_er_ace() -> None:
    s = scene("er_ace")
    only_two = s.batch.y == 2  # class 3 is seen but absent: it does not compete either
    batch = s.batch._replace(x=s.batch.x[only_two], y=s.batch.y[only_two])
    s = s._replace(batch=batch)

    def loss(net: Net) -> Tensor:
        stream = net(batch.x).logits[:, [2, *FUTURE]]
        replay = s.draws["replay_ce"]
        return ce(stream, torch.zeros_like(batch.y)) + ce(net(replay.x).logits, replay.y)

    follows(s, loss)


def test_er_ace_is_plain_in_its_first_task() -> None:
    run = toy_run(assemble("er_ace", {}), training={"lr": LR, "momentum": 0.0})
    task, stage = run.scenario.tasks[0], run.learner.method.stages[0]
    batch = run.learner.batch(task.train, "augment", run.cursor)
    expected = moved(run.learner.net, lambda net: ce(net(batch.x).logits, batch.y))
    assert run.learner.replay_batches(run.learner.bind(task, stage), run.cursor) == {}
    run.learner.step(run.learner.bind(task, stage), batch, {}, 0)
    agree(run.learner.net, expected)


def test_icarl() -> None:
    s = scene("icarl")
    assert set(s.batch.y.tolist()) == set(SEEN)  # exemplars are in the stream
    old = said(s.old, s.batch.x).logits

    def loss(net: Net) -> Tensor:
        p = torch.sigmoid(net(s.batch.x).logits)
        total = torch.zeros(())
        for c in SEEN:
            target = torch.sigmoid(old[:, c]) if c in OLD else (s.batch.y == c).float()
            total = total - (target * p[:, c].log() + (1 - target) * (1 - p[:, c]).log()).mean()
        return total / len(SEEN)

    follows(s, loss)


def fdr_distance(net: Net, draw: Batch) -> Tensor:
    assert draw.logits is not None
    difference = net(draw.x).logits.softmax(1) - draw.logits.softmax(1)
    return difference.square().sum(1).sqrt().mean()


def test_fdr() -> None:
    s = scene("fdr", {"replay_probabilities": 0.7})
    draw = s.draws["replay_probabilities"]
    stored = said(s.old, s.run.learner.inputs(draw.images)).logits
    assert_close(draw.logits, stored, rtol=1e-4, atol=1e-5)  # of the first task's end

    def loss(net: Net) -> Tensor:
        return ce(net(s.batch.x).logits, s.batch.y) + 0.7 * fdr_distance(net, draw)

    follows(s, loss)


def test_fdr_in_two_steps_ignores_its_weight() -> None:
    s = scene("fdr", {"replay_probabilities": 0.7, "update": "two_steps"})
    half = moved(s.net, lambda net: ce(net(s.batch.x).logits, s.batch.y))
    expected = moved(half, lambda net: fdr_distance(net, s.draws["replay_probabilities"]))
    stepped(s)
    agree(s.run.learner.net, expected)


def test_lwf() -> None:
    s = scene("lwf", {"distillation": 0.6})
    old = said(s.old, s.batch.x).logits[:, OLD]

    def loss(net: Net) -> Tensor:
        logits = net(s.batch.x).logits
        return ce(logits[:, NEW], s.batch.y - 2) + 0.6 * soft_ce(logits[:, OLD], old, 2.0)

    follows(s, loss)


@pytest.mark.parametrize(
    ("share", "kd_scale", "part", "factor"),
    [("old_classes", "none", 4 / 6, 1), ("one_over_tasks", "t_squared", 1 / 3, 4)],
)
def test_bics_distillation_counts_for_its_share(
    share: Any, kd_scale: Any, part: float, factor: float
) -> None:
    """In the third task of two classes each."""
    task = toy_run(assemble("bic", {})).scenario.tasks[2]
    logits, old = torch.randn(5, 6), torch.randn(5, 6)
    y = torch.tensor([4, 5, 0, 3, 4])
    features = torch.zeros(5, 2)
    stream: Any = SimpleNamespace(
        batch=SimpleNamespace(y=y),
        out=Output(logits, features, {}),
        before=Output(old, features, {}),
    )
    net: Any = None
    spec = Spec((1, 8, 8), (1, 6, 6), 6, {"features": 2})
    term = BalancedDistillation(spec, share=share, kd_scale=kd_scale)
    found = term(Step(task, net, stream, None))
    kd = soft_ce(logits[:, :4], old[:, :4], 2.0)
    assert_close(found, (1 - part) * ce(logits, y) + part * factor * kd)


def test_bic() -> None:
    s = scene("bic")
    old = said(s.old, s.batch.x).logits[:, OLD]

    def loss(net: Net) -> Tensor:
        logits = net(s.batch.x).logits
        part = 0.5
        kd = soft_ce(logits[:, OLD], old, 2.0)  # not times T^2
        return (1 - part) * ce(logits[:, SEEN], s.batch.y) + part * kd

    expected = moved(s.net, loss)
    with torch.no_grad():  # the correction does not learn in this stage
        for name in ("slope", "shift"):
            getattr(expected.head.correction, name).copy_(getattr(s.net.head.correction, name))
    stepped(s)
    agree(s.run.learner.net, expected)


def test_lucir() -> None:
    s = scene("lucir", {"less_forget": 3.0, "margin_ranking": 0.5, "margin": 0.6})
    old = said(s.old, s.batch.x).features
    y = s.batch.y

    def loss(net: Net) -> Tensor:
        z = net.backbone(s.batch.x)["features"]
        z = z / z.norm(dim=1, keepdim=True)
        weight: Any = net.head.weight
        w = weight / weight.norm(dim=1, keepdim=True)
        w = torch.cat([w[:2].detach(), w[2:4], w[4:].detach()])
        cosines = z @ w.T
        keep = (1 - (z * old / old.norm(dim=1, keepdim=True)).sum(1)).mean()
        of_old = cosines[y < 2]
        own = of_old[torch.arange(len(of_old)), y[y < 2]]
        gaps = [(0.6 - own + of_old[:, c]).clamp(min=0) for c in NEW]
        scaled = net.head.scale * cosines[:, SEEN]
        return ce(scaled, y) + 3.0 * keep + 0.5 * torch.stack(gaps).mean()

    follows(s, loss)
    weight, before = s.run.learner.net.head.weight, s.net.head.weight
    assert torch.equal(weight[OLD + FUTURE], before[OLD + FUTURE])  # type: ignore[index]


def conflict(s: Scene, labels: Tensor) -> dict[str, Batch]:
    """A reference draw of the stream's own images."""
    return {"reference_ce": s.batch._replace(y=labels)}


def test_agem_projects_where_the_reference_objects() -> None:
    s = scene("agem")
    draws = conflict(s, torch.zeros_like(s.batch.y))
    parameters = list(s.net.train().requires_grad_(True).parameters())
    logits = s.net(s.batch.x).logits
    g, r = (
        torch.cat([p.flatten() for p in torch.autograd.grad(loss, parameters, retain_graph=True)])
        for loss in (ce(logits, s.batch.y), ce(logits, torch.zeros_like(s.batch.y)))
    )
    assert g @ r < 0
    expected = flat(s.net).detach() - LR * (g - (g @ r) / (r @ r) * r)
    before = flat(s.net).detach()
    stepped(s, draws)
    after = flat(s.run.learner.net).detach()
    assert_close(after, expected, rtol=1e-5, atol=1e-6)
    assert abs(float((before - after) @ r)) < 1e-5  # to first order the reference loss stays


def test_agem_goes_its_way_where_the_reference_agrees() -> None:
    s = scene("agem")
    expected = moved(s.net, lambda net: ce(net(s.batch.x).logits, s.batch.y))
    stepped(s, conflict(s, s.batch.y))
    agree(s.run.learner.net, expected)


def test_agem_refers_to_earlier_tasks_only() -> None:
    s = scene("agem")
    assert set(s.draws["reference_ce"].y.tolist()) <= set(OLD)


def test_ewc() -> None:
    s = scene("ewc", {"penalty": 2.0, "largest_pull": 1e9})
    term = s.run.learner.terms["penalty"]
    assert isinstance(term, FisherPenalty)
    assert_close(term.anchor, flat(s.old).detach())
    importance = term.importance.clone()
    assert importance.min() >= 0
    assert importance.max() > 0

    def loss(net: Net) -> Tensor:
        gap = flat(net) - flat(s.old).detach()
        return ce(net(s.batch.x).logits, s.batch.y) + 2.0 / 2 * (importance * gap**2).sum()

    follows(s, loss)


def test_si() -> None:
    """The step, and what it adds to the path: -g . (change), with g the cross-entropy's alone."""
    s = scene("si", {"penalty": 0.3, "largest_pull": 1e9})
    term = s.run.learner.terms["penalty"]
    assert isinstance(term, PathPenalty)
    importance, lowered = term.importance.clone(), term.lowered.clone()
    assert importance.max() > 0
    assert_close(term.anchor, flat(s.old).detach())

    def plain(net: Net) -> Tensor:
        return ce(net(s.batch.x).logits, s.batch.y)

    def loss(net: Net) -> Tensor:
        gap = flat(net) - flat(s.old).detach()
        return plain(net) + 0.3 * (importance * gap**2).sum()

    expected = moved(s.net, loss)
    g = (flat(s.net) - flat(moved(s.net, plain))).detach() / LR
    stepped(s)
    agree(s.run.learner.net, expected)
    path = lowered - g * (flat(expected) - flat(s.net)).detach()
    assert_close(term.lowered, path, rtol=1e-3, atol=1e-6)


def test_gdumb() -> None:
    s = scene("gdumb")
    assert set(s.batch.y.tolist()) == set(SEEN)  # the memory's rows, old and new
    expected = moved(s.net, lambda net: ce(net(s.batch.x).logits[:, SEEN], s.batch.y))
    learner = s.run.learner
    rate = learner.method.stages[0].descent.rate(0, learner.training)
    assert rate == LR  # the first epoch is at the high rate
    stepped(s)
    agree(learner.net, expected)
