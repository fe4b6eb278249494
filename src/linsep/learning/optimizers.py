"""The optimisers of a run: one for each stage, and one for each term that learns something itself.

Knows parameters, rates and the schedule. Knows no losses: gradients are there when it is called.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import nn
from torch.optim import SGD, Adam, Optimizer

from ..nets.net import Net
from ..settings.sections import Training
from .method import Stage, Summand
from .terms import Term


class Optimizers(Mapping[str, Optimizer]):
    """By name: "stage/train", "term/bfp"."""

    def __init__(
        self,
        stages: Iterable[Stage],
        net: Net,
        bound: Iterable[tuple[Summand, Term]],
        training: Training,
    ) -> None:
        self.training = training
        self._by_name = {f"stage/{stage.name}": _of(stage, net, training) for stage in stages}
        self._of_terms: list[Optimizer] = []
        for summand, term in bound:
            if (own := term.optimizer()) is not None:
                self._by_name[f"term/{summand.name}"] = own
                self._of_terms.append(own)

    def __getitem__(self, name: str) -> Optimizer:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def parameters(self, stage: Stage) -> list[nn.Parameter]:
        """Of the net, that learn in this stage."""
        found: list[nn.Parameter] = self[f"stage/{stage.name}"].param_groups[0]["params"]
        return found

    def reset(self) -> None:
        """Momentum and the like start afresh."""
        for optimizer in self.values():
            optimizer.state.clear()

    def step(self, stage: Stage, epoch: int) -> None:
        """The stage's, at its rate for the epoch, then the terms'; no gradient, no move."""
        main = self[f"stage/{stage.name}"]
        for group in main.param_groups:
            group["lr"] = self.rate(stage, epoch)
        for optimizer in (main, *self._of_terms):
            optimizer.step()

    def rate(self, stage: Stage, epoch: int) -> float:
        if stage.lr is None:
            return self.training.lr * self.training.schedule.rate(epoch)
        return stage.lr(epoch) if callable(stage.lr) else stage.lr

    def state_dict(self) -> dict[str, Any]:
        return {name: optimizer.state_dict() for name, optimizer in self.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, optimizer in self.items():
            optimizer.load_state_dict(state[name])


def _of(stage: Stage, net: Net, training: Training) -> Optimizer:
    parameters = net.parts(stage.trains)
    if stage.optimizer == "adam":
        return Adam(parameters, lr=training.lr)
    momentum, decay = training.momentum, training.weight_decay
    return SGD(parameters, lr=training.lr, momentum=momentum, weight_decay=decay)
