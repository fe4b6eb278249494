"""What happens around the steps: stages, a task's beginning and its end."""

import copy
from collections import Counter
from math import cos, pi

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from linsep.data.images import Dataset, Images, Tasks, join
from linsep.data.tasks import streamed
from linsep.learning.exemplars import HeldOut
from linsep.learning.run import Run, StepEnd
from linsep.methods import METHODS, assemble
from linsep.methods.baselines import with_restarts
from linsep.methods.lucir import imprint, release
from linsep.methods.penalties import FisherPenalty, PathPenalty, squared_gradients
from linsep.nets.heads import CorrectedHead, Correction, CosineHead
from linsep.nets.net import flat
from linsep.testing import toy_run, toy_scenario
from tests.helpers.combinations import small


def until(run: Run, *cursor: int) -> Run:
    """Go on to where the next thing to do is the given one."""
    for _ in run:
        if run.cursor == cursor:
            return run
    raise AssertionError(f"the run never came to {cursor}")


# --- BiC -----------------------------------------------------------------------------------------


def test_the_correction_by_hand() -> None:
    correction = Correction(4)
    logits = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    assert torch.equal(correction(logits), logits)
    correction.turn_to([0, 1])
    with torch.no_grad():
        correction.slope.fill_(2.0)
        correction.shift.fill_(-1.0)
    assert correction(logits).tolist() == [[1.0, 3.0, 3.0, 4.0]]
    correction.turn_to([2, 3])
    assert correction(logits).tolist() == [[1.0, 3.0, 3.0, 4.0]]  # kept for classes 0 and 1
    with torch.no_grad():
        correction.slope.fill_(0.5)
    assert correction(logits).tolist() == [[1.0, 3.0, 1.5, 2.0]]


