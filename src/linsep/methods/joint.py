"""The two bounds: fine-tuning, which forgets, and joint training, which never has to remember."""

from typing import Literal

from ..data.tasks import Scenario
from ..learning.method import Method, Summand
from ..learning.terms import CrossEntropy


def ft() -> Method:
    """Cross-entropy on the stream, and nothing else."""
    return Method((Summand("ce", 1.0, CrossEntropy),), lr=0.1)


def jt(*, data: Literal["all", "seen"] = "all") -> Method:
    """From scratch on all data at once (the paper's tables), or task by task on all data seen."""
    curriculum = Scenario.at_once if data == "all" else Scenario.cumulative
    return Method((Summand("ce", 1.0, CrossEntropy),), lr=0.1, curriculum=curriculum)
