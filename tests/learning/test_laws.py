"""Laws every method must keep, with and without BFP, on a net with BatchNorm."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from linsep import testing
from linsep.learning.method import Method, WeightedTerm
from linsep.learning.run import EpochEnd, Run
from linsep.methods import ADDONS, METHODS, assemble
from linsep.nets.net import Backbone, Blocks
from tests.helpers.combinations import names, pairs, small


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("law", testing.LAWS, ids=lambda law: law.__name__)
def test_law(law: Callable[[Method], None], name: str) -> None:
    law(small(name))


@pytest.mark.parametrize(("base", "extra"), pairs())
@pytest.mark.parametrize("law", testing.BACKWARD_LAWS, ids=lambda law: law.__name__)
def test_backward_law(law: Callable[[Method, WeightedTerm], None], base: str, extra: str) -> None:
    law(small(base), ADDONS[extra].recipe())


RECALIBRATED = {"evaluation": {"batchnorm": "recalibrated"}}
STILL = {"training": {"bn_updates": "none"}}
SHARED = {"memory": {"replay_batches": "shared"}}
ADAMW = {"training": {"optimizer": "adamw", "lr": 1e-3}}
HALF = {"train": ("block2", "head")}  # EWC and A-GEM look at gradients of all that learns
STORED = {"target": "stored", "on": "replay"}


@pytest.mark.parametrize(
    ("name", "options", "settings"),
    [
        ("derpp+bfp", {"derpp": {"target": "previous_net"}, "bfp": {"on": "replay"}}, {}),
        ("derpp+bfp", {"derpp": {"distance": "squared", "first_task": False}}, SHARED),
        ("derpp+bfp", {"bfp": {"layers": ("block1", "features"), "reset": False}}, {}),
        ("derpp+bfp", {"bfp": {"every": 2, "on": "stream", "scale": "none"}}, {}),
        ("derpp+bfp", {"bfp": {"target": "stored"}}, SHARED),
        ("er+bfp", {"bfp": STORED | {"every": 3}}, {}),
        ("jt+bfp", {"jt": {"data": "seen"}}, {}),
        ("fdr+bfp", {"fdr": {"update": "two_steps"}}, {}),
        ("bic+bfp", {"bic": {"share": "one_over_tasks"}}, ADAMW),
        ("ewc+fd", {"ewc": {"fisher_labels": "true", "fisher_rows": 5, "decay": 0.5}}, HALF),
        ("agem+bfp", {}, HALF),
        ("er+star+wa", {}, {}),
        ("derpp+ser+lode+refit", {}, {}),
        ("lucir+refit", {}, {}),
        ("er+ema", {}, {}),
        ("er", {}, RECALIBRATED),
        ("er+transport", {}, RECALIBRATED),
        ("ft+bfp+transport", {"transport": {"map": "bfp"}, "bfp": {"cycle": True}}, {}),
        ("ft+fd+bfp+transport", {"transport": {"map": "bfp"}}, {}),
        ("lwf+transport", {"transport": {"map": "sdc"}}, {}),
        ("ft+fd+transport", {"transport": {"map": "dpcr"}}, {}),
        ("derpp+bfp+transport", {"transport": {"covariance": "class"}}, {}),
        ("gdumb+transport", {"transport": {"covariance": "none"}}, {}),
        ("er+ranpac", {"ranpac": {"width": 12}}, {}),
        ("ft+acil", {"acil": {"width": 12}}, {"train": ("head",)}),
        ("lucir+transport", {"transport": {"map": "none", "prior": "counts"}}, {}),
        ("derpp+bfp+fsa+transport", {}, {}),
        ("derpp+bfp", {}, STILL),
        ("er+star+refit+fsa", {}, STILL),
    ],
)
def test_laws_hold_for_options_and_settings(
    name: str, options: dict[str, dict[str, object]], settings: dict[str, Any]
) -> None:
    def toy(method: Method, seed: int = 0) -> Run:
        return testing.toy_run(method, seed, **settings)

    for law in testing.LAWS:
        law(assemble(name, options), toy)


@pytest.mark.parametrize("policy", ["balanced", "plain", "loss_aware"])
def test_laws_hold_for_other_memories(policy: str) -> None:
    """The first of a method's memories is the one that the laws take."""
    method = replace(assemble("agem+bfp", {}), memories=(policy,))
    testing.resumes_exactly(method)
    testing.steps_purely(method)


def test_a_stage_of_no_epochs_is_skipped() -> None:
    events = list(testing.toy_run(assemble("lucir", {"lucir": {"fitting_epochs": 0}})))
    assert {e.stage for e in events if isinstance(e, EpochEnd)} == {"train"}


@pytest.mark.parametrize("name", METHODS)
def test_the_count_of_steps_never_goes_back_and_ends_full(name: str) -> None:
    run = testing.toy_run(small(name))
    counts = [run.steps()[0] for _ in run]
    assert counts == sorted(counts)
    done, total = run.steps()
    assert done == total


def test_a_shared_draw_is_one_batch_for_all_terms() -> None:
    run = testing.toy_run(assemble("derpp+bfp", {}), memory={"replay_batches": "shared"})
    for _ in run:
        pass
    cursor = run.cursor._replace(task=2)
    at = run.learner.bind(run.scenario.tasks[2], run.learner.method.stages[0])
    assert list(run.learner.replay_batches(at, cursor)) == ["replay"]


class Skipped(nn.Module):
    """Stochastic depth, by a function that no module's type tells of."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (torch.rand(len(x), 1, 1, 1) > 0.3) if self.training else x


def random_backbone() -> Backbone:
    first = nn.Sequential(nn.Conv2d(testing.RAW[0], 4, 3, bias=False), Skipped(), nn.BatchNorm2d(4))
    second = nn.Sequential(nn.ReLU(), nn.Dropout(0.4), nn.Conv2d(4, 6, 3), nn.ReLU())
    return Blocks({"block1": first, "block2": second}, (4, 6))


@pytest.mark.parametrize(
    ("name", "evaluation"),
    [
        ("derpp+bfp", {}),
        ("er+star+ema", {}),
        ("gdumb", {}),
        ("lucir+transport", {}),
        ("er", {"batchnorm": "recalibrated"}),
    ],
)
def test_laws_hold_for_a_net_with_random_layers(name: str, evaluation: dict[str, str]) -> None:
    """Dropout and stochastic depth draw from torch's generators, which the cursor keys."""

    def toy(method: Method, seed: int = 0, **more: Any) -> Run:
        return testing.toy_run(method, seed, net=random_backbone, evaluation=evaluation, **more)

    for law in testing.LAWS:
        law(assemble(name, {}), toy)
