"""The scripts in examples/: BFP in a loop, a Lightning module and a Trainer, trained for real."""

from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import linsep
from tests.helpers import scripts

NEEDS = {  # each example, and the packages that it needs beside linsep
    "pytorch_loop": (),
    "lightning_module": ("lightning",),
    "huggingface_trainer": ("transformers", "accelerate"),
}
pytestmark = pytest.mark.filterwarnings("ignore")  # of the frameworks' about themselves


def loaded(name: str, every: int) -> Any:
    """The example as a module, with one of so many training images."""
    for package in NEEDS[name]:
        pytest.importorskip(package, reason=f"{package} is not installed: see make test-extras")
    module: Any = scripts.loaded(f"examples/{name}.py")
    full = module.DATA
    module.DATA = full._replace(train=full.train.take(torch.arange(0, len(full.train), every)))
    return module


class Watch:
    """Every map, every frozen network and every loss of one training."""

    def __init__(self, example: ModuleType, patch: pytest.MonkeyPatch) -> None:
        self.maps: list[Tensor] = []  # the weights of the map at each loss ...
        self.losses: list[float] = []  # ... and the loss
        self.tasks: list[int] = []  # ... and how many networks had been frozen
        self.frozen: list[tuple[nn.Module, dict[str, Tensor]]] = []
        watch = self

        class Watched(linsep.BackwardProjection):
            def forward(self, new: Tensor, old: Tensor) -> Tensor:
                assert new.requires_grad
                assert not old.requires_grad
                loss = super().forward(new, old)
                watch.note(self, new, old, loss)
                return loss

        patch.setattr(linsep, "BackwardProjection", Watched)
        patch.setattr(example, "frozen", self._freezing(example.frozen))

    def _freezing(self, freeze: Callable[[Any], nn.Module]) -> Callable[[Any], nn.Module]:
        def frozen(net: nn.Module) -> nn.Module:
            copy = freeze(net)
            copy.register_forward_pre_hook(lambda module, _: self._in_evaluation(module))
            self.frozen.append((copy, {k: v.clone() for k, v in copy.state_dict().items()}))
            return copy

        return frozen

    @staticmethod
    def _in_evaluation(net: nn.Module) -> None:
        assert not any(module.training for module in net.modules())

    @torch.no_grad()
    def note(self, bfp: linsep.BackwardProjection, new: Tensor, old: Tensor, loss: Tensor) -> None:
        a = bfp.project
        assert isinstance(a, nn.Linear)
        gap = new @ a.weight.T + a.bias - old
        by_hand = (gap**2).sum(1).sqrt().mean() / new.shape[1] ** 0.5
        torch.testing.assert_close(loss.detach(), by_hand)
        self.maps.append(a.weight.clone())
        self.losses.append(float(loss))
        self.tasks.append(len(self.frozen))


@pytest.mark.parametrize("name", NEEDS)
def test_bfp_is_learned_in_every_task_but_the_first(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = loaded(name, every=2)
    watch = Watch(example, monkeypatch)
    accuracy = example.learn(weight=1.0, seed=0)
    assert accuracy > 1.5 / 10  # of ten classes, and not only those of the last task

    assert len(watch.frozen) == len(example.TASKS) == 3
    assert set(watch.tasks) == {1, 2}  # silent in the first
    for task in (1, 2):
        here = [i for i, t in enumerate(watch.tasks) if t == task]
        for before, after in pairwise(here):
            assert not torch.equal(watch.maps[before], watch.maps[after])  # every step moves it
        losses = [watch.losses[i] for i in here]
        assert sum(losses[-5:]) < sum(losses[:5])
    for net, then in watch.frozen:
        assert all(torch.equal(value, then[key]) for key, value in net.state_dict().items())


@pytest.mark.parametrize("name", NEEDS)
def test_only_the_weight_decides(name: str) -> None:
    """The same seed gives the same run, and BFP at weight 0 is not BFP at weight 1."""
    example = loaded(name, every=10)
    assert example.learn(1.0, 0) == example.learn(1.0, 0) != example.learn(0.0, 0)


def test_the_lightning_module_computes_what_the_loop_does() -> None:
    loop, module = (loaded(name, every=10) for name in ("pytorch_loop", "lightning_module"))
    assert module.learn(1.0, 3) == pytest.approx(loop.learn(1.0, 3), abs=0.005)
