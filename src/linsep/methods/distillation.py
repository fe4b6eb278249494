"""Methods that distil the previous network: LwF, iCaRL and BiC.

LwF says of the old classes on new images what the old net says (Li and Hoiem, 2016). iCaRL adds
exemplars to the stream, and the nearest mean decides (Rebuffi et al., 2017; herding is in
exemplars.py, the nearest mean in model.py). BiC then takes back the bias to the newest classes by
two numbers (Wu et al., 2019): the correction is a part of the head (heads.py), so the old net's
logits, which are distilled, are corrected ones; a tenth of the rows is kept from training to fit it
(exemplars.py).
"""

from functools import partial
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from ..data.images import Images, join
from ..data.tasks import Task
from ..learning.exemplars import HELD_OUT, HeldOut, hold_out, of_class
from ..learning.losses import cross_entropy_among, distilled_bce, soft_cross_entropy
from ..learning.memory import Fresh, Memory
from ..learning.method import NEW_AND_STORED, Descent, Method, Rows, Stage, WeightedTerm
from ..learning.model import NearestMean
from ..learning.terms import SeenCrossEntropy, Step, TaskContext, Term
from ..nets.heads import CorrectedHead
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
    """Cross-entropy and distillation, both on current-task data; nothing is stored."""
    weighted_terms = (
        WeightedTerm("ce", 1.0, partial(StreamCE, among=ce_among)),
        WeightedTerm("distillation", distillation, partial(Distillation, temperature=temperature)),
    )
    return Method(weighted_terms)


class DistilledBCE(Term):
    """New classes towards their labels, old ones towards what the old net says of the same rows."""

    looks_back = True

    def forward(self, step: Step) -> Tensor:
        p, task = step.stream, step.task
        old = p.before.logits if p.before is not None and task.earlier else None
        return distilled_bce(p.out.logits, p.batch.y, task.seen, old, task.earlier)


HerdBy = Literal["direction", "feature"]


def icarl(*, herd_by: HerdBy = "direction") -> Method:
    """Binary cross-entropies on new and stored samples; prediction by the nearest exemplar mean.

    A mean over classes has small gradients: its learning rate is five times the scenario's.
    """
    return Method(
        (WeightedTerm("distilled_bce", 1.0, DistilledBCE),),
        lr=0.1,
        rate_factor=5.0,
        suggests={"weight_decay": 1e-5},
        memories=("herding" if herd_by == "direction" else "raw_herding",),
        predictor=NearestMean,
        stages=(Stage("train", rows=NEW_AND_STORED, observes=False),),
    )


Share = Literal["old_classes", "one_over_tasks"]
KDScale = Literal["none", "t_squared"]


class BalancedDistillation(Term):
    """(1 - l) CE + l KD, the first over seen classes, the second over earlier ones.

    l is the share of old classes among those seen; the BFP authors' program has 1 / (t + 1)
    instead, with t tasks before this one, which falls where the other rises, and multiplies the
    distillation by T^2, which neither the paper nor Wu et al.'s program does.
    """

    looks_back = True

    def __init__(
        self,
        spec: Spec,
        *,
        temperature: float = 2.0,
        share: Share = "old_classes",
        kd_scale: KDScale = "none",
    ) -> None:
        super().__init__(spec)
        self.temperature, self.share = temperature, share
        self.factor = temperature**2 if kd_scale == "t_squared" else 1.0

    def forward(self, step: Step) -> Tensor:
        p, task = step.stream, step.task
        ce = cross_entropy_among(p.out.logits, p.batch.y, task.seen)
        if p.before is None or not task.earlier:
            return ce
        kept = len(task.earlier) / len(task.seen)
        part = kept if self.share == "old_classes" else 1 / (task.index + 1)
        kd = soft_cross_entropy(p.out.logits, p.before.logits, task.earlier, self.temperature)
        return (1 - part) * ce + part * self.factor * kd


class ShiftPenalty(Term):
    """b^2 / 2, of the shift that is being fitted; the slope is free (Wu et al.'s program)."""

    def forward(self, step: Step) -> Tensor:
        head = step.net.head
        assert isinstance(head, CorrectedHead)
        return 0.5 * head.correction.shift.square()


def trained_on(task: Task, memory: Memory, rng: Fresh) -> Images:
    """All rows but the tenth that is held out, of the task and of the memory."""
    assert isinstance(memory, HeldOut)
    return join([hold_out(task.train, rng())[0], memory.parts()[0]])


def balanced_held_out(task: Task, memory: Memory, rng: Fresh) -> Images:
    """As many rows of every class, none trained on; no rows at all without old or new classes."""
    assert isinstance(memory, HeldOut)
    old, new = memory.parts()[1], hold_out(task.train, rng())[1]
    both, seen = join([old, new]), task.seen
    fewest = min(int((both.y == c).sum()) for c in seen) if task.earlier and task.classes else 0
    return join([of_class(both, c, fewest) for c in seen])


def rows_held_out(task: Task, capacity: int) -> int:
    return (
        int(HELD_OUT * capacity * len(task.seen) / max(1, len(task.earlier))) if task.earlier else 0
    )


def turn_to_new_classes(context: TaskContext) -> None:
    head = context.net.head
    assert isinstance(head, CorrectedHead)
    head.correction.turn_to(context.task.classes)


def bic(
    *,
    temperature: Rate = 2.0,
    share: Share = "old_classes",
    kd_scale: KDScale = "none",
    bias_epochs: Annotated[int, Field(ge=0)] = 250,
    bias_lr: Rate = 1e-2,
    bias_penalty: Weight = 0.1,
) -> Method:
    """Distillation on new and stored samples, then a o + b for the newest classes' logits o.

    The paper fits a and b at 1e-3, with many steps an epoch. A small memory gives one step, and a
    step of Adam moves each number by no more than about its rate: hence the larger default.
    """
    distilled = partial(
        BalancedDistillation, temperature=temperature, share=share, kd_scale=kd_scale
    )
    train = Stage(
        "train",
        rows=Rows(trained_on, NEW_AND_STORED.expected),
        trains=("backbone", "head.linear"),
        observes=False,
        begin=turn_to_new_classes,
    )
    bias = Stage(
        "bias",
        bias_epochs,
        Descent(bias_lr, "adam"),
        rows=Rows(balanced_held_out, rows_held_out),
        augmented=False,
        trains=("head.correction",),
        replays=False,
        observes=False,
    )
    weighted_terms = (
        WeightedTerm("distilled_ce", 1.0, distilled),
        WeightedTerm("bias_ce", 1.0, SeenCrossEntropy, stages=("bias",)),
        WeightedTerm("bias_penalty", bias_penalty, ShiftPenalty, stages=("bias",)),
    )
    return Method(weighted_terms, memories=("held_out",), head=CorrectedHead, stages=(train, bias))
