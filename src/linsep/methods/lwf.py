"""LwF: on new images, say of the old classes what the old net says (Li and Hoiem, 2016)."""

from functools import partial
from typing import Literal

from torch import Tensor

from ..data.tasks import Task
from ..learning.losses import cross_entropy_among, soft_cross_entropy
from ..learning.method import Method, Summand
from ..learning.terms import Step, Term
from ..nets.net import Spec
from ..settings.sections import Rate, Weight

Among = Literal["task", "seen"]


class StreamCE(Term):
    """Among the task's classes, as with a head for each task, or among all seen."""

    def __init__(self, spec: Spec, *, among: Among) -> None:
        super().__init__(spec)
        self.among = among

    def forward(self, step: Step) -> Tensor:
        p, task = step.stream, step.task
        classes = classes_of(task) if self.among == "task" else task.seen
        return cross_entropy_among(p.out.logits, p.batch.y, classes)


def classes_of(task: Task) -> tuple[int, ...]:
    """Those in its data: where classes come again, not the new ones alone."""
    return tuple(task.train.y.bincount().nonzero()[:, 0].tolist())


class Distillation(Term):
    """Softened outputs over earlier classes towards the old net's."""

    looks_back = True

    def __init__(self, spec: Spec, *, temperature: float) -> None:
        super().__init__(spec)
        self.temperature = temperature

    def forward(self, step: Step) -> Tensor | None:
        p, task = step.stream, step.task
        if p.before is None or not task.earlier:
            return None
        return soft_cross_entropy(p.out.logits, p.before.logits, task.earlier, self.temperature)


def lwf(*, distillation: Weight = 1.0, temperature: Rate = 2.0, ce_among: Among = "task") -> Method:
    """Cross-entropy and distillation, both on the stream; nothing is stored."""
    summands = (
        Summand("ce", 1.0, partial(StreamCE, among=ce_among)),
        Summand("distillation", distillation, partial(Distillation, temperature=temperature)),
    )
    return Method(summands)
