"""Where a method follows its paper, its paper's program or the BFP authors' program."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from linsep.learning.exemplars import HeldOut
from linsep.learning.run import Run, StepEnd
from linsep.learning.terms import Step
from linsep.methods import assemble
from linsep.nets.heads import CorrectedHead
from linsep.settings.sections import Evaluation
from linsep.testing import same, toy_run


def until(run: Run, *cursor: int) -> Run:
    """Run to where the next thing to do is the given one."""
    for _ in run:
        if run.cursor == cursor:
            return run
    raise AssertionError(f"the run never came to {cursor}")


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


def test_lucir_as_the_authors_ran_it() -> None:
    """Every term fits the head, cross-entropy is among all classes, features keep their ReLU."""
    options = {"ce_among": "all", "fit_by": "all", "last_relu": True}
    method = assemble("lucir", {"lucir": options})
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
