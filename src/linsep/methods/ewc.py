"""Online EWC: weights that mattered for old tasks move less (Kirkpatrick 2017, Schwarz 2018)."""

from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from ..learning.losses import anchored
from ..learning.method import Method, Summand
from ..learning.terms import CrossEntropy, Moment, Step, Term
from ..nets.net import Net, Spec, flat
from ..settings.sections import Count, Rate, Weight

Labels = Literal["sampled", "true"]


class FisherPenalty(Term):
    """1/2 sum_k F_k (theta_k - theta*_k)^2, theta* the net at the last task's end.

    F is the diagonal of the Fisher information there, added to `decay` times what it was before
    (Schwarz et al.); in the sum no F_k counts for more than `at_most`.
    """

    importance: Tensor
    anchor: Tensor

    def __init__(
        self, spec: Spec, *, decay: float, rows: int, labels: Labels, at_most: float = inf
    ) -> None:
        super().__init__(spec)
        self.decay, self.rows, self.labels, self.at_most = decay, rows, labels, at_most
        self.register_buffer("importance", torch.zeros(spec.parameters))
        self.register_buffer("anchor", torch.zeros(spec.parameters))

    def forward(self, step: Step) -> Tensor | None:
        if not step.task.earlier:
            return None
        importance = self.importance.clamp(max=self.at_most)
        return 0.5 * anchored(flat(step.net), self.anchor, importance)

    def end_task(self, moment: Moment) -> None:
        chosen = moment.task.train.take(torch.randperm(len(moment.task.train))[: self.rows])
        moment.net.eval()
        total = torch.zeros_like(self.importance)
        for part in chosen.chunks(64):
            y = part.y.to(total.device) if self.labels == "true" else None
            total += squared_gradients(moment.net, moment.inputs(part), y, moment.task.seen)
        self.importance.mul_(self.decay).add_(total / len(chosen))
        self.anchor.copy_(flat(moment.net).detach())

    def grown(self, state: Mapping[str, Any], places: Tensor, net: Net) -> Mapping[str, Any]:
        """New parameters matter for no task yet, and are anchored where they are."""
        fresh = {"importance": torch.zeros_like(self.importance), "anchor": flat(net).detach()}
        return {name: v.index_copy(0, places, state[name]) for name, v in fresh.items()}


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
    """Cross-entropy on the stream and a quadratic penalty around the last task's net.

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
    return Method((Summand("ce", 1.0, CrossEntropy), Summand("penalty", penalty, fisher)))
