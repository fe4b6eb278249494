"""Replay of stored images: with their labels (ER), their logits (DER), or both (DER++)."""

from dataclasses import replace
from functools import partial
from typing import Literal

from ..learning.losses import Distance
from ..learning.method import Method, Summand
from ..learning.terms import CrossEntropy, ReplayCE, ReplayLogits
from ..settings.sections import Weight

Target = Literal["stored", "old_net"]
RESERVOIRS = ("balanced", "plain", "loss_aware")


def er(*, replay_ce: Weight = 1.0, first_task: bool = True) -> Method:
    """Cross-entropy on the stream and, in a pass of its own, on a draw."""
    replayed = partial(ReplayCE, first_task=first_task)
    summands = Summand("ce", 1.0, CrossEntropy), Summand("replay_ce", replay_ce, replayed)
    return Method(summands, lr=0.1, memories=RESERVOIRS)


def der(
    *,
    replay_logits: Weight = 0.3,
    target: Target = "stored",
    distance: Distance = "mse",
    first_task: bool = True,
) -> Method:
    """Cross-entropy on the stream; logits of a draw towards what they were."""
    logits = partial(ReplayLogits, target=target, distance=distance, first_task=first_task)
    summands = Summand("ce", 1.0, CrossEntropy), Summand("replay_logits", replay_logits, logits)
    return Method(summands, memories=RESERVOIRS)


def derpp(
    *,
    replay_ce: Weight = 0.5,
    replay_logits: Weight = 0.1,
    target: Target = "stored",
    distance: Distance = "mse",
    first_task: bool = True,
) -> Method:
    """DER with ER's term: labels and logits, each on a draw."""
    distilled = der(
        replay_logits=replay_logits, target=target, distance=distance, first_task=first_task
    )
    labels = er(replay_ce=replay_ce, first_task=first_task).summands[1]
    return replace(distilled, summands=(*distilled.summands, labels))
