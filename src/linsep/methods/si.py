"""SI: weights whose path lowered the loss of old tasks move less (Zenke et al., 2017)."""

from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Any

import torch
from torch import Tensor

from ..learning.losses import anchored
from ..learning.method import Method, Summand
from ..learning.terms import CrossEntropy, Moment, Step, Term
from ..nets.net import Net, Spec, flat
from ..settings.sections import Rate, Weight

VECTORS = ("anchor", "last", "importance", "lowered")  # a number for each parameter of the net


class PathPenalty(Term):
    """sum_k O_k (theta_k - theta*_k)^2, theta* the net at the last task's end (eq. 4).

    O_k sums over tasks w_k / (d_k^2 + damping): w_k is what the parameter's steps lowered the loss
    by, d_k how far it went (eq. 5). A negative sum counts as 0, and one above `at_most` as that.
    """

    importance: Tensor
    anchor: Tensor
    lowered: Tensor
    last: Tensor
    begun: Tensor

    def __init__(self, spec: Spec, *, damping: float, at_most: float = inf) -> None:
        super().__init__(spec)
        self.damping, self.at_most = damping, at_most
        for name in VECTORS:
            self.register_buffer(name, torch.zeros(spec.parameters))
        self.register_buffer("begun", torch.tensor(False))

    def forward(self, step: Step) -> Tensor | None:
        theta = flat(step.net)
        self.last.copy_(theta.detach())
        if not self.begun:
            self.anchor.copy_(self.last)
            self.begun.fill_(True)
        return anchored(theta, self.anchor, self._held()) if step.task.earlier else None

    def after_step(self, net: Net, weight: float) -> None:
        """w_k -= g_k (change of theta_k), g being the gradient without this term's own."""
        own = 2 * weight * self._held() * (self.last - self.anchor)
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in net.parameters()]
        g = torch.cat([gradient.reshape(-1) for gradient in gradients]) - own
        self.lowered.sub_(g * (flat(net).detach() - self.last))

    def end_task(self, moment: Moment) -> None:
        theta = flat(moment.net).detach()
        gained = self.lowered / ((theta - self.anchor).square() + self.damping)
        self.importance.add_(gained).clamp_(min=0)
        self.lowered.zero_()
        self.anchor.copy_(theta)

    def grown(self, state: Mapping[str, Any], places: Tensor, net: Net) -> Mapping[str, Any]:
        """New parameters matter for no task yet, and are anchored where they are."""
        here = flat(net).detach()
        fresh = {"anchor": here, "last": here} | {n: here.new_zeros(len(here)) for n in VECTORS[2:]}
        grown = {name: v.index_copy(0, places, state[name]) for name, v in fresh.items()}
        return grown | {"begun": state["begun"]}

    def _held(self) -> Tensor:
        return self.importance.clamp(max=self.at_most)


def si(*, penalty: Weight = 1.0, damping: Rate = 1e-3, largest_pull: Rate = 1.0) -> Method:
    """Cross-entropy on the stream and a quadratic penalty around the last task's net.

    The penalty's curvature is held to `largest_pull` for every parameter: SGD is stable while that
    times the learning rate stays below 2.
    """
    at_most = largest_pull / (2 * penalty) if penalty else inf
    path = partial(PathPenalty, damping=damping, at_most=at_most)
    return Method((Summand("ce", 1.0, CrossEntropy), Summand("penalty", penalty, path)))
