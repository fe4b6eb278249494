"""What a method is declared to cost is what it does: every image that passes a net is counted."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple
from fractions import Fraction
from math import lcm
from typing import Any

import pytest
from torch import Tensor, nn

from linsep import testing
from linsep.data.images import Batch
from linsep.data.tasks import Task
from linsep.errors import ConfigError
from linsep.learning.cost import Cost, cost_of, shares
from linsep.learning.method import BoundStage, Method, Summand
from linsep.learning.run import Run
from linsep.learning.terms import CrossEntropy, Needs, Passes, Step, Term
from linsep.methods import METHODS, TERMS, assemble
from linsep.nets.net import Output


def fullest(base: str) -> str:
    """A method's name with all that it takes beside backward terms."""
    name = base
    for term in (name for name in TERMS if name not in testing.BACKWARD):
        try:
            assemble(f"{name}+{term}", {})
        except ConfigError:
            continue
        name = f"{name}+{term}"
    return name


def sums() -> list[Any]:
    """Methods alone, with backward terms and with all else; those that say little more are slow."""
    fast = {*METHODS, *(f"{name}+bfp" for name in METHODS), *map(fullest, ("er", "icarl", "lucir"))}
    every = [base + term for base in METHODS for term in ("", *(f"+{n}" for n in testing.BACKWARD))]
    names = dict.fromkeys([*every, *map(fullest, METHODS)])
    return [pytest.param(name, marks=() if name in fast else pytest.mark.slow) for name in names]


class Counted:
    """Hooks on a run's nets that count images: forward, backward and through the frozen net."""

    def __init__(self, run: Run) -> None:
        self.run, self.images = run, Counter[str]()
        run.learner.net.register_forward_hook(self._passed)
        if run.learner.stand_in is not None:
            run.learner.stand_in.net.register_forward_hook(self._stood_in)
        if run.learner.teacher is not None:
            run.learner.teacher.register_forward_hook(self._froze)
        if run.learner.previous not in (None, run.learner.teacher):
            run.learner.previous.register_forward_hook(self._froze)
        self.steps = set[tuple[int, ...]]()  # passes of the whole steps in question
        run._evaluate = self._untested  # type: ignore[method-assign]
        self._make_step = run.learner.step
        run.learner.step = self._step  # type: ignore[method-assign, assignment]

    def passes(self) -> tuple[int, int, int]:
        return self.images["forward"], self.images["backward"], self.images["frozen"]

    def _step(self, at: BoundStage, batch: Batch, *rest: Any) -> Any:
        before = self.passes()
        made = self._make_step(at, batch, *rest)
        task, stage = self.run.scenario.tasks[-1], self.run.learner.method.stages[0]
        whole = len(batch.y) == self.run.learner.training.batch_size
        if at.task is task and at.stage is stage and whole:
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


@pytest.mark.parametrize("periods", [{1}, {1, 2}, {2, 3}, {1, 4, 6}, {2, 4, 8}, {5, 6, 7}])
def test_periods_are_due_as_often_as_counting_says(periods: set[int]) -> None:
    steps = lcm(*periods)
    counted = Counter(frozenset(p for p in periods if not n % p) for n in range(steps))
    assert shares(periods) == {due: Fraction(n, steps) for due, n in counted.items()}


def test_a_long_period_is_no_work() -> None:
    """10^9 steps would take minutes to count."""
    _, cost = toy("derpp+bfp", {"bfp": {"every": 10**9}})
    assert cost.step.frozen == pytest.approx(0.0, abs=1e-6)
    assert cost.run.frozen > 0  # the first step of an epoch


@pytest.mark.parametrize("name", sums())
def test_declared_passes_are_those_that_hooks_count(name: str) -> None:
    check_passes(name)


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
        ("derpp+bfp+ser+star", {}, {"memory": {"draws": "shared"}}),
        ("agem+star+ser", {"star": {"first_task": False}}, {}),
        ("gdumb+star", {"star": {"on": "stream"}}, {}),
        ("er", {}, {"train": ["head"]}),
        ("derpp+bfp", {"bfp": {"teacher": "stored"}}, {}),
        ("er+bfp", {"bfp": {"teacher": "stored", "on": "replay"}}, {}),
        ("derpp+bfp", {"bfp": {"teacher": "stored"}}, {"memory": {"draws": "shared"}}),
        ("lucir+fd", {"fd": {"teacher": "stored"}}, {}),
        ("ft+bfp+transport", {}, {}),
        ("derpp+bfp+transport", {}, {}),
        ("er+ema+transport", {}, {}),
        ("er+transport", {}, {"evaluation": {"batchnorm": "reestimated"}}),
        ("gdumb+transport", {"transport": {"map": "sdc"}}, {}),
        ("er+transport", {"transport": {"map": "none"}}, {}),
        ("er+transport", {}, {"train": ["head"]}),
    ],
)
def test_declared_passes_hold_for_settings_that_change_them(
    name: str, options: dict[str, Any], more: dict[str, Any]
) -> None:
    check_passes(name, options, **more)


