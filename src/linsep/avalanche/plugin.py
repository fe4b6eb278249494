"""BFP for any Avalanche strategy, best one that replays."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from avalanche.models.utils import avalanche_forward
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor, nn

from ..errors import ConfigError, unknown
from ..learning.projection import BackwardProjection, Init, Kind


class BFPPlugin(SupervisedPlugin):
    """Backward Feature Projection in an Avalanche strategy: one more term of its loss.

        strategy = Replay(model, optimizer, criterion, mem_size=200, plugins=[BFPPlugin()])

    From the second experience on, `weight` times E ||A h(x) - h_old(x)||_2 / sqrt(d) is added to
    the loss of every mini-batch, replayed rows included. h are the features, the input of the
    layer `head`; h_old are those of a copy of the model from the end of the previous experience. A
    has an optimiser of its own (SGD with `lr` and `momentum`) and starts anew in each experience.
    """

    def __init__(
        self,
        weight: float = 1.0,
        *,
        head: str | None = None,
        kind: Kind = "linear",
        init: Init = "default",
        lr: float = 0.1,
        momentum: float = 0.9,
    ) -> None:
        """`head` names the module whose input the features are; None: the model's last layer."""
        super().__init__()
        self.weight, self.head, self.kind, self.init = weight, head, kind, init
        self.lr, self.momentum = lr, momentum
        self.projection: BackwardProjection | None = None
        self.loss: float | None = None  # of the newest mini-batch, unweighted
        self._optimizer: torch.optim.Optimizer | None = None
        self._old: nn.Module | None = None
        self._features: Tensor | None = None  # of the mini-batch
        self._hook: Any = None

    def before_training_exp(self, strategy: Any, **_: Any) -> None:
        self.projection = self._optimizer = None  # anew, on the first mini-batch
        # Here, because a strategy may widen or replace the model's head between experiences.
        self._hook = self._module(strategy.model).register_forward_pre_hook(self._remember)

    def before_training_iteration(self, strategy: Any, **_: Any) -> None:
        if self._optimizer is not None:
            self._optimizer.zero_grad()

    def before_backward(self, strategy: Any, **_: Any) -> None:
        if self._old is None:
            return
        new, old = self._taken(self._features), self._seen_by_old(strategy)
        if self.projection is None:
            with torch.random.fork_rng(devices=[]):  # the strategy's own draws stay as they were
                made = BackwardProjection(new.shape[1], self.kind, self.init)
            self.projection = made.to(new.device)
            self._optimizer = self.projection.optimizer(self.lr, self.momentum)
        loss = self.projection(new, old)
        self.loss = float(loss.detach())
        strategy.loss = strategy.loss + self.weight * loss

    def after_update(self, strategy: Any, **_: Any) -> None:
        if self._optimizer is not None:
            self._optimizer.step()

    def after_training_exp(self, strategy: Any, **_: Any) -> None:
        self._hook.remove()
        self._features = None
        self._old = copy.deepcopy(strategy.model).eval().requires_grad_(False)

    # --- the inside ------------------------------------------------------------------------------

    def _module(self, model: nn.Module) -> nn.Module:
        """The layer whose input the features are."""
        modules = dict(model.named_modules())
        if self.head is not None:
            if self.head not in modules:
                raise ConfigError(f"BFPPlugin: {unknown('module', self.head, modules)}")
            return modules[self.head]
        layers = [m for m in modules.values() if isinstance(m, nn.Linear)]
        if not layers:
            raise ConfigError("BFPPlugin: the model has no linear layer; name its head with head=")
        return layers[-1]

    def _remember(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._features = inputs[0]

    @torch.no_grad()
    def _seen_by_old(self, strategy: Any) -> Tensor:
        assert self._old is not None
        with self._listening(self._old) as found:
            avalanche_forward(self._old, strategy.mb_x, strategy.mb_task_id)
        return self._taken(found[0] if found else None)

    @contextmanager
    def _listening(self, model: nn.Module) -> Iterator[list[Tensor]]:
        found: list[Tensor] = []
        hook = self._module(model).register_forward_pre_hook(lambda m, x: found.append(x[0]))
        try:
            yield found
        finally:
            hook.remove()

    def _taken(self, features: Tensor | None) -> Tensor:
        if features is None or features.dim() != 2:
            shape = "none" if features is None else f"of shape {tuple(features.shape)}"
            raise ConfigError(f"BFPPlugin: the head should get a row per image; it got {shape}")
        return features
