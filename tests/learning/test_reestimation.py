"""BatchNorm's statistics, estimated anew before evaluation."""

import copy
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.testing import assert_close

from linsep.data.images import Images
from linsep.data.tasks import Task
from linsep.learning.exemplars import balanced
from linsep.learning.learner import Learner
from linsep.learning.run import TaskEnd
from linsep.methods import assemble
from linsep.nets.heads import LinearHead
from linsep.nets.net import Net, cnn, mlp, reestimate
from linsep.testing import same, toy_run

REESTIMATED = {"batchnorm": "recalibrated"}
TRAINING = ("net", "previous_net", "terms", "memory", "seen", "optimizers")


def after_task(number: int, **more: Any) -> tuple[Learner, Task, Images]:
    """A learner that has settled after a task, and the rows its statistics come from."""
    run = toy_run(assemble("er", {}), evaluation=REESTIMATED | more)
    next(e for e in run if isinstance(e, TaskEnd) and e.task == number)
    learner, task = run.learner, run.scenario.tasks[number]
    rng = learner.randomness.at("balanced rows", number)
    return learner, task, balanced(learner.memory.images(), task, rng)


def first_layers(learner: Learner) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    modules = list(learner.eval_net.modules())
    convolution = next(m for m in modules if isinstance(m, nn.Conv2d))
    return convolution, next(m for m in modules if isinstance(m, nn.BatchNorm2d))


def test_statistics_are_averages_over_augmented_balanced_rows() -> None:
    """The first layer's, against its inputs computed without it: four times, in batches of 16."""
    learner, task, rows = after_task(1, chunk=16)
    counts = rows.y.bincount()[: len(task.seen)]
    assert int(counts.max()) - int(counts.min()) <= 2
    convolution, norm = first_layers(learner)
    means, variances, weights = [], [], []
    for time in range(4):
        order = learner.randomness.at("statistics/order", 1, time).permutation(len(rows))
        for number, part in enumerate(np.split(order, [16]) if len(order) >= 32 else [order]):
            rng = learner.randomness.at("statistics/augment", 1, 0, time, number)
            pixels = rows.take(torch.from_numpy(part)).pixels()
            with torch.no_grad():
                maps = convolution(learner.augment.train(pixels, rng))
            means.append(maps.mean((0, 2, 3)))
            variances.append(maps.var((0, 2, 3)))
            weights.append(float(len(part)))
    share = torch.tensor(weights)[:, None] / sum(weights)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert_close(norm.running_mean, (share * torch.stack(means)).sum(0))
    assert_close(norm.running_var, (share * torch.stack(variances)).sum(0))
    assert norm.momentum == 0.1


def test_batches_count_by_their_rows() -> None:
    net = Net(cnn((1, 8, 8), width=2), LinearHead(8, 3))
    x = torch.rand(12, 1, 8, 8)
    reestimate(net, [x[:10], x[10:]])
    convolution, norm = (
        next(m for m in net.modules() if isinstance(m, kind))
        for kind in (nn.Conv2d, nn.BatchNorm2d)
    )
    assert_close(norm.running_mean, convolution(x).mean((0, 2, 3)).detach())


def test_a_net_without_batchnorm_is_left_alone() -> None:
    net = Net(mlp((1, 4, 4), width=3), LinearHead(3, 2)).eval()
    before = copy.deepcopy(net.state_dict())
    reestimate(net, [torch.randn(4, 1, 4, 4)])
    assert same(dict(net.state_dict()), dict(before))
    assert not net.training