class Often(Term):
    """Looks back at the stream in every third step, and passes its rows once more by itself."""

    def needs(self, task: Task) -> Needs:
        past = bool(task.earlier)
        return Needs(before=past, on="stream", every=3, passes=Passes(forward=1.0, backward=0.5))

    def forward(self, step: Step) -> None:
        return None


def test_a_term_that_works_in_some_steps_is_counted_in_those() -> None:
    """Three tasks of 12 rows in batches of 3, two epochs: steps 0 and 3 of four in each epoch."""
    method = Method((Summand("ce", 1.0, CrossEntropy), Summand("often", 1.0, Often)))
    run = testing.toy_run(method, training={"batch_size": 3})
    cost = cost_of(run.learner, run.scenario, run.scenario)
    stream, working = 3 * 2 * 12, 3 * 2 * 2 * 3
    assert cost.run.forward == stream + working
    assert cost.run.backward == stream + 0.5 * working
    assert cost.run.frozen == 2 * 2 * 2 * 3  # not in the first task
    third = 3 / 3  # rows of a step, on average
    assert astuple(cost.step) == pytest.approx((3 + third, 3 + 0.5 * third, third))


def test_passes_are_multiples_of_fine_tunings() -> None:
    for name, times in {"ft": 1.0, "jt": 1.0, "ewc": 1.0 + 1 / 2}.items():  # Fisher: all rows again
        assert toy(name)[1].passes == pytest.approx(times)
    run, cost = toy("derpp")
    total = cost.run.forward + 2 * cost.run.backward + cost.run.frozen
    rows = sum(len(task.train) for task in run.scenario.tasks)
    assert cost.passes == pytest.approx(total / (2 * 3 * rows))


def test_the_table_of_the_page_is_what_steps_cost() -> None:
    """docs/cost.md, with draws as large as the batch."""
    shared = {"draws": "shared"}
    rows = {
        ("ft", ""): (1, 1, 0), ("lwf", ""): (1, 1, 1), ("er", ""): (2, 2, 0),
        ("agem", ""): (2, 2, 0), ("fdr", ""): (2, 2, 0), ("derpp", ""): (3, 3, 0),
        ("er+bfp", ""): (3, 3, 2), ("derpp+bfp", ""): (4, 4, 2),
        ("derpp+bfp", "shared"): (2, 2, 2), ("derpp+ser", ""): (3, 3, 1),
        ("derpp+bfp+ser", ""): (4, 4, 2), ("derpp+lode+wa", ""): (3, 3, 0),
        ("derpp+star", ""): (6, 5, 0),
    }  # fmt: skip
    for (name, kind), multiples in rows.items():
        draws: dict[str, Any] = {"draw": 8} | (shared if kind else {})
        found = toy(name, memory=draws)[1].step
        assert astuple(found) == tuple(8 * times for times in multiples), (name, kind)


def test_bytes_are_those_of_what_is_kept() -> None:
    pixels, classes = 1 * 8 * 8, 6
    weights = sum(p.numel() for p in toy("ft")[0].learner.net.parameters())
    state = toy("ft")[0].learner.net.state_dict().values()
    whole = sum(v.numel() * v.element_size() for v in state)
    expected: dict[str, dict[str, int]] = {
        "ft": {},
        "er": {"images": 12 * pixels, "labels": 12 * 8},
        "derpp": {"images": 12 * pixels, "labels": 12 * 8, "logits": 12 * classes * 4},
        "derpp+bfp": {
            "images": 12 * pixels, "labels": 12 * 8, "logits": 12 * classes * 4, "frozen": whole,
        },
        "lwf": {"frozen": whole},
        "ewc": {"terms": 2 * weights * 4},
        "jt": {"images": 24 * pixels},  # of the two tasks before the last
    }  # fmt: skip
    for name, kept in expected.items():
        cost = toy(name)[1]
        assert {part: size for part, size in cost.kept.items() if size} == kept, name
        assert cost.facts()["bytes"] == sum(kept.values())
    for name, times in {"ft": 1, "er": 1, "lwf": 2, "ewc": 3}.items():
        assert toy(name)[1].parameters == times * weights
