"""STAR: outputs on replayed rows hold in the worst direction the weights may take.

Eskandar et al., 2025. The net is read at perturbed weights and stays where it is.
"""

from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.func import functional_call

from ..data.tasks import Task
from ..learning.losses import divergence
from ..learning.method import Summand
from ..learning.terms import NOTHING, Needs, Step, Term
from ..nets.net import Net, Output, Spec
from ..nets.norms import untracked
from ..settings.sections import Rate, Weight

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
) -> Summand:
    """STAR: outputs on replayed rows stay what they are when the weights move against them.

        weight * mean over rows of KL(f(x; w) || f(x; w + d)),   d_l = radius |w_l| g_l / |g_l|

    f gives probabilities, and g is the gradient of the same divergence near w, in a random
    direction: one step of ascent, normalised in each layer l. The gradient of the term takes d and
    f(x; w) as constants. The rows are those of a draw that the net classifies correctly.
    """
    build = partial(WorstCase, radius=radius, on=on, first_task=first_task)
    return Summand("star", weight, build, from_memory=on == "replay")
