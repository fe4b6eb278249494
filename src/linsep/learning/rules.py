"""Update rules: how the losses of a step become a change of the parameters.

Knows gradients and when to follow them. Knows no term, net or optimiser: losses come when they are
asked for, by the names of their terms, and so do the optimisers' steps.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Update:
    """What a rule has in its hands during one step; all gradients are clear when it starts."""

    terms: Sequence[str]  # the names of the summands that take part, in order
    # The weighted sum of the named terms' losses, of the parameters as they are now; None if none
    # of them has anything to say. Draws are the step's, so asking twice draws nothing new.
    objective: Callable[[Collection[str]], Tensor | None]
    parameters: Sequence[nn.Parameter]  # of the net, that learn in this stage
    follow: Callable[[], None]  # every optimiser takes a step, and gradients are clear again


Rule = Callable[[Update], None]


def descend(update: Update) -> None:
    """Down the gradient of the sum."""
    total = update.objective(update.terms)
    if total is not None:
        total.backward()
        update.follow()


def in_two_steps(update: Update, *, last: str) -> None:
    """Down the gradient of the other terms; then, from there, down that of the last one."""
    for names in ([name for name in update.terms if name != last], [last]):
        total = update.objective(names)
        if total is not None:
            total.backward()
            update.follow()


def project(update: Update, *, reference: str) -> None:
    """Down g, the gradient of the other terms, but never against r, that of the reference term.

    g - (g.r / r.r) r where g.r < 0, else g: eq. 11 of Chaudhry et al. (2019), A-GEM.
    """
    total = update.objective([name for name in update.terms if name != reference])
    past = update.objective([reference])
    parameters = list(update.parameters)
    r: Sequence[Tensor] = ()
    if past is not None:
        r = torch.autograd.grad(past, parameters, materialize_grads=True)
    if total is not None:
        total.backward()
    if past is not None:
        g = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        against = torch.stack([(a * b).sum() for a, b in zip(g, r, strict=True)]).sum().clamp(max=0)
        square = torch.stack([b.square().sum() for b in r]).sum()
        factor = against / square.clamp(min=torch.finfo(square.dtype).tiny)
        for p, a, b in zip(parameters, g, r, strict=True):
            p.grad = a - factor * b
    update.follow()
