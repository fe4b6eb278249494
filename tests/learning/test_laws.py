"""Laws every method must keep, with and without BFP, on a net with BatchNorm."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from linsep import testing
from linsep.learning.method import Method, WeightedTerm
from linsep.learning.run import EpochEnd, Run
from linsep.methods import ADDONS, METHODS, assemble
from linsep.nets.net import Backbone, Blocks
from tests.helpers.combinations import names, pairs


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("law", testing.LAWS, ids=lambda law: law.__name__)
def test_law(law: Callable[[Method], None], name: str) -> None:
    law(assemble(name, {}))


@pytest.mark.parametrize(("base", "extra"), pairs())
@pytest.mark.parametrize("law", testing.BACKWARD_LAWS, ids=lambda law: law.__name__)
def test_backward_law(law: Callable[[Method, WeightedTerm], None], base: str, extra: str) -> None:
    law(assemble(base, {}), ADDONS[extra].recipe())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (
            "derpp+bfp",
            {"derpp": {"target": "previous_net", "first_task": False}, "bfp": {"on": "replay"}},
        ),
        ("derpp+bfp", {"derpp": {"distance": "squared"}, "bfp": {"on": "stream", "scale": "none"}}),
        (
            "derpp+bfp",
            {"bfp": {"layers": ("block1", "features"), "init": "identity", "reset": False}},
        ),
        ("jt+bfp", {"jt": {"data": "seen"}}),
        ("fdr+bfp", {"fdr": {"update": "two_steps"}}),
        ("bic+bfp", {"bic": {"share": "one_over_tasks"}}),
        ("ewc+fd", {"ewc": {"fisher_labels": "true", "fisher_rows": 5, "decay": 0.5}}),
    ],
)
def test_laws_hold_for_the_options(name: str, options: dict[str, dict[str, object]]) -> None:
    method = assemble(name, options)
    for law in testing.LAWS:
        law(method)


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
    run = testing.toy_run(assemble(name, {}))
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


@pytest.mark.parametrize("name", ["er+bfp", "derpp", "derpp+bfp2"])
def test_laws_hold_for_a_shared_draw(name: str) -> None:
    shared = partial(testing.toy_run, memory={"replay_batches": "shared"})
    for law in testing.LAWS:
        law(assemble(name, {}), shared)
    for backward_law in testing.BACKWARD_LAWS:
        backward_law(assemble("derpp", {}), ADDONS["bfp"].recipe(), shared)


@pytest.mark.parametrize("name", ["derpp+bfp", "ewc", "agem", "bic+bfp"])
def test_laws_hold_for_adamw_and_for_frozen_modules(name: str) -> None:
    """EWC and A-GEM look at gradients of all that learns; BiC trains a part of its head alone."""
    adamw = partial(testing.toy_run, training={"optimizer": "adamw", "lr": 1e-3})
    half = partial(testing.toy_run, train=("block2", "head"))
    for law in (testing.is_deterministic, testing.resumes_exactly, testing.steps_purely):
        law(assemble(name, {}), adamw)
        law(assemble(name, {}), half)


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
        ("ft", {}),
        ("derpp+bfp", {}),
        ("er+star+ema", {}),
        ("fdr", {}),
        ("gdumb", {}),
        ("lucir+transport", {}),
        ("ewc", {}),
        ("er", {"batchnorm": "recalibrated"}),
    ],
)
def test_laws_hold_for_a_net_with_random_layers(name: str, evaluation: dict[str, str]) -> None:
    """Dropout and stochastic depth draw from torch's generators, which the cursor keys."""

    def toy(method: Method, seed: int = 0, **more: Any) -> Run:
        return testing.toy_run(method, seed, net=random_backbone, evaluation=evaluation, **more)

    for law in testing.LAWS:
        law(assemble(name, {}), toy)