def test_fitting_the_bias_reaches_what_direct_optimisation_finds() -> None:
    """Enough epochs of the stage's own steps, against L-BFGS on the same two numbers."""
    method = assemble("bic", {"bic": {"bias_epochs": 1, "bias_lr": 0.05}})
    run = until(toy_run(method, memory={"size": 24}), 1, 0, 2, 0)
    learner, task = run.learner, run.scenario.tasks[1]
    stage = learner.method.stages[1]
    learner.begin_stage(task, stage)
    bound = learner.bind(task, stage)
    data = bound.rows
    assert Counter(data.y.tolist()) == dict.fromkeys(range(4), 1)
    batch = learner.batch(data, "augment", run.cursor, augmented=False)
    frozen = copy.deepcopy(learner.net.state_dict())
    for _ in range(500):
        learner.step(bound, batch, {}, 0)
    head = learner.net.head
    assert isinstance(head, CorrectedHead)
    raw = head.linear(learner.evaluate(data).features).detach()[:, :4]
    pair = torch.tensor([1.0, 0.0], requires_grad=True)
    solver = torch.optim.LBFGS([pair], max_iter=500, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        logits = torch.cat([raw[:, :2], pair[0] * raw[:, 2:] + pair[1]], dim=1)
        return F.cross_entropy(logits, data.y) + 0.1 * pair[1].square() / 2

    def closure() -> Tensor:
        solver.zero_grad()
        value = loss()
        value.backward()
        return value

    solver.step(closure)
    logits, shift = learner.evaluate(data).logits[:, :4], head.correction.shift.item()
    reached = float(F.cross_entropy(logits, data.y)) + 0.1 * shift**2 / 2
    assert reached == pytest.approx(loss().item(), abs=2e-3)
    changed = {k for k, v in learner.net.state_dict().items() if not torch.equal(v, frozen[k])}
    assert changed <= {"head.correction.slope", "head.correction.shift"}


def test_bic_trains_on_nine_tenths_and_fits_on_balanced_rest() -> None:
    run = until(toy_run(assemble("bic", {}), memory={"size": 24}), 2, 0, 0, 1)
    learner, task = run.learner, run.scenario.tasks[2]
    assert isinstance(learner.memory, HeldOut)
    trained = learner.bind(task, learner.method.stages[0]).rows
    fitted = learner.bind(task, learner.method.stages[1]).rows
    assert Counter(fitted.y.tolist()) == dict.fromkeys(range(6), 1)
    assert not _pixels(trained) & _pixels(fitted)
    assert set(trained.y.tolist()) == set(range(6))


def _pixels(images: Images) -> set[bytes]:
    return {bytes(image) for image in images.pixels().flatten(1).numpy()}


def test_the_old_net_of_bic_carries_its_correction() -> None:
    run = until(toy_run(assemble("bic", {}), memory={"size": 24}), 2, 0, 0, 0)
    assert run.learner.previous_net is not None
    old, new = run.learner.previous_net.head, run.learner.net.head
    assert isinstance(old, CorrectedHead)
    assert isinstance(new, CorrectedHead)
    assert float(old.correction.slope) != 1.0
    run = until(run, 2, 0, 0, 1)
    assert float(new.correction.slope) == 1.0  # the third task starts anew
    assert new.correction.slopes[2:4].tolist() == [float(old.correction.slope)] * 2


# --- LUCIR ---------------------------------------------------------------------------------------


def test_new_rows_of_the_head_are_imprinted() -> None:
    run = until(toy_run(assemble("lucir", {})), 1, 0, 0, 0)
    learner, task = run.learner, run.scenario.tasks[1]
    head = learner.net.head
    assert isinstance(head, CosineHead)
    before = head.weight.detach().clone()
    learner.begin_stage(task, learner.method.stages[0])
    length = before[:2].norm(dim=1).mean()
    for c in (2, 3):
        z = learner.evaluate(task.train.select([c])).features
        mean = (z / z.norm(dim=1, keepdim=True)).mean(0)
        assert_close(head.weight[c].detach(), length * mean / mean.norm())
    assert torch.equal(head.weight[[0, 1, 4, 5]], before[[0, 1, 4, 5]])
    assert head.free.tolist() == [False, False, True, True, False, False]
    assert learner.method.stages[0].begin is imprint


def test_the_head_is_fitted_on_balanced_stored_rows() -> None:
    """After the memory has settled: only the head moves, every seen row of it, and no other."""
    run = until(toy_run(assemble("lucir", {}), memory={"size": 12}), 1, 0, 2, 0)
    learner, task = run.learner, run.scenario.tasks[1]
    before = copy.deepcopy(learner.net.state_dict())
    until(run, 1, 1, 0, 1)
    stage = learner.method.stages[1]
    assert stage.begin is release
    assert Counter(learner.memory.images().y.tolist()) == dict.fromkeys(range(4), 3)
    data = learner.bind(task, stage).rows
    assert Counter(data.y.tolist()) == dict.fromkeys(range(4), 3)
    rate = stage.descent.rate(0, learner.training)
    assert rate == 0.01
    after = learner.net.state_dict()
    changed = {k for k in after if not torch.equal(after[k], before[k])}
    assert changed == {"head.weight", "head.scale", "head.free"}
    rows = (after["head.weight"] != before["head.weight"]).any(1)
    assert rows.tolist() == [True] * 4 + [False] * 2


def test_the_step_of_the_fitting_is_plain_cross_entropy() -> None:
    run = until(toy_run(assemble("lucir", {}), training={"momentum": 0.0}), 1, 1, 0, 1)
    learner, task = run.learner, run.scenario.tasks[1]
    stage = learner.method.stages[1]
    batch = learner.batch(learner.bind(task, stage).rows, "augment", run.cursor)
    net = copy.deepcopy(learner.net).eval()
    losses, _ = learner.step(learner.bind(task, stage), batch, {}, 0)
    assert list(losses) == ["ce"]
    head = net.head
    assert isinstance(head, CosineHead)
    z = net.backbone(batch.x)["features"].detach()
    logits = head.scale * F.normalize(z) @ F.normalize(head.weight).T
    F.cross_entropy(logits[:, :4], batch.y).backward()
    assert head.weight.grad is not None
    assert head.scale.grad is not None
    after = learner.net.head
    assert isinstance(after, CosineHead)
    assert_close(after.weight.detach(), (head.weight - 0.01 * head.weight.grad).detach())
    assert_close(after.scale.detach(), (head.scale - 0.01 * head.scale.grad).detach())


# --- GDumb ---------------------------------------------------------------------------------------


def test_gdumb_starts_from_a_new_net_that_owes_nothing_to_the_old() -> None:
    starts = []
    for lr in (0.05, 0.01):
        run = toy_run(assemble("gdumb", {"gdumb": {"high_lr": lr, "low_lr": lr}}))
        until(run, 1, 0, 0, 0)
        trained = flat(run.learner.net).detach()
        run.learner.begin_stage(run.scenario.tasks[1], run.learner.method.stages[0])
        starts.append(flat(run.learner.net).detach())
        assert not torch.equal(trained, starts[-1])
    assert torch.equal(*starts)
    first = flat(toy_run(assemble("gdumb", {})).learner.net).detach()
    assert not torch.equal(first, starts[0])


def test_restarts_by_hand() -> None:
    rates = [with_restarts(e, high=1.0, low=0.0) for e in range(8)]
    quarter = (1 + cos(pi / 4)) / 2
    assert rates == pytest.approx([1, 1, 0.5, 1, quarter, 0.5, 1 - quarter, 1])


# --- EWC and SI ----------------------------------------------------------------------------------


class Linear(nn.Module):
    """logits = W x of two inputs and two classes."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 2, bias=False)
        nn.init.zeros_(self.head.weight)

    def forward(self, x: Tensor) -> object:
        return type("Out", (), {"logits": self.head(x)})()


def test_fisher_information_by_hand() -> None:
    """p = (1/2, 1/2): d log p(y) / d W_c = ([c = y] - 1/2) x, so every square is x^2 / 4."""
    net, x = Linear(), torch.tensor([[2.0, 0.0], [1.0, 4.0]])
    expected = torch.tensor([(4 + 1) / 4, 16 / 4, (4 + 1) / 4, 16 / 4])
    given = squared_gradients(net, x, torch.tensor([0, 1]), (0, 1))  # type: ignore[arg-type]
    drawn = squared_gradients(net, x, None, (0, 1))  # type: ignore[arg-type]
    assert_close(given, expected)
    assert_close(drawn, expected)


@pytest.mark.parametrize("labels", ["true", "sampled"])
def test_ewc_adds_what_the_task_taught_to_a_decayed_past(labels: str) -> None:
    options = {"ewc": {"decay": 0.5, "fisher_labels": labels, "fisher_rows": 7}}
    run = until(toy_run(assemble("ewc", options)), 1, 0, 2, 0)
    learner, task = run.learner, run.scenario.tasks[1]
    term = learner.terms["penalty"]
    assert isinstance(term, FisherPenalty)
    before, net = term.importance.clone(), copy.deepcopy(learner.net).eval()
    until(run, 2, 0, 0, 0)
    with learner.randomness.keyed("term/penalty/end", task.index):
        rows = task.train.take(torch.randperm(len(task.train))[:7])
        total = torch.zeros_like(before)
        for i in range(7):
            one = rows.take(torch.tensor([i]))
            log_p = net(learner.inputs(one)).logits.log_softmax(1)
            y = int(one.y)
            if labels == "sampled":
                y = int(torch.multinomial(log_p[0, :4].exp().detach(), 1))
            g = torch.autograd.grad(log_p[0, y], list(net.parameters()))
            total += torch.cat([p.flatten() for p in g]) ** 2
    assert_close(term.importance, 0.5 * before + total / 7)
    assert_close(term.anchor, flat(net).detach())


def test_si_turns_a_path_into_importance() -> None:
    """A path followed by hand over one task, from the gradients and the moves of each step."""
    run = toy_run(assemble("si", {"si": {"damping": 0.01}}), training={"momentum": 0.5})
    net = run.learner.net
    start = flat(net).detach().clone()
    lowered = torch.zeros_like(start)
    events = iter(run)
    while run.cursor.task == 0:
        before, here = copy.deepcopy(net), run.cursor
        event = next(events)
        if not isinstance(event, StepEnd):
            continue
        task = run.scenario.tasks[0]
        order = torch.from_numpy(run.learner.randomness.at("order", *here[:3]).permutation(12))
        rows = order.split(8)[here.step]
        batch = run.learner.batch(task.train.take(rows), "augment", here)
        loss = F.cross_entropy(before.train()(batch.x).logits, batch.y)
        g = torch.cat([p.flatten() for p in torch.autograd.grad(loss, list(before.parameters()))])
        lowered -= g * (flat(net) - flat(before)).detach()
    term = run.learner.terms["penalty"]
    assert isinstance(term, PathPenalty)
    change = flat(net).detach() - start
    expected = (lowered / (change**2 + 0.01)).clamp(min=0)
    assert_close(term.importance, expected, rtol=1e-3, atol=1e-6)
    assert not term.lowered.any()


@pytest.mark.parametrize("name", ["ewc", "si"])
def test_no_parameter_is_pulled_harder_than_asked_for(name: str) -> None:
    """The penalty's second derivative, times its weight, is at most `largest_pull`."""
    run = until(toy_run(assemble(name, {name: {"penalty": 1e6, "largest_pull": 3.0}})), 1, 0, 0, 1)
    term, weighted_term = run.learner.terms["penalty"], run.learner.method.weighted_terms[1]
    assert isinstance(term, FisherPenalty | PathPenalty)
    curvature = 2e6 if name == "si" else 1e6
    assert weighted_term.weight == 1e6
    assert float(term.importance.max()) * curvature > 3.0
    assert float(term.importance.clamp(max=term.at_most).max()) * curvature == pytest.approx(3.0)


# --- what is refused, what is suggested ----------------------------------------------------------


# --- classes that come again ---------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_a_stream_may_repeat_classes(name: str) -> None:
    """Class 0 comes again in the second task; the third has no new class at all."""
    data = join([task.train for task in toy_scenario().tasks])
    tests = join([group.test for group in toy_scenario().groups])
    when = torch.tensor([0, 0, 1, 1, 1, 1])
    tasks, last = when[data.y].clone(), when[tests.y].clone()
    for c, t in ((0, 1), (0, 2), (3, 2)):
        for place, y in ((tasks, data.y), (last, tests.y)):
            rows = (y == c).nonzero()[:, 0]
            place[rows[t - 1 :: 3]] = t
    names = tuple(map(str, range(6)))
    scenario = streamed("again", Dataset(data, tests, names), Tasks(tuple("123"), tasks, last))
    assert [task.classes for task in scenario.tasks] == [(0, 1), (2, 3, 4, 5), ()]
    run = toy_run(small(f"{name}+bfp"), scenario=scenario)
    for event in run:
        if isinstance(event, StepEnd):
            assert all(torch.isfinite(loss) for loss in event.losses.values())
    assert run.finished
