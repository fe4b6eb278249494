"""What a method is: a named sum of terms and the few choices around it. A recipe, not a base class.

Knows the parts by their constructors. Knows no names of methods and runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from .data import Images, Scenario, Task
from .errors import ConfigError
from .heads import Head, LinearHead
from .memory import Memory
from .nets import Spec
from .predictors import Predictor
from .terms import Term


@dataclass(frozen=True)
class Summand:
    name: str
    weight: float
    build: Callable[[Spec], Term]
    from_memory: bool = False  # has nothing to say without one


def new_data(task: Task, memory: Memory) -> Images:
    return task.train


def as_given(scenario: Scenario) -> Scenario:
    return scenario


@dataclass(frozen=True)
class Stage:
    """A pass over some data within a task, training some parts of the net by some of the terms."""

    name: str
    epochs: int | None = None  # None: as many as the run is configured for
    lr: float | None = None  # None: the run's, with its schedule
    data: Callable[[Task, Memory], Images] = new_data
    trains: Collection[str] = ("backbone", "head")  # parts of the net; the others are in eval mode
    terms: Collection[str] | None = None  # None: all of the method's
    replay: bool = True  # terms draw from the memory and it observes; False if `data` views it


@dataclass(frozen=True)
class Method:
    summands: tuple[Summand, ...]
    lr: float = 0.03  # what to take when the user does not say
    memories: tuple[str, ...] = ()  # policies it can work with, its own first; none: no memory
    head: Head = LinearHead
    predictor: Callable[[Spec], Predictor] = Predictor
    stages: tuple[Stage, ...] = (Stage("train"),)
    stream: Callable[[Scenario], Scenario] = as_given  # what is learned, in which order

    def __add__(self, extra: Summand) -> Method:
        if extra.name in {s.name for s in self.summands}:
            raise ConfigError(f"this method already has a term named {extra.name!r}")
        if extra.from_memory and not self.memories:
            raise ConfigError(f"term {extra.name!r} replays, and this method keeps no memory")
        return replace(self, summands=(*self.summands, extra))
