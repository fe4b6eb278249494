"""LODE: the stream's cross-entropy in two parts with weights of their own (Liang and Li, 2023)."""

from dataclasses import replace
from functools import partial
from typing import Literal

from torch import Tensor

from ..errors import ConfigError
from ..learning.losses import decoupled_ce
from ..learning.method import Addition, Method, Summand
from ..learning.terms import CrossEntropy, SeenCrossEntropy, Step, Term
from ..nets.net import Spec
from ..settings.sections import Weight

PLAIN = (CrossEntropy, SeenCrossEntropy)  # of the stream: what can be split
Scale = Literal["new_over_old", "none"]


class Decoupled(Term):
    """A part of the stream's cross-entropy; which classes compete is as it was in the whole."""

    def __init__(self, spec: Spec, *, whole: type[Term]) -> None:
        super().__init__(spec)
        self.whole, self.classes = whole(spec), range(spec.classes)

    def parts(self, step: Step) -> tuple[Tensor, Tensor] | None:
        """New classes against old ones, and the rest; None where nothing is old or nothing new."""
        task, p = step.task, step.stream
        if not task.earlier or not task.classes:
            return None
        unseen = isinstance(self.whole, CrossEntropy)  # they compete, and count as new
        new = set(self.classes).difference(task.earlier) if unseen else task.classes
        return decoupled_ce(p.out.logits, p.batch.y, task.earlier, sorted(new))


class Within(Decoupled):
    """Among the new classes; of rows of old classes, the whole; in the first task, of all rows."""

    def forward(self, step: Step) -> Tensor:
        parts = self.parts(step)
        if parts is None:
            loss: Tensor = self.whole(step)
            return loss
        return parts[1]


class Between(Decoupled):
    """New classes against old ones, by default times the number of the former over the latter's."""

    def __init__(self, spec: Spec, *, whole: type[Term], scale: Scale) -> None:
        super().__init__(spec, whole=whole)
        self.scale = scale

    def forward(self, step: Step) -> Tensor | None:
        parts, task = self.parts(step), step.task
        if parts is None:
            return None
        return parts[0] * (len(task.classes) / len(task.earlier) if self.scale != "none" else 1.0)


def lode(*, between: Weight = 0.1, within: Weight = 1.0, scale: Scale = "new_over_old") -> Addition:
    """Loss decoupling: of the stream's cross-entropy, the pressure on old classes weighs less.

        log S/N + (log N - o_y)  ->  between * n_new / n_old * log S/N + within * (log N - o_y)

    o are the logits, S the sum of exp(o) over all classes and N over those that are not old; the
    left side is the cross-entropy. Both weights at 1 with `scale = "none"` give it again. In the
    first task all is as it was, and in later ones a row of an old class keeps its cross-entropy.
    """
    return partial(_split, between=between, within=within, scale=scale)


def _split(method: Method, *, between: float, within: float, scale: Scale) -> Method:
    first = method.stages[0].name
    found = [s for s in method.summands if s.build in PLAIN and first in (s.stages or (first,))]
    if not found:
        raise ConfigError(
            "term 'lode' splits a plain cross-entropy on the stream, and this method has none"
        )
    ce = found[0]
    assert isinstance(ce.build, type)
    inner = Summand("lode_within", ce.weight * within, partial(Within, whole=ce.build))
    outer = partial(Between, whole=ce.build, scale=scale)
    parts = inner, Summand("lode_between", ce.weight * between, outer)
    later = tuple(stage for stage in ce.stages if stage != first)
    rest = [replace(ce, stages=later)] if later else []
    split = {ce.name: (*parts, *rest)}
    summands = [s for old in method.summands for s in split.get(old.name, (old,))]
    return replace(method, summands=tuple(summands))
