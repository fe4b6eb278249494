"""BatchNorm's statistics, estimated anew before evaluation."""

import copy

import torch
from torch import nn

from linsep.learning.run import Run, TaskEnd
from linsep.methods import assemble
from linsep.nets.heads import LinearHead
from linsep.nets.net import Net, mlp, reestimate
from linsep.testing import same, toy_run

REESTIMATED = {"batchnorm": "recalibrated"}
TRAINING = ("net", "previous_net", "terms", "memory", "seen", "optimizers")


def runs(method: str) -> tuple[Run, Run]:
    made = assemble(method, {})
    return toy_run(made), toy_run(made, evaluation=REESTIMATED)


def test_training_is_the_same_and_predictions_are_not() -> None:
    for method in ("derpp+bfp", "icarl"):
        plain, anew = runs(method)
        differs = False
        for _, event in zip(plain, anew, strict=True):
            one, two = plain.learner.state_dict(), anew.learner.state_dict()
            assert all(same(one[part], two[part]) for part in TRAINING), event
            if isinstance(event, TaskEnd):
                images = plain.scenario.groups[0].test
                other = anew.learner.predict(images)
                differs |= not torch.equal(other, plain.learner.predict(images))
        assert differs, method


def test_statistics_are_averages_over_balanced_rows() -> None:
    """The first layer's, against its inputs computed without it."""
    _, run = runs("er")
    for event in run:
        if isinstance(event, TaskEnd) and event.task == 1:
            break
    learner, task = run.learner, run.scenario.tasks[1]
    rows = learner.balanced(task)
    counts = rows.y.bincount()[: len(task.seen)]
    assert int(counts.max()) - int(counts.min()) <= 2
    norm = next(m for m in learner.eval_net.modules() if isinstance(m, nn.BatchNorm2d))
    convolution = next(m for m in learner.eval_net.modules() if isinstance(m, nn.Conv2d))
    with torch.no_grad():
        maps = convolution(learner.inputs(rows))
        assert norm.running_mean is not None
        torch.testing.assert_close(norm.running_mean, maps.mean((0, 2, 3)))
        assert norm.running_var is not None
        torch.testing.assert_close(norm.running_var, maps.var((0, 2, 3)))
        assert norm.momentum == 0.1


def test_a_net_without_batchnorm_is_left_alone() -> None:
    net = Net(mlp((1, 4, 4), width=3), LinearHead(3, 2)).eval()
    before = copy.deepcopy(net.state_dict())
    reestimate(net, [torch.randn(4, 1, 4, 4)])
    assert same(dict(net.state_dict()), dict(before))
    assert not net.training
