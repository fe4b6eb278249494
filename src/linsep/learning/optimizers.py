"""torch's optimisers without a second of imports, and all those of a learner.

Making and stepping one of torch's optimisers imports torch._dynamo, so that torch.compile can leave
it alone. Nothing here compiles an optimiser: SGD, Adam and AdamW are torch's own, with the methods
that torch wraps for this purpose as they were.
"""

from collections.abc import Mapping
from inspect import unwrap
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import Optimizer

WRAPPED = ("add_param_group", "state_dict", "load_state_dict")

if TYPE_CHECKING:
    from torch.optim import SGD, Adam, AdamW
else:

    def _unwrapped(kind: type[Optimizer]) -> type[Optimizer]:
        methods = {name: unwrap(getattr(kind, name)) for name in WRAPPED}
        methods["step"] = torch.no_grad()(unwrap(kind.step))
        return type(kind.__name__, (kind,), methods)

    SGD, Adam, AdamW = map(_unwrapped, (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW))

__all__ = ["SGD", "Adam", "AdamW", "Optimizers"]


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
