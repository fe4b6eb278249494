"""Losses that can be added to a method: SER, LODE and STAR. BFP and its kin are in backward.py."""

from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.func import functional_call

from ..data.tasks import Task
from ..errors import ConfigError
from ..learning.losses import decoupled_ce, divergence, logit_match
from ..learning.method import AddOn, Method, WeightedTerm
from ..learning.terms import NOTHING, CrossEntropy, Needs, SeenCrossEntropy, Step, Term
from ..nets.net import Net, Output, Spec, untracked
from ..settings.sections import Rate, Weight


class StreamLogits(Term):
    """Logits of the stream towards what the previous task's net says of the same images."""

    looks_back = True

    def forward(self, step: Step) -> Tensor | None:
        p = step.stream
        if p.before is None or not step.task.earlier:
            return None
        return logit_match(p.out.logits, p.before.logits)


def ser(*, weight: Weight = 0.2) -> WeightedTerm:
    """Strong experience replay: on new images, logits stay those of the previous task's net.

        weight * mean over rows and classes of (f(x) - f_old(x))^2

    f gives the logits of the net that learns, f_old those of its frozen copy from the end of the
    previous task; the rows are the stream's. The paper's other half, stored logits of replayed
    rows, is what `der` and `derpp` do; docs/methods/ser.md has the options of the whole.
    """
    return WeightedTerm("ser", weight, StreamLogits)


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


def lode(*, between: Weight = 0.1, within: Weight = 1.0, scale: Scale = "new_over_old") -> AddOn:
    """Loss decoupling: in the current task's loss, the pressure on old classes weighs less.

        log S/N + (log N - o_y)  ->  between * n_new / n_old * log S/N + within * (log N - o_y)

    o are the logits, S the sum of exp(o) over all classes and N over those that are not old; the
    left side is the cross-entropy. Both weights at 1 with `scale = "none"` give it again. In the
    first task all is as it was, and in later ones a row of an old class keeps its cross-entropy.
    """
    return partial(_split, between=between, within=within, scale=scale)


def _split(method: Method, *, between: float, within: float, scale: Scale) -> Method:
    first = method.stages[0].name
    found = [
        s for s in method.weighted_terms if s.build in PLAIN and first in (s.stages or (first,))
    ]
    if not found:
        raise ConfigError(
            "term 'lode' splits a plain cross-entropy on the stream, and this method has none"
        )
    ce = found[0]
    assert isinstance(ce.build, type)
    inner = WeightedTerm("lode_within", ce.weight * within, partial(Within, whole=ce.build))
    outer = partial(Between, whole=ce.build, scale=scale)
    parts = inner, WeightedTerm("lode_between", ce.weight * between, outer)
    later = tuple(stage for stage in ce.stages if stage != first)
    rest = [replace(ce, stages=later)] if later else []
    split = {ce.name: (*parts, *rest)}
    weighted_terms = [s for old in method.weighted_terms for s in split.get(old.name, (old,))]
    return replace(method, weighted_terms=tuple(weighted_terms))


START = 0.1  # of the radius, where the ascent begins: at the weights themselves there is no slope
Weights = dict[str, Tensor]


class WorstCase(Term):
    """Divergence of the outputs at perturbed weights from those at the weights themselves.

    Over the rows that the net gets right now; all rows of the batch pass with them, for BatchNorm.
    """

    lasting = False
    key: Tensor  # of the directions that ascents begin in: another one in each step

    def __init__(
        self, spec: Spec, *, radius: float, on: Literal["replay", "stream"], first_task: bool
    ) -> None:
        super().__init__(spec)
        self.radius, self.on, self.first_task = radius, on, first_task
        self.register_buffer("key", torch.tensor(0))

    def needs(self, task: Task) -> Needs:
        works = self.first_task or task.earlier
        return {"replay"} if self.on == "replay" and works else NOTHING

    def begin_task(self, task: Task) -> None:
        self.key.copy_(torch.randint(2**62, ()))

    def forward(self, step: Step) -> Tensor | None:
        p = step.replay if self.on == "replay" else step.stream
        if p is None or not (step.task.earlier or self.first_task):
            return None
        target = p.out.logits.detach().float().softmax(1)
        right = (target.argmax(1) == p.batch.y).float()

        def apart(weights: Weights) -> Tensor:
            out: Output = functional_call(step.net, weights, (p.batch.x,))
            far = divergence(out.logits.float(), target)
            return (right * far).sum() / right.sum().clamp(min=1)

        # BatchNorm normalises by the batch, but none of this is a statistic of the data.
        with untracked(step.net):
            weights = perturbable(step.net)
            start = moved(weights, self._directions(weights), START * self.radius)
            start = {name: w.detach().requires_grad_() for name, w in start.items()}
            slopes = torch.autograd.grad(apart(start), list(start.values()))
            worst = dict(zip(start, slopes, strict=True))
            return apart(moved(weights, worst, self.radius))

    def after_step(self, net: Net, weight: float) -> None:
        self.key.add_(1)

    def _directions(self, weights: Weights) -> Weights:
        device = self.key.device
        random = torch.Generator(device).manual_seed(int(self.key))
        return {
            name: torch.randn(w.shape, generator=random, device=device)
            for name, w in weights.items()
        }


def perturbable(net: Net) -> Weights:
    """The weights that learn, without biases and BatchNorm's own."""
    return {name: w for name, w in net.named_parameters() if w.requires_grad and w.ndim > 1}


def moved(weights: Weights, directions: Weights, radius: float) -> Weights:
    """Each layer's w + radius |w| d / |d|; a layer whose direction is 0 stays."""
    tiny = torch.finfo(torch.float32).tiny
    return {
        name: w + radius * w.detach().norm() / d.norm().clamp(min=tiny) * d
        for (name, w), d in zip(weights.items(), directions.values(), strict=True)
    }


def star(
    *,
    weight: Weight = 0.1,
    radius: Rate = 0.01,
    on: Literal["replay", "stream"] = "replay",
    first_task: bool = True,
) -> WeightedTerm:
    """STAR: outputs on replayed rows stay what they are when the weights move against them.

        weight * mean over rows of KL(f(x; w) || f(x; w + d)),   d_l = radius |w_l| g_l / |g_l|

    f gives probabilities, and g is the gradient of the same divergence near w, in a random
    direction: one step of ascent, normalised in each layer l. The gradient of the term takes d and
    f(x; w) as constants. The rows are those of a replay batch that the net gets right.
    """
    build = partial(WorstCase, radius=radius, on=on, first_task=first_task)
    return WeightedTerm("star", weight, build, from_memory=on == "replay")
