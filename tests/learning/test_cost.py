"""What a method is declared to cost is what it does: every image that passes a net is counted."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple
from typing import Any

import pytest
from torch import Tensor, nn

from linsep import testing
from linsep.data.images import Batch
from linsep.errors import ConfigError
from linsep.learning.cost import Cost, cost_of
from linsep.learning.method import BoundStage
from linsep.learning.run import Run
from linsep.methods import METHODS, TERMS, assemble
from linsep.nets.net import Output


def fits(name: str) -> bool:
    try:
        return bool(assemble(name, {}))
    except ConfigError:
        return False


SUMS = [
    sum_of
    for base in METHODS
    for sum_of in (base, *(f"{base}+{name}" for name in TERMS))
    if fits(sum_of)
]
SOMETIMES = [name for name in SUMS if name.endswith("+star")]  # silent where the net is wrong


class Counted:
    """Hooks on a run's nets that count images: forward, backward and through the frozen net."""

    def __init__(self, run: Run) -> None:
        self.run, self.images = run, Counter[str]()
        run.learner.net.register_forward_hook(self._passed)
        if run.learner.stand_in is not None:
            run.learner.stand_in.net.register_forward_hook(self._stood_in)
        if run.learner.teacher is not None:
            run.learner.teacher.register_forward_hook(self._froze)
        self.steps = set[tuple[int, ...]]()  # passes of the whole steps in question
        run._evaluate = self._untested  # type: ignore[method-assign]
        self._make_step = run.learner.step
        run.learner.step = self._step  # type: ignore[method-assign, assignment]

    def passes(self) -> tuple[int, int, int]:
        return self.images["forward"], self.images["backward"], self.images["frozen"]

    def _step(self, at: BoundStage, batch: Batch, *rest: Any) -> Any:
        before = self.passes()
        made = self._make_step(at, batch, *rest)
        last = (
            at.task is self.run.scenario.tasks[-1] and at.stage is self.run.learner.method.stages[0]
        )
        if last and len(batch.y) == self.run.learner.training.batch_size:
            self.steps.add(tuple(b - a for a, b in zip(before, self.passes(), strict=True)))
        return made

    def _passed(self, net: nn.Module, inputs: tuple[Tensor], output: Output) -> None:
        self.images["forward"] += len(inputs[0])
        if output.features.requires_grad:
            output.features.register_hook(self._returned)

    def _stood_in(self, net: nn.Module, inputs: tuple[Tensor], output: Output) -> None:
        if (
            not net.training
        ):  # else it is made ready for evaluation, which is not a part of the cost
            self.images["forward"] += len(inputs[0])

    def _returned(self, gradient: Tensor) -> None:
        self.images["backward"] += len(gradient)

    def _froze(self, net: nn.Module, inputs: tuple[Tensor], output: Output) -> None:
        self.images["frozen"] += len(inputs[0])

    def _untested(self, now: int) -> Iterator[Any]:
        return iter(())  # tests are not a part of the cost


def toy(name: str, options: dict[str, Any] | None = None, **more: Any) -> tuple[Run, Cost]:
    run = testing.toy_run(assemble(name, options or {}), **more)
    return run, cost_of(run.learner, run.scenario, testing.toy_scenario())


def check_passes(name: str, options: dict[str, Any] | None = None, **more: Any) -> None:
    """Over the whole run, and in every whole step of the last task's first stage."""
    run, cost = toy(name, options, **more)
    counted = Counted(run)
    for _ in run:
        pass
    assert counted.passes() == astuple(cost.run)
    assert counted.steps == {astuple(cost.step)}


@pytest.mark.parametrize("every", [2, 3])
def test_steps_that_a_term_sits_out_cost_less(every: int) -> None:
    """An epoch of the toy has two steps."""
    run, cost = toy("derpp+bfp", {"bfp": {"every": every}})
    counted = Counted(run)
    for _ in run:
        pass
    assert counted.passes() == astuple(cost.run)
    assert cost.run.frozen < toy("derpp+bfp")[1].run.frozen


@pytest.mark.parametrize("name", [name for name in SUMS if name not in SOMETIMES])
def test_declared_passes_are_those_that_hooks_count(name: str) -> None:
    check_passes(name)


@pytest.mark.parametrize("name", SOMETIMES)
def test_a_term_that_is_silent_at_times_passes_no_more_than_it_declares(name: str) -> None:
    run, cost = toy(name)
    counted = Counted(run)
    for _ in run:
        pass
    pairs = zip(counted.passes(), astuple(cost.run), strict=True)
    assert all(found <= declared for found, declared in pairs)


@pytest.mark.parametrize(
    ("name", "options", "more"),
    [
        ("derpp+bfp", {}, {"memory": {"draws": "shared"}}),
        ("derpp+bfp", {}, {"memory": {"rows": 7, "draw": 9}}),  # draws of all that there is
        ("derpp+bfp", {"derpp": {"target": "old_net"}, "bfp": {"on": "stream"}}, {}),
        ("er+bfp", {"er": {"first_task": False}, "bfp": {"on": "replay"}}, {}),
        ("fdr+bfp", {"fdr": {"update": "two_steps"}}, {}),
        ("fdr+bfp", {"fdr": {"update": "two_steps"}}, {"memory": {"draws": "shared"}}),
        ("agem+bfp", {}, {"memory": {"policy": "plain"}}),
        ("agem+bfp", {}, {"memory": {"draws": "shared"}}),  # passes backward twice
        ("lucir+bfp", {"lucir": {"fit_by": "all"}}, {}),
        ("bic", {"bic": {"bias_epochs": 3}}, {"memory": {"rows": 60}}),
        ("jt", {"jt": {"data": "seen"}}, {}),
        ("er", {}, {"train": ["head"]}),
        ("derpp+bfp", {"bfp": {"teacher": "stored"}}, {}),
        ("er+bfp", {"bfp": {"teacher": "stored", "on": "replay"}}, {}),
        ("derpp+bfp", {"bfp": {"teacher": "stored"}}, {"memory": {"draws": "shared"}}),
        ("lucir+fd", {"fd": {"teacher": "stored"}}, {}),
    ],
)
def test_declared_passes_hold_for_settings_that_change_them(
    name: str, options: dict[str, Any], more: dict[str, Any]
) -> None:
    check_passes(name, options, **more)
