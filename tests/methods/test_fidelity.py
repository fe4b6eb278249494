"""Where a method follows its paper, its paper's program or the BFP authors' program."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from linsep.learning.exemplars import HeldOut, herd
from linsep.learning.run import StepEnd
from linsep.learning.terms import Pass, Step
from linsep.methods import assemble
from linsep.nets.heads import CorrectedHead, CosineHead
from linsep.settings import catalogue
from linsep.settings.sections import Evaluation
from linsep.testing import same, toy_run

from .test_stages import until


@pytest.mark.parametrize("base", ["icarl", "lucir", "bic"])
def test_bfp_draws_old_rows_though_the_stream_holds_some(base: str) -> None:
    """In equation 11 half of the rows are replayed; among a task's rows those stored are few."""
    run = until(toy_run(assemble(f"{base}+bfp", {}), memory={"size": 24}), 1, 0, 0, 0)
    learner, task = run.learner, run.scenario.tasks[1]
    at = learner.bind(task, learner.method.stages[0])
    (draw,) = learner.replay_batches(at, run.cursor).values()
    assert len(draw.y) == 6
    assert set(draw.y.tolist()) <= {0, 1}  # of the first task: the memory is settled later
    before = learner.memory.state_dict()
    for event in run:
        if not isinstance(event, StepEnd):
            break
        assert "bfp" in event.losses
    assert same(learner.memory.state_dict(), before)  # drawn from, and not changed


def test_bic_never_draws_what_it_holds_out() -> None:
    run = until(toy_run(assemble("bic+bfp", {}), memory={"size": 24}), 2, 0, 0, 0)
    memory = run.learner.memory
    assert isinstance(memory, HeldOut)
    held = set(memory.columns["held"][: len(memory)].nonzero()[:, 0].tolist())
    drawn = {row for n in range(50) for row in memory.sample(6, np.random.default_rng(n)).tolist()}
    assert held
    assert drawn == set(range(len(memory))) - held


def test_the_shift_is_penalised_and_the_slope_is_not() -> None:
    """With b = 3: 3^2 / 2 and a gradient of 3 times the weight, beside the cross-entropy's."""
    run = until(toy_run(assemble("bic", {"bic": {"bias_penalty": 0.1}})), 1, 0, 2, 0)
    learner, task = run.learner, run.scenario.tasks[1]
    stage = learner.method.stages[1]
    learner.begin_stage(task, stage)
    learner.net.train_only(stage.trains)
    head = learner.net.head
    assert isinstance(head, CorrectedHead)
    with torch.no_grad():
        head.correction.shift.fill_(3.0)
    loss = learner.terms["bias_penalty"](Step(task, learner.net, None, None))  # type: ignore[arg-type]
    assert loss.item() == 4.5
    shift, slope = torch.autograd.grad(
        0.1 * loss, [head.correction.shift, head.correction.slope], materialize_grads=True
    )
    assert float(shift) == pytest.approx(0.3)
    assert float(slope) == 0.0


def test_the_authors_evaluate_bic_without_its_correction() -> None:
    run = until(toy_run(assemble("bic", {})), 2, 0, 0, 0)
    learner, images = run.learner, run.scenario.groups[0].test
    head = learner.net.head
    assert isinstance(head, CorrectedHead)
    with torch.no_grad():
        head.correction.slope.fill_(2.0)
    raw = head.linear(learner.embed(images))[:, :4]
    learner.evaluation = Evaluation(rule="logits", mask_unseen=False)
    assert torch.equal(learner.predict(images)[:, :4], raw)
    learner.evaluation = Evaluation(rule="method", mask_unseen=False)
    assert not torch.equal(learner.predict(images)[:, :4], raw)


AUTHORS = catalogue.PRESETS["authors"]["options"]


def test_lucir_as_the_authors_ran_it() -> None:
    """Cross-entropy among all classes, a ReLU at the end, every term in the fitting."""
    method = assemble("lucir", {"lucir": AUTHORS["lucir"]})
    fit = method.stages[1]
    assert method.active(fit) == ["ce", "less_forget", "margin_ranking"]
    assert assemble("lucir", {}).active(fit) == ["ce"]
    assert method.net_options == {"last_relu": True}
    run = toy_run(method)
    batch = run.learner.batch(run.scenario.tasks[0].train, "augment", run.cursor)
    expected = F.cross_entropy(copy.deepcopy(run.learner.net).train()(batch.x).logits, batch.y)
    at = run.learner.bind(run.scenario.tasks[0], method.stages[0])
    losses, _ = run.learner.step(at, batch, {}, 0)
    assert_close(losses["ce"], expected.detach())


def test_the_authors_lucir_ranks_and_fits_otherwise() -> None:
    """Unseen classes are rivals in the ranking; the fitting moves the newest classes' rows."""
    method = assemble("lucir", {"lucir": AUTHORS["lucir"]})
    run = until(toy_run(method, memory={"size": 12}), 1, 0, 0, 1)
    learner, task = run.learner, run.scenario.tasks[1]
    at, head = learner.bind(task, method.stages[0]), learner.net.head
    assert isinstance(head, CosineHead)
    batch = learner.batch(at.rows, "augment", run.cursor)
    p = Pass(batch, learner.net, learner.previous_net)
    old = batch.y < 2
    cosines = head.cosine(p.out.features)[old]
    own = cosines[torch.arange(len(cosines)), batch.y[old]]
    nearest = cosines[:, 2:].sort(dim=1, descending=True).values[:, :2]
    expected = (0.5 - own[:, None] + nearest).clamp(min=0).mean()
    assert_close(learner.terms["margin_ranking"](Step(task, learner.net, p, None)), expected)
    until(run, 1, 0, 2, 0)
    before = head.weight.detach().clone()
    until(run, 1, 1, 0, 1)
    moved = (head.weight.detach() != before).any(1)
    assert moved.tolist() == [False, False, True, True, False, False]


@pytest.mark.parametrize("base", ["icarl", "lucir"])
def test_the_authors_herd_images_that_are_not_normalised(base: str) -> None:
    run = until(toy_run(assemble(base, {base: AUTHORS[base]}), memory={"size": 6}), 0, 0, 2, 0)
    learner, task = run.learner, run.scenario.tasks[0]
    net, images = copy.deepcopy(learner.net).eval(), task.train.select([0])
    x = images.pixels()[:, :, 1:7, 1:7].float() / 255
    with torch.no_grad():
        chosen = herd(net(x).features, 3)
    learner._consolidate(task)
    kept = learner.memory.images().select([0])
    assert torch.equal(kept.pixels(), images.take(chosen).pixels())
