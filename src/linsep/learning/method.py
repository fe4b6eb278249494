"""What a method is: a named sum of terms and the few choices around it. A recipe, not a base class.

Four concepts make a loss: a `Summand` is a weighted `Term` of the sum, and a term gives its loss of
a `Step`, which holds the `Pass` of the stream's batch and that of a replay batch (terms.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from ..data.images import Images, join
from ..data.tasks import Scenario, Task
from ..errors import ConfigError, unknown
from ..nets.heads import Head, LinearHead
from ..nets.net import Spec
from .memory import Memory
from .predictors import Predictor
from .terms import Moment, Term
from .updates import DESCEND, Descent, Rule

Addition = Callable[["Method"], "Method"]  # what stands behind a `+`: from a method to another


@dataclass(frozen=True)
class Summand:
    """A term with its weight and the stages it takes part in; as an addition, one term more."""

    name: str
    weight: float
    build: Callable[[Spec], Term]
    from_memory: bool = False  # has nothing to say without one
    stages: tuple[str, ...] = ()  # where it takes part; none named: in the method's first stage

    def __call__(self, method: Method) -> Method:
        if self.name in {s.name for s in method.summands}:
            raise ConfigError(f"this method already has a term named {self.name!r}")
        if self.from_memory and not method.memories:
            raise ConfigError(
                f"term {self.name!r} replays, and this method keeps no memory; add it to one that "
                "does, such as er"
            )
        if self.from_memory and not method.draws:
            raise ConfigError(
                f"term {self.name!r} replays draws, and this method makes none: its stored rows "
                "are part of the stream, so the term must look at that"
            )
        return replace(method, summands=(*method.summands, self))


class Rows(NamedTuple):
    """Which rows a stage trains on, and about how many those will be."""

    # Of the task and the memory. The generator is new, and the same, whenever it is asked for.
    choose: Callable[[Task, Memory, Callable[[], np.random.Generator]], Images]
    expected: Callable[[Task, int], int]  # given the memory's capacity; for the time left


NEW = Rows(lambda task, memory, rng: task.train, lambda task, capacity: len(task.train))
STORED = Rows(lambda task, memory, rng: memory.images(), lambda task, capacity: capacity)
NEW_AND_STORED = Rows(
    lambda task, memory, rng: join([task.train, memory.images()]),
    lambda task, capacity: len(task.train) + (capacity if task.earlier else 0),
)


BY_THE_RUN = Descent()  # with the run's settings


def nothing_to_do(moment: Moment) -> None:
    pass


def as_given(scenario: Scenario) -> Scenario:
    return scenario


@dataclass(frozen=True)
class Stage:
    """A pass over some rows within a task, training some parts of the net."""

    name: str
    epochs: int | None = None  # None: as many as the run is configured for
    descent: Descent = BY_THE_RUN
    rows: Rows = NEW
    augmented: bool = True  # crops and flips, or the images as they are
    trains: Collection[str] = ("backbone", "head")  # modules of the net; others are in eval mode
    draws: bool = True  # terms get replay batches beside the stream's
    observes: bool = True  # the memory may take rows of the stream; False if `rows` views it
    settled: bool = False  # the memory takes in the task before this stage, not at the task's end
    fresh: bool = False  # starts from a newly initialised net
    begin: Callable[[Moment], None] = nothing_to_do  # last before the first step; keyed initialiser


@dataclass(frozen=True)
class Method:
    summands: tuple[Summand, ...]
    lr: float = 0.03  # where neither the user nor the scenario gives one
    rate_factor: float = 1.0  # times the scenario's learning rate, if that gives one
    suggests: Mapping[str, Any] = field(default_factory=dict)  # other training settings, likewise
    net_options: Mapping[str, Any] = field(default_factory=dict)  # for nets that have them
    memories: tuple[str, ...] = ()  # policies it can work with, its own first; none: no memory
    head: Head = LinearHead
    rule: Rule = DESCEND
    predictor: Callable[[Spec], Predictor] = Predictor
    average: float | None = None  # decay of an average of the weights that predicts; None: they do
    stages: tuple[Stage, ...] = (Stage("train"),)
    curriculum: Callable[[Scenario], Scenario] = as_given  # what is learned, in which order

    def __post_init__(self) -> None:
        known = [stage.name for stage in self.stages]
        for summand in self.summands:
            for stage in summand.stages:
                if stage not in known:
                    raise ConfigError(f"term {summand.name!r}: {unknown('stage', stage, known)}")

    @property
    def draws(self) -> bool:
        """Whether replay batches come beside the stream's."""
        return bool(self.memories) and any(stage.draws for stage in self.stages)

    def active(self, stage: Stage) -> list[str]:
        """The names of the terms that take part in a stage, in the order of the sum."""
        first = (self.stages[0].name,)
        return [s.name for s in self.summands if stage.name in (s.stages or first)]

    def __add__(self, extra: Addition) -> Method:
        return extra(self)


@dataclass(frozen=True)
class BoundStage:
    """A stage of a task with everything that stays the same during it."""

    task: Task
    stage: Stage
    rows: Images  # that it trains on
    terms: Mapping[str, Term]  # those that take part, by name, in the order of the sum
    draws: Mapping[str, str]  # the name of the replay batch of each of them that has one
    parameters: Sequence[nn.Parameter]  # of the net, that learn

    def due(self, step: int) -> BoundStage:
        """The stage as it is in this step of an epoch: without the terms that sit it out."""
        due = {name: term for name, term in self.terms.items() if step % term.every == 0}
        return self if len(due) == len(self.terms) else replace(self, terms=due)
