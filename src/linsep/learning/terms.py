"""Loss terms: each binds one pure loss to what it looks at during a step.

A term sees a `Step` and nothing else. What it will read of it beyond the stream's pass it declares
beforehand, and what no term needs is neither computed nor allocated. Terms that only one method has
live beside its recipe.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from ..data.images import Batch, Images
from ..data.tasks import Task
from ..nets.heads import widened
from ..nets.net import Net, Output, Spec
from . import losses

On = Literal["both", "stream", "replay"]
# What a term reads of a step: a replay batch (`step.replay`), what the previous task's net says of
# its rows (`before` of a pass), logits or features that are stored with them (of a batch).
Need = Literal["replay", "before", "logits", "features"]
Needs = Set[Need]
NOTHING: Needs = frozenset()


class Pass:
    """A batch as the net sees it now (`out`) and as the previous task's net saw it (`before`)."""

    def __init__(self, batch: Batch, net: Net, previous_net: Net | None) -> None:
        self.batch, self.out = batch, net(batch.x)
        self._previous_net = previous_net

    @cached_property
    def before(self) -> Output | None:
        """Without gradient, computed once and only if asked for; None in the first task."""
        if self._previous_net is None:
            return None
        with torch.no_grad():
            return self._previous_net(self.batch.x)


@dataclass(frozen=True)
class Step:
    """All that a term may look at in one optimisation step, and nothing else."""

    task: Task
    net: Net  # to read, never to change
    stream: Pass
    replay: Pass | None  # the term's replay batch; None if it wants none or nothing is stored yet


@dataclass(frozen=True)
class TaskContext:
    """All that a part of a method may look at between steps: at a stage's start, a task's end."""

    task: Task
    net: Net
    evaluate: Callable[
        [Images], Output
    ]  # what the net says of images as they are, without gradient
    inputs: Callable[[Images], Tensor]  # the images as the net reads them at prediction
    before: Callable[[Images], Output] | None = None  # the net that predicted before this task
    terms: Sequence["Term"] = ()  # of the method


class Term(nn.Module):
    """A loss of the objective; None if it has no loss in this step."""

    looks_back = False  # whether it compares with the previous task's net, from the second task on
    lasting = True  # whether its state matters to later tasks; not if each task resets it
    taps: Sequence[str] = ()  # blocks of the backbone that it reads beside the features
    every = 1  # it takes part in those steps of an epoch whose number is a multiple of this

    def __init__(self, spec: Spec) -> None:
        super().__init__()

    def needs(self, task: Task) -> Needs:
        """What it will read during a task."""
        return {"before"} if self.looks_back and task.earlier else NOTHING

    def forward(self, step: Step) -> Tensor | None:
        raise NotImplementedError(f"{type(self).__name__} must give a loss")

    def begin_task(self, task: Task) -> None:
        """Reset layers here if need be: torch's generator is seeded for this term and task."""

    def after_step(self, net: Net, weight: float) -> None:
        """Called when the net has moved and its gradients, the whole objective's, are still there.

        In the objective this term had the given weight.
        """

    def end_task(self, context: TaskContext) -> None:
        """Called after the task, with torch's generator seeded for this term and task."""

    def optimizer(self) -> Optimizer | None:
        return None

    def grown(self, state: Mapping[str, Any], places: Tensor, net: Net) -> Mapping[str, Any]:
        """The state of this term for a net with fewer classes, as it is for this one.

        `places` says where each of that net's parameters, in one vector, is among this net's.
        """
        return dict(widened(state, self.state_dict()))


class CrossEntropy(Term):
    """On the stream, over all classes of the head."""

    def forward(self, step: Step) -> Tensor:
        return F.cross_entropy(step.stream.out.logits, step.stream.batch.y)


class SeenCrossEntropy(Term):
    """On the stream, over the classes seen so far."""

    def forward(self, step: Step) -> Tensor:
        p = step.stream
        return losses.cross_entropy_among(p.out.logits, p.batch.y, step.task.seen)


class ReplayCE(Term):
    """Cross-entropy on replayed rows."""

    def __init__(self, spec: Spec, *, first_task: bool = True) -> None:
        super().__init__(spec)
        self.first_task = first_task

    def needs(self, task: Task) -> Needs:
        return {"replay"} if self.first_task or task.earlier else NOTHING

    def forward(self, step: Step) -> Tensor | None:
        p = step.replay
        return None if p is None else F.cross_entropy(p.out.logits, p.batch.y)


class ReplayLogits(Term):
    """Logits of replayed rows towards what they were.

    The target is what was stored with the row ("stored"), or what the previous task's net says of
    the same augmented images ("previous_net"; in the first task, which has none, the stored ones).
    """

    def __init__(
        self,
        spec: Spec,
        *,
        target: Literal["stored", "previous_net"] = "stored",
        distance: losses.Distance = "mse",
        first_task: bool = True,
    ) -> None:
        super().__init__(spec)
        self.target, self.distance, self.first_task = target, distance, first_task

    def needs(self, task: Task) -> Needs:
        if not (self.first_task or task.earlier):
            return NOTHING
        old = self.target == "previous_net" and task.earlier
        return {"replay", "before" if old else "logits"}

    def forward(self, step: Step) -> Tensor | None:
        p = step.replay
        if p is None:
            return None
        target = p.batch.logits
        if self.target == "previous_net" and p.before is not None:
            target = p.before.logits
        return None if target is None else losses.logit_match(p.out.logits, target, self.distance)
