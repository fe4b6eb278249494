"""What a run costs: an estimate before it begins, and the images that pass its networks, counted.

Counted is what training does: its steps, and what a method passes through the networks between them
to choose exemplars, fit a predictor or weigh parameters. Tests are not counted. docs/cost.md
defines the figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn

from ..data.images import dtype_of
from ..data.tasks import Scenario, Task
from ..nets.frozen import FrozenBackbone
from ..nets.net import Output
from ..randomness import Cursor
from ..settings.sections import Training
from .learner import Learner
from .method import Method

BACKWARD = 2  # passes forward that one backward costs: gradients of inputs and of weights
TRAINED = 1 + BACKWARD  # passes forward that a trained image costs: its own, and one backward
KINDS = ("forward", "backward", "frozen")
COLUMNS = {"y": "labels"}  # of a memory, as they are called here
IMAGES = "x", "place"  # itself, or where it is in the data that an experiment has anyway


@dataclass(frozen=True)
class Workload:
    """The sizes of a run; rows that a stage chooses from the memory are estimated."""

    per_epoch: tuple[tuple[int, ...], ...]  # steps in an epoch, of each task and stage
    epochs: tuple[int, ...]  # of each stage
    tests: tuple[int, ...]  # images to test after each task
    batch_size: int

    @classmethod
    def of(cls, method: Method, scenario: Scenario, training: Training, room: int) -> Workload:
        """`room` is the memory's capacity."""
        size = training.batch_size
        per_epoch = tuple(
            tuple(-(-stage.rows.expected(task, room) // size) for stage in method.stages)
            for task in scenario.tasks
        )
        tested = [len(group.test) for group in scenario.groups]
        tests = tuple(sum(tested[: task.index + 1]) for task in scenario.tasks)
        return cls(per_epoch, tuple(s.epochs_of(training) for s in method.stages), tests, size)

    def steps(self, cursor: Cursor | None = None) -> int:
        """Training steps before a place in the run, or in all."""
        count = 0
        for task, stages in enumerate(self.per_epoch):
            for stage, per_epoch in enumerate(stages):
                whole = self.epochs[stage] * per_epoch
                if cursor is None or (task, stage) < cursor[:2]:
                    count += whole
                elif (task, stage) == cursor[:2]:
                    count += min(cursor.epoch * per_epoch + cursor.step, whole)
        return count

    def trained(self, cursor: Cursor | None = None) -> int:
        """Images of the stream that training passes, each as often as there are epochs."""
        return self.steps(cursor) * self.batch_size

    def tested(self, cursor: Cursor | None = None) -> int:
        """Images tested after the tasks before a place in the run, or after all."""
        return sum(self.tests if cursor is None else self.tests[: cursor.task])

    def passes(self, cursor: Cursor | None = None) -> int:
        """Images passed forward through the net; replayed ones, which vary, are not counted."""
        return TRAINED * self.trained(cursor) + self.tested(cursor)


class Meter:
    """Counts the images that pass a learner's networks while it is `counting`."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.run = Counter[str]()  # so far: forward, backward, frozen
        self.steps = Counter[str]()  # the same of several steps, and how many they are

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what passes inside the block: forward, backward through the backbone, frozen."""
        learner, eval_net = self.learner, self.learner.eval_net
        frozen = isinstance(learner.net.backbone, FrozenBackbone)

        def rows_of_features(x: Tensor) -> bool:  # their images have been counted
            return frozen and x.ndim == 2

        def passed(x: Tensor, out: Output) -> None:
            if rows_of_features(x):
                return
            self.run["forward"] += len(x)
            if (node := out.features.grad_fn) is not None:  # of a compiled net, that of all outputs
                node.register_prehook(partial(returned, len(x)))

        def returned(rows: int, gradients: object) -> None:
            self.run["backward"] += rows

        def predicted(x: Tensor, out: Output) -> None:
            if not rows_of_features(x) and not any(
                module.training for module in eval_net.modules()
            ):  # else it is made ready
                self.run["forward"] += len(x)

        def froze(x: Tensor, out: Output) -> None:
            self.run["frozen"] += 0 if rows_of_features(x) else len(x)

        past = [net for net in (learner.previous_net, learner.previous_eval_net) if net is not None]
        eval_net.on_pass, learner.net.on_pass = predicted, passed  # the same net, most often
        for net in past:
            net.on_pass = froze
        try:
            yield
        finally:
            for net in (learner.net, eval_net, *past):
                net.on_pass = None

    def begin(self, task: Task) -> None:
        """Count the one pass of a task's images through a frozen backbone."""
        if isinstance(self.learner.net.backbone, FrozenBackbone):
            self.run["forward"] += len(task.train)

    @contextmanager
    def step(self, *, noted: bool) -> Iterator[None]:
        """Count a step, and note it among those that `facts` averages."""
        before = self.run.copy()
        with self.counting():
            yield
        if noted:
            self.steps += self.run - before + Counter(steps=1)

    def facts(self, scenario: Scenario, given: Scenario) -> dict[str, Any]:
        """The cost as cost.json has it.

        The scenario is what the method's curriculum made of the given one. Rows of earlier tasks
        that its last task has again are counted as kept: joint training's.
        """
        stream = self.learner.training.epochs * sum(len(task.train) for task in given.tasks)
        images = self.run["forward"] + BACKWARD * self.run["backward"] + self.run["frozen"]
        kept = dict(_kept(self.learner))
        again = len(scenario.tasks[-1].train) - len(given.tasks[-1].train)
        kept["images"] += again * int(np.prod(scenario.shape)) * dtype_of(scenario.shape).itemsize
        return {
            "compute": images / (TRAINED * stream),
            "images": images,
            "bytes": sum(kept.values()),
            "parameters": _parameters(self.learner),
            "step": {kind: self.steps[kind] / max(self.steps["steps"], 1) for kind in KINDS},
            "run": {kind: self.run[kind] for kind in KINDS},
            "kept": kept,
        }

    def state_dict(self) -> dict[str, Any]:
        return {"run": dict(self.run), "steps": dict(self.steps)}

    def load_state_dict(self, state: Mapping[str, Mapping[str, int]]) -> None:
        counts = [*state["run"].values(), *state["steps"].values()]
        if not all(type(count) is int and count >= 0 for count in counts):
            raise ValueError("the meter should hold counts from 0 on")
        self.run, self.steps = Counter(state["run"]), Counter(state["steps"])


def _kept(learner: Learner) -> Iterator[tuple[str, int]]:
    """What is kept from task to task, and its bytes."""
    yield "images", learner.memory.image_bytes
    for name, column in learner.memory.columns.items():
        if name not in IMAGES:
            yield COLUMNS.get(name, name), column.nbytes
    yield "frozen", _bytes(learner.previous_net)
    yield "average", _bytes(_average(learner))
    yield "terms", sum(value.nbytes for value in _terms_state(learner))
    yield "predictor", _bytes(learner.predictor)


def _parameters(learner: Learner) -> int:
    """Of the networks, and numbers that terms keep."""
    nets = filter(None, [learner.net, learner.previous_net, _average(learner)])
    own = sum(value.numel() for value in _terms_state(learner))
    return own + sum(p.numel() for net in nets for p in net.parameters())


def _average(learner: Learner) -> nn.Module | None:
    """The averaged weights; a copy that only has other statistics is made from the net again."""
    return learner.eval_copy if learner.method.average is not None else None


def _terms_state(learner: Learner) -> list[Tensor]:
    lasting = [term.state_dict() for term in learner.terms.values() if term.lasting]
    return [value for state in lasting for value in state.values()]


def _bytes(module: nn.Module | None) -> int:
    return 0 if module is None else sum(value.nbytes for value in module.state_dict().values())
