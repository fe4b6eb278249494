"""From the losses of a step to a change of the parameters: update rules and optimisers.

Knows gradients, learning rates and their schedule. Knows no net, and of a term only its name: the
losses are computed by the time a rule sees them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from ..settings.sections import Training

Names = Sequence[str]
Losses = Mapping[str, Tensor]  # by the names of their terms, weighted
Parameters = Sequence[nn.Parameter]


@dataclass(frozen=True)
class Rule:
    """How the losses of a step become gradients, and in how many updates they are followed."""

    # The terms of each update, in order: replayed batches pass the net in this order too.
    rounds: Callable[[Names], Sequence[Names]]
    backward: Callable[[Losses, Parameters], None]  # leaves gradients in the parameters
    line: str = "down the gradient of the sum"  # for figures: "a step ..."


def _sum(losses: Losses) -> Tensor:
    return torch.stack(list(losses.values())).sum()


def _down_the_sum(losses: Losses, parameters: Parameters) -> None:
    _sum(losses).backward()


DESCEND = Rule(lambda names: [names], _down_the_sum)  # down the gradient of the sum


def in_two_steps(last: str) -> Rule:
    """Down the gradient of the other terms; then, from there, down that of the last one."""

    def rounds(names: Names) -> list[Names]:
        return [[n for n in names if n != last], [n for n in names if n == last]]

    line = f"down the gradient of the other terms, then one down that of {last},"
    return Rule(rounds, _down_the_sum, line)


def project(reference: str) -> Rule:
    """Down g, the gradient of the other terms, but never against r, that of the reference term.

    g - (g.r / r.r) r where g.r < 0, else g: eq. 11 of Chaudhry et al. (2019), A-GEM.
    """

    def rounds(names: Names) -> list[Names]:
        return [sorted(names, key=lambda name: name == reference)]

    line = f"down the gradient of the other terms, but never against that of {reference},"
    backward = partial(_never_against, reference=reference)
    return Rule(rounds, backward, line)


def _never_against(losses: Losses, parameters: Parameters, *, reference: str) -> None:
    others = {name: loss for name, loss in losses.items() if name != reference}
    past = losses.get(reference)
    r: Sequence[Tensor] = ()
    if past is not None:
        shared = bool(others)  # perhaps a draw, whose pass has then to be gone back twice
        r = torch.autograd.grad(past, list(parameters), retain_graph=shared, materialize_grads=True)
    if others:
        _sum(others).backward()
    if past is not None:
        g = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        against = torch.stack([(a * b).sum() for a, b in zip(g, r, strict=True)]).sum().clamp(max=0)
        square = torch.stack([b.square().sum() for b in r]).sum()
        factor = against / square.clamp(min=torch.finfo(square.dtype).tiny)
        for p, a, b in zip(parameters, g, r, strict=True):
            p.grad = a - factor * b


@dataclass(frozen=True)
class Descent:
    """The optimiser of a stage and its learning rate."""

    # The learning rate, or one for each epoch counted from 0; None: the run's, with its schedule.
    lr: float | Callable[[int], float] | None = None
    optimizer: Literal["run's", "adam"] = "run's"  # the latter without weight decay

    def build(self, parameters: Parameters, training: Training) -> Optimizer:
        if self.optimizer == "adam":
            return Adam(parameters, lr=training.lr)
        momentum, decay = training.momentum, training.weight_decay
        if training.optimizer == "adamw":
            return AdamW(parameters, lr=training.lr, weight_decay=decay)
        return SGD(parameters, lr=training.lr, momentum=momentum, weight_decay=decay)

    def rate(self, epoch: int, training: Training) -> float:
        if self.lr is None:
            return training.lr * training.schedule.rate(epoch)
        return self.lr(epoch) if callable(self.lr) else self.lr


class Optimizers(dict[str, Optimizer]):
    """By name: one for each stage, "stage/train", and for each term that has one, "term/bfp"."""

    def __init__(self, stages: Mapping[str, Optimizer], terms: Mapping[str, Optimizer]) -> None:
        super().__init__({f"stage/{name}": optimizer for name, optimizer in stages.items()})
        self.update({f"term/{name}": optimizer for name, optimizer in terms.items()})
        self._of_terms = list(terms.values())

    def reset(self) -> None:
        """Forget momentum and the like."""
        for optimizer in self.values():
            optimizer.state.clear()

    def step(self, stage: str, rate: float) -> None:
        """Move the stage's parameters at this rate, then the terms' own at theirs."""
        main = self[f"stage/{stage}"]
        for group in main.param_groups:
            group["lr"] = rate
        for optimizer in (main, *self._of_terms):
            optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        return {name: optimizer.state_dict() for name, optimizer in self.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load rates and what was accumulated; all else follows from the config."""
        for name, optimizer in self.items():
            groups = optimizer.state_dict()["param_groups"]
            for group, saved in zip(groups, state[name]["param_groups"], strict=True):
                group["lr"] = float(saved["lr"])
            optimizer.load_state_dict({"state": state[name]["state"], "param_groups": groups})
            for parameter, values in optimizer.state.items():
                for key, value in values.items():
                    if value.shape != (() if key == "step" else parameter.shape):
                        raise ValueError(f"{name}: {key} does not fit its parameter")
