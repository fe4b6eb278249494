"""For users of Avalanche: BFP as a plug-in, and benchmarks as scenarios. Needs avalanche-lib."""

import copy
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from .data.images import Dataset
from .data.objects import from_torch
from .errors import ConfigError, unknown
from .learning.projection import BackwardProjection, Init, Kind
from .optional import needed

needed("avalanche", "linsep.avalanche")

from avalanche.models.utils import avalanche_forward  # noqa: E402
from avalanche.training.plugins import SupervisedPlugin  # noqa: E402

__all__ = ["BFPPlugin", "from_benchmark"]


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
        self._features: dict[str, Tensor] = {}  # of the mini-batch, by the "new" and "old" model
        self._hook: Any = None

    def before_training_exp(self, strategy: Any, **_: Any) -> None:
        self.projection = self._optimizer = None  # anew, on the first mini-batch
        # Here, because a strategy may widen or replace the model's head between experiences.
        self._hook = self._listen(strategy.model, "new")

    def before_training_iteration(self, strategy: Any, **_: Any) -> None:
        if self._optimizer is not None:
            self._optimizer.zero_grad()

    def before_backward(self, strategy: Any, **_: Any) -> None:
        if self._old is None:
            return
        with torch.no_grad():
            avalanche_forward(self._old, strategy.mb_x, strategy.mb_task_id)
        new, old = self._taken("new"), self._taken("old")
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
        self._features = {}
        self._old = copy.deepcopy(strategy.model).eval().requires_grad_(False)
        self._listen(self._old, "old")

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

    def _listen(self, model: nn.Module, name: str) -> Any:
        return self._module(model).register_forward_pre_hook(partial(self._remember, name))

    def _remember(self, name: str, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._features[name] = inputs[0]

    def _taken(self, name: str) -> Tensor:
        features = self._features.get(name)
        if features is None or features.dim() != 2:
            shape = "none" if features is None else f"of shape {tuple(features.shape)}"
            raise ConfigError(f"BFPPlugin: the head should get a row per image; it got {shape}")
        return features


def from_benchmark(benchmark: Any, **options: Any) -> tuple[Dataset, dict[str, Any]]:
    """Read a class-incremental benchmark: its images, and the settings of the scenario.

        data, scenario = from_benchmark(SplitMNIST(n_experiences=5))
        linsep.train({"scenario": scenario, "method": "derpp+bfp"}, data=data)

    Classes are numbered in the order of the experiences. `options` are those of
    `linsep.from_torch`. Images are taken without random augmentation, from the test stream's
    transformations, which must not normalise: linsep does both itself.
    """
    groups = [sorted(map(int, e.classes_in_this_experience)) for e in benchmark.train_stream]
    order = list(chain.from_iterable(groups))
    if len(set(order)) < len(order):
        raise ConfigError("this benchmark shows a class twice; a task's classes should be its own")
    sizes = [len(group) for group in groups]
    if len(set(sizes[1:])) > 1:
        raise ConfigError(
            f"this benchmark has experiences of {sizes} classes; all but the first should be alike"
        )
    number = {label: place for place, label in enumerate(order)}
    train, test = (
        _Rows([e.dataset.eval() for e in stream], number)
        for stream in (benchmark.train_stream, benchmark.test_stream)
    )
    names = options.pop("names", None) or [str(label) for label in order]
    scenario: dict[str, Any] = {"per_task": sizes[-1]}
    if sizes[0] != sizes[-1]:
        scenario["first_task"] = sizes[0]
    return from_torch(train, test, names=names, **options), scenario


class _Rows:
    """The rows of several Avalanche data sets as (image, label), with labels of our own."""

    def __init__(self, parts: Sequence[Any], number: dict[int, int]) -> None:
        self.places = [(part, i) for part in parts for i in range(len(part))]
        self.number = number

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        part, i = self.places[index]
        image, label, *_ = part[i]
        return image, self.number[int(label)]
