"""BiC: distillation, then two numbers that take back the bias to the newest classes.

Wu et al., 2019. The correction is a part of the head (heads.py), so the old net's logits, which are
distilled, are corrected ones; a tenth of the rows is kept from training to fit it (exemplars.py).
"""

from functools import partial
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from ..data.images import Images, join
from ..data.tasks import Task
from ..learning.exemplars import HELD_OUT, HeldOut, hold_out, of_class
from ..learning.losses import cross_entropy_among, soft_cross_entropy
from ..learning.memory import Fresh, Memory
from ..learning.method import NEW_AND_STORED, Method, Rows, Stage, Summand
from ..learning.terms import Moment, SeenCrossEntropy, Step, Term
from ..learning.updates import Descent
from ..nets.heads import CorrectedHead
from ..nets.net import Spec
from ..settings.sections import Rate, Weight

Share = Literal["old_classes", "one_over_tasks"]


class BalancedDistillation(Term):
    """(1 - l) CE + l KD, the first over seen classes, the second over earlier ones.

    l is the share of old classes among those seen; the BFP authors' program has 1 / (t + 1)
    instead, with t tasks before this one, which falls where the other rises. Neither the paper nor
    Wu et al.'s program multiplies the distillation by T^2.
    """

    looks_back = True

    def __init__(
        self, spec: Spec, *, temperature: float = 2.0, share: Share = "old_classes"
    ) -> None:
        super().__init__(spec)
        self.temperature, self.share = temperature, share

    def forward(self, step: Step) -> Tensor:
        p, task = step.stream, step.task
        ce = cross_entropy_among(p.out.logits, p.batch.y, task.seen)
        if p.before is None or not task.earlier:
            return ce
        kept = len(task.earlier) / len(task.seen)
        part = kept if self.share == "old_classes" else 1 / (task.index + 1)
        kd = soft_cross_entropy(p.out.logits, p.before.logits, task.earlier, self.temperature)
        return (1 - part) * ce + part * kd


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


def turn_to_new_classes(moment: Moment) -> None:
    head = moment.net.head
    assert isinstance(head, CorrectedHead)
    head.correction.turn_to(moment.task.classes)


def bic(
    *,
    temperature: Rate = 2.0,
    share: Share = "old_classes",
    bias_epochs: Annotated[int, Field(ge=0)] = 250,
    bias_lr: Rate = 1e-2,
    bias_penalty: Weight = 0.1,
) -> Method:
    """Distillation on new and stored rows, then a o + b for the newest classes' logits o.

    The paper fits a and b at 1e-3, with many steps an epoch. A small memory gives one step, and a
    step of Adam moves each number by no more than about its rate: hence the larger default.
    """
    distilled = partial(BalancedDistillation, temperature=temperature, share=share)
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
        draws=False,
        observes=False,
    )
    summands = (
        Summand("distilled_ce", 1.0, distilled),
        Summand("bias_ce", 1.0, SeenCrossEntropy, stages=("bias",)),
        Summand("bias_penalty", bias_penalty, ShiftPenalty, stages=("bias",)),
    )
    return Method(summands, memories=("held_out",), head=CorrectedHead, stages=(train, bias))
