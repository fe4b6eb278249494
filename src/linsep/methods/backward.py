"""What can be added to any method: old features must stay readable off the new ones."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

from pydantic import Field

from ..learning.losses import Scale
from ..learning.method import Summand
from ..learning.projection import BackwardFeatures, Init, Kind, On
from ..settings.sections import Rate, Share, Weight

Layers = Annotated[tuple[str, ...], Field(min_length=1)]
LAST: Layers = ("features",)  # pooled, the very input of the head


def fd(
    *, weight: Weight = 1.0, on: On = "both", layers: Layers = LAST, scale: Scale = "root_d"
) -> Summand:
    """Feature distillation: the new features must equal the old."""
    build = partial(BackwardFeatures, kind="identity", on=on, layers=layers, scale=scale)
    return Summand("fd", weight, build, from_memory=on == "replay")


def _learned(name: str, kind: Kind) -> Callable[..., Summand]:
    def recipe(
        *,
        weight: Weight = 1.0,
        on: On = "both",
        layers: Layers = LAST,
        init: Init = "default",
        lr: Rate = 0.1,
        momentum: Share = 0.9,
        reset: bool = True,
        scale: Scale = "root_d",
    ) -> Summand:
        build = partial(
            BackwardFeatures, kind=kind, on=on, layers=layers, init=init, lr=lr,
            momentum=momentum, reset=reset, scale=scale,
        )  # fmt: skip
        return Summand(name, weight, build, from_memory=on == "replay")

    return recipe


bfp = _learned("bfp", "linear")  # an affine map takes the new features to the old (eq. 4)
bfp2 = _learned("bfp2", "mlp")  # two layers do
