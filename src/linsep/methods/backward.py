"""What can be added to any method: the old features must stay readable off the new ones."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

from pydantic import Field

from ..errors import ConfigError
from ..learning.losses import Scale
from ..learning.method import Summand
from ..learning.projection import BackwardFeatures, Init, Teacher
from ..learning.terms import On, Term
from ..nets.net import Spec
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
    teacher: Teacher = "frozen",
    cycle: bool = False,
) -> Summand:
    """Backward Feature Projection: a learned affine map A recovers the old features from the new.

        weight * mean over rows of ||A h(x) - h_old(x)||_2 / sqrt(d)        (eq. 4; scale: D1)

    h is the net that learns, h_old its frozen copy from the end of the previous task, d the number
    of features. The rows are the stream's and those of a draw together. A has an optimiser of its
    own (SGD with `lr` and `momentum`) and starts anew in each task unless `reset` is off.

    `every` and `teacher` make it cheaper: it takes part in every k-th step of an epoch, or reads
    h_old of replayed rows from the memory, where each task's end stores it, instead of passing them
    through the frozen net.

    `cycle` trains a map B from old to new features beside A, at no further pass, by the loss's
    distance of B h_old from h, of B A h from h and of A B h_old from h_old. The network learns from
    none of these; `transport.map = "bfp"` uses B (after Xu and Krawczyk, 2026, BiCyc).
    """
    build = partial(
        BackwardFeatures, kind="linear", on=on, layers=layers, init=init, lr=lr,
        momentum=momentum, reset=reset, scale=scale, every=every, teacher=teacher,
        cycle=cycle,
    )  # fmt: skip
    return _summand("bfp", weight, build, on, layers, teacher)


def bfp2(
    *, weight: Weight = 1.0, on: On = "both", layers: Layers = LAST, init: Init = "default",
    lr: Rate = 0.1, momentum: Share = 0.9, reset: bool = True, scale: Scale = "root_d",
    every: Count = 1, teacher: Teacher = "frozen",
) -> Summand:  # fmt: skip
    """BFP-2: as `bfp`, with two layers and a ReLU between them in place of the affine map."""
    build = partial(
        BackwardFeatures, kind="mlp", on=on, layers=layers, init=init, lr=lr,
        momentum=momentum, reset=reset, scale=scale, every=every, teacher=teacher,
    )  # fmt: skip
    return _summand("bfp2", weight, build, on, layers, teacher)


def fd(
    *, weight: Weight = 1.0, on: On = "both", layers: Layers = LAST, scale: Scale = "root_d",
    every: Count = 1, teacher: Teacher = "frozen",
) -> Summand:  # fmt: skip
    """Feature distillation: as `bfp` with the identity as its map; features must stay the same."""
    build = partial(
        BackwardFeatures, kind="identity", on=on, layers=layers, scale=scale, every=every,
        teacher=teacher,
    )  # fmt: skip
    return _summand("fd", weight, build, on, layers, teacher)


def _summand(
    name: str,
    weight: float,
    build: Callable[[Spec], Term],
    on: On,
    layers: Layers,
    teacher: Teacher,
) -> Summand:
    if teacher == "stored" and on == "stream":
        problem = "'stored' is about replayed rows, and on = 'stream' looks at none"
        raise ConfigError(f"{name}.teacher: {problem}; leave one of them out")
    if teacher == "stored" and tuple(layers) != LAST:
        problem = "only the layer 'features' can be stored"
        raise ConfigError(f"{name}.teacher: {problem}; leave {name}.layers out")
    return Summand(name, weight, build, from_memory=on == "replay")
