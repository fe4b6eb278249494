"""Bounds and a sanity check: fine-tuning, joint training, and a new net for each memory.

Fine-tuning forgets, joint training never has to remember, and GDumb trains a new net on a balanced
memory and nothing else (Prabhu et al., 2020).
"""

from functools import partial
from math import cos, pi
from typing import Literal

from ..data.tasks import Scenario
from ..learning.method import STORED, Descent, Method, Stage, WeightedTerm
from ..learning.terms import CrossEntropy, SeenCrossEntropy
from ..settings.sections import Count, Rate


def ft() -> Method:
    """Cross-entropy on the stream, and nothing else."""
    return Method((WeightedTerm("ce", 1.0, CrossEntropy),), lr=0.1)


def jt(*, data: Literal["all", "seen"] = "all") -> Method:
    """From scratch on all data at once (the paper's tables), or task by task on all data seen."""
    curriculum = Scenario.at_once if data == "all" else Scenario.cumulative
    return Method((WeightedTerm("ce", 1.0, CrossEntropy),), lr=0.1, curriculum=curriculum)


def with_restarts(epoch: int, *, high: float, low: float) -> float:
    """From high to low along a cosine, over 1, 2, 4, 8 ... epochs (SGDR)."""
    period = 1
    while epoch >= period:
        epoch -= period
        period *= 2
    return low + (high - low) * (1 + cos(pi * epoch / period)) / 2


def gdumb(*, epochs: Count = 63, high_lr: Rate = 0.05, low_lr: Rate = 0.0005) -> Method:
    """After each task a net is trained from scratch on the memory alone.

    63 epochs are six whole periods of the learning rate; the run's own epochs do not matter.
    """
    train = Stage(
        "train",
        epochs,
        Descent(partial(with_restarts, high=high_lr, low=low_lr)),
        rows=STORED,
        replays=False,
        observes=False,
        consolidate_first=True,
        reinitialise=True,
    )
    weighted_terms = (WeightedTerm("ce", 1.0, SeenCrossEntropy),)
    return Method(weighted_terms, lr=high_lr, memories=("greedy",), stages=(train,))
