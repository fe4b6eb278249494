"""What a method is: a named sum of terms and the few choices around it. A recipe, not a base class.

A method is a sum of `WeightedTerm`s. Each has a weight and builds a `Term`, which computes a loss
from a `Step`: the forward `Pass` of the current batch and, if it asked for one, of a replay batch
(terms.py). A `Rule` turns the losses into gradients; a `Descent` is the optimiser and learning rate
that apply them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..data.images import Images, join
from ..data.tasks import Scenario, Task
from ..errors import ConfigError, unknown
from ..nets.heads import Head, LinearHead
from ..nets.net import Net, Spec
from ..settings.sections import Training
from .memory import Memory
from .model import Predictor
from .optimizers import SGD, Adam, AdamW
from .terms import TaskContext, Term

Names = Sequence[str]
Losses = Mapping[str, Tensor]  # by the names of their terms, weighted
Parameters = Sequence[nn.Parameter]


@dataclass(frozen=True)
class Rule:
    """How the losses of a step become gradients, and in how many updates they are followed."""

    # The terms of each update, in order: replayed batches pass the net in this order too.
    rounds: Callable[[Names], Sequence[Names]]
    backward: Callable[[Losses, Parameters], None]  # leaves gradients in the parameters
    line: str = "down the gradient of the sum"  # for figures: "a step ..."


def _sum(losses: Losses) -> Tensor:
    return torch.stack(list(losses.values())).sum()


def _down_the_sum(losses: Losses, parameters: Parameters) -> None:
    _sum(losses).backward()


DESCEND = Rule(lambda names: [names], _down_the_sum)  # down the gradient of the sum


def in_two_steps(last: str) -> Rule:
    """Down the gradient of the other terms; then, from there, down that of the last one."""

    def rounds(names: Names) -> list[Names]:
        return [[n for n in names if n != last], [n for n in names if n == last]]

    line = f"down the gradient of the other terms, then one down that of {last},"
    return Rule(rounds, _down_the_sum, line)


def project(reference: str) -> Rule:
    """Down g, the gradient of the other terms, but never against r, that of the reference term.

    g - (g.r / r.r) r where g.r < 0, else g: eq. 11 of Chaudhry et al. (2019), A-GEM.
    """

    def rounds(names: Names) -> list[Names]:
        return [sorted(names, key=lambda name: name == reference)]

    line = f"down the gradient of the other terms, but never against that of {reference},"
    backward = partial(_never_against, reference=reference)
    return Rule(rounds, backward, line)


def _never_against(losses: Losses, parameters: Parameters, *, reference: str) -> None:
    others = {name: loss for name, loss in losses.items() if name != reference}
    past = losses.get(reference)
    r: Sequence[Tensor] = ()
    if past is not None:
        shared = bool(others)  # perhaps a replay batch, whose pass has then to be gone back twice
        r = torch.autograd.grad(past, list(parameters), retain_graph=shared, materialize_grads=True)
    if others:
        _sum(others).backward()
    if past is not None:
        g = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        against = torch.stack([(a * b).sum() for a, b in zip(g, r, strict=True)]).sum().clamp(max=0)
        square = torch.stack([b.square().sum() for b in r]).sum()
        factor = against / square.clamp(min=torch.finfo(square.dtype).tiny)
        for p, a, b in zip(parameters, g, r, strict=True):
            p.grad = a - factor * b


@dataclass(frozen=True)
class Descent:
    """The optimiser of a stage and its learning rate."""

    # The learning rate, or one for each epoch counted from 0; None: the run's, with its schedule.
    lr: float | Callable[[int], float] | None = None
    optimizer: Literal["run's", "adam"] = "run's"  # the latter without weight decay

    def build(self, parameters: Parameters, training: Training) -> Optimizer:
        if self.optimizer == "adam":
            return Adam(parameters, lr=training.lr)
        momentum, decay = training.momentum, training.weight_decay
        if training.optimizer == "adamw":
            return AdamW(parameters, lr=training.lr, weight_decay=decay)
        return SGD(parameters, lr=training.lr, momentum=momentum, weight_decay=decay)

    def rate(self, epoch: int, training: Training) -> float:
        if self.lr is None:
            return training.lr * training.schedule.rate(epoch)
        return self.lr(epoch) if callable(self.lr) else self.lr


AddOn = Callable[["Method"], "Method"]  # what stands behind a `+`: from a method to another


@dataclass(frozen=True)
class WeightedTerm:
    """A term with its weight and the stages it takes part in; as an add-on, it adds this term."""

    name: str
    weight: float
    build: Callable[[Spec], Term]
    from_memory: bool = False  # cannot be used without a memory
    stages: tuple[str, ...] = ()  # where it takes part; none named: in the method's first stage

    def __call__(self, method: Method) -> Method:
        if self.name in {s.name for s in method.weighted_terms}:
            raise ConfigError(f"this method already has a term named {self.name!r}")
        if self.from_memory and not method.memories:
            raise ConfigError(
                f"term {self.name!r} replays, and this method keeps no memory; add it to one that "
                "does, such as er"
            )
        if self.from_memory and not method.replays:
            raise ConfigError(
                f"term {self.name!r} needs replay batches, and this method uses none: its stored "
                "samples are mixed into the current task's batches"
            )
        return replace(method, weighted_terms=(*method.weighted_terms, self))


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


def nothing_to_do(context: TaskContext) -> None:
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
    later: Collection[str] | None = None  # the same from the second task on; None: no others
    replays: bool = True  # terms get replay batches beside the stream's
    observes: bool = True  # the memory may take rows of the stream; False if `rows` views it
    # The memory takes in the task before this stage, not at the task's end.
    consolidate_first: bool = False
    reinitialise: bool = False  # starts from a newly initialised net
    # Called before the first step, with torch's generator seeded for the stage.
    begin: Callable[[TaskContext], None] = nothing_to_do

    def of(self, task: Task) -> Stage:
        """The stage as it is in a task."""
        return replace(self, trains=self.later) if self.later and task.earlier else self

    def epochs_of(self, training: Training) -> int:
        """How many it takes in a run with these settings."""
        return training.epochs if self.epochs is None else self.epochs


@dataclass(frozen=True)
class Method:
    weighted_terms: tuple[WeightedTerm, ...]
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
        for weighted_term in self.weighted_terms:
            for stage in weighted_term.stages:
                if stage not in known:
                    raise ConfigError(
                        f"term {weighted_term.name!r}: {unknown('stage', stage, known)}"
                    )

    @property
    def trains(self) -> bool:
        """Whether it takes steps at all, and does not predict from sums alone."""
        return any(stage.epochs != 0 for stage in self.stages)

    @property
    def replays(self) -> bool:
        """Whether replay batches come beside the stream's."""
        return bool(self.memories) and any(stage.replays for stage in self.stages)

    def moves_backbone(self, net: Net) -> bool:
        """Return whether the backbone learns after the first task."""
        trained = [stage.trains if stage.later is None else stage.later for stage in self.stages]
        named = [name for names in trained for name in names if name.startswith("backbone")]
        return bool(named) and net.learns("backbone")

    def active(self, stage: Stage) -> list[str]:
        """The names of the terms that take part in a stage, in the order of the sum."""
        first = (self.stages[0].name,)
        return [s.name for s in self.weighted_terms if stage.name in (s.stages or first)]

    def __add__(self, extra: AddOn) -> Method:
        return extra(self)


@dataclass(frozen=True)
class BoundStage:
    """A stage of a task with everything that stays the same during it."""

    task: Task
    stage: Stage
    rows: Images  # that it trains on
    terms: Mapping[str, Term]  # those that take part, by name, in the order of the sum
    replay_names: Mapping[str, str]  # of the replay batch of each of them that has one
    parameters: Sequence[nn.Parameter]  # of the net, that learn

    def due(self, step: int) -> BoundStage:
        """The stage as it is in this step of an epoch: without the terms that sit it out."""
        due = {name: term for name, term in self.terms.items() if step % term.every == 0}
        return self if len(due) == len(self.terms) else replace(self, terms=due)
