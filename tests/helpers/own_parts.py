"""A user's file with a method, a term and a net, as the docs describe them."""

from pathlib import Path

SOURCE = '''
from dataclasses import dataclass

from torch import nn

from linsep.learning.losses import soft_cross_entropy
from linsep.learning.method import WeightedTerm
from linsep.learning.terms import Term
from linsep.methods.replay import er


class ReplayDistillation(Term):
    def needs(self, task):
        return {"replay", "before"} if task.earlier else set()

    def forward(self, step):
        p = step.replay
        if p is None or p.before is None:
            return None
        return soft_cross_entropy(p.out.logits, p.before.logits, step.task.earlier, temperature=2.0)


def er_kd(*, distillation: float = 0.5):
    """Experience replay with distillation."""
    return er() + WeightedTerm("distillation", distillation, ReplayDistillation, from_memory=True)


def twin(*, replay_ce: float = 1.0):
    """ER under another name."""
    return er(replay_ce=replay_ce)


def kd(*, weight=0.5):
    return WeightedTerm("kd", weight, ReplayDistillation, from_memory=True)


def make(shape, *, width=4):
    """Two convolutions, one with BatchNorm."""
    first = nn.Conv2d(shape[0], width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU()
    return nn.Sequential(*first, nn.Conv2d(width, 6, 3, 2, 1), nn.ReLU())


def not_a_method(*, x: int = 1):
    return x


def fails(*, x: int = 1):
    return x / 0


def unstarred(x: int = 1):
    return er()


def bfp():
    return er()


class Breaks(Term):
    def forward(self, step):
        raise KeyError("in a step")


def breaks():
    return er() + WeightedTerm("broken", 1.0, Breaks)
'''


def write(folder: Path, source: str = SOURCE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "mine.py"
    path.write_text(source, encoding="utf-8")
    return path
