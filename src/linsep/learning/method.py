"""What a method is: a named sum of terms and the few choices around it. A recipe, not a base class.

Knows the parts by their constructors. Knows no names of methods and runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ..data.images import Images, join
from ..data.tasks import Scenario, Task
from ..errors import ConfigError
from ..nets.heads import Head, LinearHead
from ..nets.net import Spec
from .memory import Memory
from .predictors import Predictor
from .rules import Rule, descend
from .terms import Moment, Term


@dataclass(frozen=True)
class Summand:
    name: str
    weight: float
    build: Callable[[Spec], Term]
    from_memory: bool = False  # has nothing to say without one
    only_in: str | None = None  # the one stage it takes part in; None: every stage that admits it


# Which rows a stage trains on. The generator is the same one for all that chooses rows of a task.
Data = Callable[[Task, Memory, np.random.Generator], Images]


def new_data(task: Task, memory: Memory, rng: np.random.Generator) -> Images:
    return task.train


def new_and_stored(task: Task, memory: Memory, rng: np.random.Generator) -> Images:
    return join([task.train, memory.images()])


def stored(task: Task, memory: Memory, rng: np.random.Generator) -> Images:
    return memory.images()


# About how many rows that will be, with so much room in the memory: for the time that is left.
Rows = Callable[[Task, int], int]


def rows_of_task(task: Task, capacity: int) -> int:
    return len(task.train)


def rows_of_both(task: Task, capacity: int) -> int:
    return len(task.train) + (capacity if task.earlier else 0)


def rows_of_memory(task: Task, capacity: int) -> int:
    return capacity


def nothing_to_do(moment: Moment) -> None:
    pass


def as_given(scenario: Scenario) -> Scenario:
    return scenario


@dataclass(frozen=True)
class Stage:
    """A pass over some data within a task, training some parts of the net by some of the terms."""

    name: str
    epochs: int | None = None  # None: as many as the run is configured for
    # The learning rate, or one for each epoch counted from 0; None: the run's, with its schedule.
    lr: float | Callable[[int], float] | None = None
    optimizer: Literal["sgd", "adam"] = "sgd"  # SGD with the run's momentum and weight decay
    data: Data = new_data
    rows: Rows = rows_of_task
    augmented: bool = True  # crops and flips, or the images as they are
    trains: Collection[str] = ("backbone", "head")  # modules of the net; others are in eval mode
    terms: Collection[str] | None = None  # None: all of the method's
    replay: bool = True  # terms draw from the memory and it observes; False if `data` views it
    settled: bool = False  # the memory takes in the task before this stage, not at the task's end
    fresh: bool = False  # from a newly initialised net
    begin: Callable[[Moment], None] = nothing_to_do  # last before the first step; keyed initialiser


@dataclass(frozen=True)
class Method:
    summands: tuple[Summand, ...]
    lr: float = 0.03  # what to take when the user does not say
    suggests: Mapping[str, Any] = field(default_factory=dict)  # other training settings, likewise
    net_options: Mapping[str, Any] = field(default_factory=dict)  # for nets that have them
    memories: tuple[str, ...] = ()  # policies it can work with, its own first; none: no memory
    head: Head = LinearHead
    rule: Rule = descend
    predictor: Callable[[Spec], Predictor] = Predictor
    stages: tuple[Stage, ...] = (Stage("train"),)
    stream: Callable[[Scenario], Scenario] = as_given  # what is learned, in which order

    @property
    def draws(self) -> bool:
        """Whether replay batches come beside the stream's."""
        return bool(self.memories) and any(stage.replay for stage in self.stages)

    def __add__(self, extra: Summand) -> Method:
        if extra.name in {s.name for s in self.summands}:
            raise ConfigError(f"this method already has a term named {extra.name!r}")
        if extra.from_memory and not self.memories:
            raise ConfigError(f"term {extra.name!r} replays, and this method keeps no memory")
        if extra.from_memory and not self.draws:
            raise ConfigError(
                f"term {extra.name!r} replays draws, and this method makes none: its stored rows "
                "are part of the stream, so the term must look at that"
            )
        return replace(self, summands=(*self.summands, extra))
