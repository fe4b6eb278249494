"""A-GEM: a step never goes against the gradient on stored rows (Chaudhry et al., 2019)."""

from functools import partial

from ..learning.method import Method, Summand
from ..learning.terms import CrossEntropy, ReplayCE
from ..learning.updates import project
from .replay import RESERVOIRS


def agem() -> Method:
    """Cross-entropy on the stream, its gradient projected where it would hurt earlier tasks."""
    reference = Summand("reference_ce", 1.0, partial(ReplayCE, first_task=False))
    return Method(
        (Summand("ce", 1.0, CrossEntropy), reference),
        memories=("task_shares", *RESERVOIRS),
        rule=project(reference.name),
    )
