"""Weights that mattered for old tasks move less: online EWC and SI.

EWC weighs parameters by their Fisher information (Kirkpatrick et al., 2017; Schwarz et al., 2018),
SI by how much their path lowered the loss (Zenke et al., 2017).
"""

from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from ..learning.losses import anchored
from ..learning.method import Method, WeightedTerm
from ..learning.terms import CrossEntropy, Step, TaskContext, Term
from ..nets.net import Net, Spec, flat
from ..settings.sections import Count, Rate, Weight

Labels = Literal["sampled", "true"]
WEIGHTS = ("anchor", "last")  # where the net was


class AnchoredTerm(Term):
    """A pull to `anchor`, where the last task's net was, by the importance of each parameter.

    None counts for more than `at_most`.
    """

    importance: Tensor
    anchor: Tensor

    def __init__(self, spec: Spec, at_most: float, *more: str) -> None:
        """`more` names other buffers with a number for each parameter."""
        super().__init__(spec)
        self.at_most = at_most
        for name in ("importance", "anchor", *more):
            self.register_buffer(name, torch.zeros(spec.parameters))

    def held(self) -> Tensor:
        return self.importance.clamp(max=self.at_most)

    def grown(self, state: Mapping[str, Any], places: Tensor, net: Net) -> Mapping[str, Any]:
        """New parameters matter for no task yet, and are anchored where they are."""
        here = flat(net).detach()
        fresh = {n: here if n in WEIGHTS else torch.zeros_like(here) for n in state if n != "begun"}
        grown = {name: v.index_copy(0, places, state[name]) for name, v in fresh.items()}
        return {**state, **grown}


class FisherPenalty(AnchoredTerm):
    """1/2 sum_k F_k (theta_k - theta*_k)^2, theta* the net at the last task's end.

    F is the diagonal of the Fisher information there, added to `decay` times what it was before
    (Schwarz et al.); in the sum no F_k counts for more than `at_most`.
    """

    def __init__(
        self, spec: Spec, *, decay: float, rows: int, labels: Labels, at_most: float = inf
    ) -> None:
        super().__init__(spec, at_most)
        self.decay, self.rows, self.labels = decay, rows, labels

    def forward(self, step: Step) -> Tensor | None:
        if not step.task.earlier:
            return None
        return 0.5 * anchored(flat(step.net), self.anchor, self.held())

    def end_task(self, context: TaskContext) -> None:
        chosen = context.task.train.take(torch.randperm(len(context.task.train))[: self.rows])
        context.net.eval()
        total = torch.zeros_like(self.importance)
        for part in chosen.chunks(64):
            y = part.y.to(total.device) if self.labels == "true" else None
            total += squared_gradients(context.net, context.inputs(part), y, context.task.seen)
        self.importance.mul_(self.decay).add_(total / len(chosen))
        self.anchor.copy_(flat(context.net).detach())


def squared_gradients(net: Net, x: Tensor, y: Tensor | None, seen: tuple[int, ...]) -> Tensor:
    """Sum over rows of (d log p(y | x) / d theta)^2; labels from the net itself if none are given.

    They are drawn from torch's global generator, among the classes seen.
    """
    free = [p for p in net.parameters() if p.requires_grad]
    total = torch.zeros_like(flat(net))
    places = {id(p): place for place, p in enumerate(free)}
    for i in range(len(x)):
        log_p = net(x[i : i + 1]).logits[0].log_softmax(0)
        if y is None:
            shares = log_p[list(seen)].detach().exp().cpu()
            label = seen[int(torch.multinomial(shares, 1))]
        else:
            label = int(y[i])
        gradients = torch.autograd.grad(log_p[label], free, materialize_grads=True)
        whole = [gradients[places[id(p)]] if id(p) in places else 0 * p for p in net.parameters()]
        total += torch.cat([g.detach().reshape(-1) for g in whole]).square()
    return total


def ewc(
    *,
    penalty: Weight = 100.0,
    decay: Annotated[float, Field(ge=0, le=1)] = 1.0,
    fisher_rows: Count = 1000,
    fisher_labels: Labels = "sampled",
    largest_pull: Rate = 1.0,
) -> Method:
    """Cross-entropy on current-task data and a quadratic pull to the last task's net.

    The penalty's curvature is held to `largest_pull` for every parameter: SGD is stable while that
    times the learning rate stays below 2.
    """
    fisher = partial(
        FisherPenalty,
        decay=decay,
        rows=fisher_rows,
        labels=fisher_labels,
        at_most=largest_pull / penalty if penalty else inf,
    )
    return Method((WeightedTerm("ce", 1.0, CrossEntropy), WeightedTerm("penalty", penalty, fisher)))


class PathPenalty(AnchoredTerm):
    """sum_k O_k (theta_k - theta*_k)^2, theta* the net at the last task's end (eq. 4).

    O_k sums over tasks w_k / (d_k^2 + damping): w_k is what the parameter's steps lowered the loss
    by, d_k how far it went (eq. 5). A negative sum counts as 0, and one above `at_most` as that.
    """

    lowered: Tensor
    last: Tensor
    begun: Tensor

    def __init__(self, spec: Spec, *, damping: float, at_most: float = inf) -> None:
        super().__init__(spec, at_most, "lowered", "last")
        self.damping = damping
        self.register_buffer("begun", torch.tensor(False))

    def forward(self, step: Step) -> Tensor | None:
        theta = flat(step.net)
        self.last.copy_(theta.detach())
        if not self.begun:
            self.anchor.copy_(self.last)
            self.begun.fill_(True)
        return anchored(theta, self.anchor, self.held()) if step.task.earlier else None

    def after_step(self, net: Net, weight: float) -> None:
        """w_k -= g_k (change of theta_k), g being the gradient without this term's own."""
        own = 2 * weight * self.held() * (self.last - self.anchor)
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in net.parameters()]
        g = torch.cat([gradient.reshape(-1) for gradient in gradients]) - own
        self.lowered.sub_(g * (flat(net).detach() - self.last))

    def end_task(self, context: TaskContext) -> None:
        theta = flat(context.net).detach()
        gained = self.lowered / ((theta - self.anchor).square() + self.damping)
        self.importance.add_(gained).clamp_(min=0)
        self.lowered.zero_()
        self.anchor.copy_(theta)


def si(*, penalty: Weight = 1.0, damping: Rate = 1e-3, largest_pull: Rate = 1.0) -> Method:
    """Cross-entropy on current-task data and a quadratic pull to the last task's net.

    The penalty's curvature is held to `largest_pull` for every parameter: SGD is stable while that
    times the learning rate stays below 2.
    """
    at_most = largest_pull / (2 * penalty) if penalty else inf
    path = partial(PathPenalty, damping=damping, at_most=at_most)
    return Method((WeightedTerm("ce", 1.0, CrossEntropy), WeightedTerm("penalty", penalty, path)))
