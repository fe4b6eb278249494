"""What can be added to any method: the old features must stay readable off the new ones."""

from functools import partial
from typing import Annotated, Any

from pydantic import Field

from ..errors import ConfigError
from ..learning.losses import Scale
from ..learning.method import WeightedTerm
from ..learning.projection import BackwardFeatures, Init, Kind, Target
from ..learning.terms import On
from ..settings.sections import Count, Rate, Share, Weight

Layers = Annotated[tuple[str, ...], Field(min_length=1)]
LAST: Layers = ("features",)  # pooled, the very input of the head


def bfp(
    *,
    weight: Weight = 1.0,
    on: On = "both",
    layers: Layers = LAST,
    init: Init = "default",
    lr: Rate = 0.1,
    momentum: Share = 0.9,
    reset: bool = True,
    scale: Scale = "root_d",
    every: Count = 1,
    target: Target = "previous_net",
    cycle: bool = False,
) -> WeightedTerm:
    """Backward Feature Projection: a learned affine map A recovers the old features from the new.

        weight * mean over rows of ||A h(x) - h_old(x)||_2 / sqrt(d)        (eq. 4; scale: D1)

    h is the net that learns, h_old its frozen copy from the end of the previous task, d the number
    of features. The rows are the stream's and those of a replay batch together. A has an optimiser
    of its own (SGD with `lr` and `momentum`) and starts anew in each task unless `reset` is off.

    `every` and `target` make it cheaper: it takes part in every k-th step of an epoch, or reads
    h_old of replayed rows from the memory, where each task's end stores it, instead of passing them
    through the frozen net.

    `cycle` trains a map B from old to new features beside A, at no further pass, by the loss's
    distance of B h_old from h, of B A h from h and of A B h_old from h_old. The network learns from
    none of these; `transport.map = "bfp"` uses B (after Xu and Krawczyk, 2026, BiCyc).
    """
    return _backward("bfp", "linear", **locals())


def bfp2(
    *, weight: Weight = 1.0, on: On = "both", layers: Layers = LAST, init: Init = "default",
    lr: Rate = 0.1, momentum: Share = 0.9, reset: bool = True, scale: Scale = "root_d",
    every: Count = 1, target: Target = "previous_net",
) -> WeightedTerm:  # fmt: skip
    """BFP-2: as `bfp`, with two layers and a ReLU between them in place of the affine map."""
    return _backward("bfp2", "mlp", **locals())


def fd(
    *, weight: Weight = 1.0, on: On = "both", layers: Layers = LAST, scale: Scale = "root_d",
    every: Count = 1, target: Target = "previous_net",
) -> WeightedTerm:  # fmt: skip
    """Feature distillation: as `bfp` with the identity as its map; features must stay the same."""
    return _backward("fd", "identity", **locals())


def _backward(name: str, kind: Kind, weight: float, **options: Any) -> WeightedTerm:
    """The term that all three are; the options are those of `BackwardFeatures`."""
    stored, on = options["target"] == "stored", options["on"]
    if stored and on == "stream":
        problem = "'stored' is about replayed rows, and on = 'stream' looks at none"
        raise ConfigError(f"{name}.target: {problem}; leave one of them out")
    if stored and tuple(options["layers"]) != LAST:
        problem = "only the layer 'features' can be stored"
        raise ConfigError(f"{name}.target: {problem}; leave {name}.layers out")
    build = partial(BackwardFeatures, kind=kind, **options)
    return WeightedTerm(name, weight, build, from_memory=on == "replay")
