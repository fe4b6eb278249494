"""FSA: the backbone learns in the first task only; and BatchNorm's statistics can be held."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from linsep.errors import ConfigError
from linsep.learning.run import Run, StepEnd, TaskEnd
from linsep.learning.statistics import Statistics
from linsep.learning.transport import Transported
from linsep.methods import assemble
from linsep.nets.net import frozen, tracking
from linsep.testing import same, toy_run


def state(run: Run, part: str) -> dict[str, Tensor]:
    found = run.learner.net.state_dict()
    return {name: value.clone() for name, value in found.items() if name.startswith(part)}


def learned(name: str, **settings: Any) -> Run:
    run = toy_run(assemble(name, {}), **settings)
    for _ in run:
        pass
    return run


@pytest.mark.parametrize("name", ["ft", "derpp+bfp", "lucir", "bic", "agem", "ewc", "er+ema+star"])
def test_the_backbone_learns_in_the_first_task_only(name: str) -> None:
    """There it learns as without FSA; then BatchNorm's statistics rest too, and the head learns."""
    run, plain = toy_run(assemble(f"{name}+fsa", {})), toy_run(assemble(name, {}))
    start = state(run, "backbone")
    next(event for event in run if isinstance(event, TaskEnd))
    next(event for event in plain if isinstance(event, TaskEnd))
    adapted, head = state(run, "backbone"), state(run, "head")
    assert not same(start, adapted)
    assert same(run.state_dict()["learner"]["net"], plain.state_dict()["learner"]["net"])
    for _ in run:
        pass
    assert same(adapted, state(run, "backbone"))
    assert not same(head, state(run, "head"))


def test_statistics_of_features_that_rest_are_exact() -> None:
    """Those of all tasks are what the final network says of all images at once; nothing drifts."""
    run = learned("ft+fsa+transport")
    assert run.learner.previous_eval_net is None
    predictor = run.learner.predictor
    assert isinstance(predictor, Transported)
    whole = Statistics(*predictor.statistics.mean.shape)
    for task in run.scenario.tasks:
        whole.add(run.learner.embed(task.train), task.train.y)
    assert_close(predictor.statistics.mean, whole.mean)
    assert_close(predictor.statistics.scatter, whole.scatter)


def test_a_method_that_starts_anew_in_every_task_is_refused() -> None:
    with pytest.raises(ConfigError, match="starts every task from a new one"):
        assemble("gdumb+fsa", {})


def test_held_statistics_stay_and_normalise_the_batches_of_training() -> None:
    run = toy_run(assemble("derpp+bfp", {}), training={"bn_updates": "none"})
    learner, task = run.learner, run.scenario.tasks[0]
    for layer in tracking(learner.net):
        assert layer.running_mean is not None
        layer.running_mean.fill_(0.3)  # as if pretrained
    order = torch.from_numpy(learner.randomness.at("order", 0, 0, 0).permutation(len(task.train)))
    batch = learner.batch(task.train.take(order[:8]), "augment", run.cursor)
    with torch.no_grad():
        expected = F.cross_entropy(frozen(learner.net)(batch.x).logits, batch.y)
    first = next(iter(run))
    assert isinstance(first, StepEnd)
    assert_close(first.losses["ce"], expected)
    for _ in run:
        pass
    for layer in tracking(learner.net):
        assert layer.running_mean is not None
        assert layer.running_mean.eq(0.3).all()
        assert layer.running_var is not None
        assert layer.running_var.eq(1).all()
