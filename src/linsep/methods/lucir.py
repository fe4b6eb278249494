"""LUCIR: a cosine head, features that keep their direction, and room between old and new classes.

Hou et al., 2019. The head is in heads.py; features come without the last block's ReLU.
"""

from functools import partial
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from ..learning.losses import less_forget, margin_ranking
from ..learning.method import (
    NEW_AND_STORED,
    STORED,
    Descent,
    Method,
    Stage,
    WeightedTerm,
    nothing_to_do,
)
from ..learning.terms import CrossEntropy, SeenCrossEntropy, Step, TaskContext, Term
from ..nets.heads import CosineHead
from ..nets.net import Spec
from ..settings.sections import Count, Rate, Weight
from .distillation import HerdBy

Rivals = Literal["new", "not_old"]


class LessForget(Term):
    """1 - cos of new and old features, times sqrt(n_old / n_new) in classes."""

    looks_back = True

    def forward(self, step: Step) -> Tensor | None:
        p, task = step.stream, step.task
        if p.before is None or not task.earlier:
            return None
        growth = (len(task.earlier) / max(1, len(task.classes))) ** 0.5
        return growth * less_forget(p.out.features, p.before.features)


class MarginRanking(Term):
    """Rows of old classes: their own cosine above those of the nearest new classes.

    The BFP authors' program lets classes that are still to come compete with these.
    """

    def __init__(self, spec: Spec, *, nearest: int, margin: float, rivals: Rivals) -> None:
        super().__init__(spec)
        self.nearest, self.margin = nearest, margin
        self.rivals, self.classes = rivals, range(spec.classes)

    def forward(self, step: Step) -> Tensor | None:
        p, task, head = step.stream, step.task, step.net.head
        assert isinstance(head, CosineHead)
        if not task.earlier or not task.classes:
            return None
        old = torch.isin(p.batch.y, torch.tensor(task.earlier, device=p.batch.y.device))
        if not old.any():
            return None
        cosines = head.cosine(p.out.features[old])
        not_old = sorted(set(self.classes).difference(task.earlier))
        rivals = task.classes if self.rivals == "new" else not_old
        return margin_ranking(
            cosines, p.batch.y[old], rivals, nearest=self.nearest, margin=self.margin
        )


@torch.no_grad()
def imprint(context: TaskContext) -> None:
    """Only new rows of the head learn; they start at their class's mean feature."""
    task, head = context.task, _cosine(context)
    head.free.fill_(False)
    head.free[list(task.classes)] = True
    if not task.earlier:
        return
    length = head.weight[list(task.earlier)].norm(dim=1).mean()
    for c in task.classes:
        z = F.normalize(context.evaluate(task.train.select([c])).features)
        head.weight[c] = length * F.normalize(z.mean(0), dim=0)


def release(context: TaskContext) -> None:
    """Every seen row of the head learns."""
    _cosine(context).free[list(context.task.seen)] = True


def _cosine(context: TaskContext) -> CosineHead:
    head = context.net.head
    assert isinstance(head, CosineHead)
    return head


def lucir(
    *,
    less_forget: Weight = 5.0,
    margin_ranking: Weight = 1.0,
    margin: Weight = 0.5,
    nearest: Count = 2,
    scale: Rate = 1.0,
    fitting_epochs: Annotated[int, Field(ge=0)] = 20,
    fitting_lr: Rate = 0.01,
    ce_among: Literal["seen", "all"] = "seen",
    rivals: Rivals = "new",
    fit_by: Literal["ce", "all"] = "ce",
    fit_rows: Literal["seen", "newest"] = "seen",
    herd_by: HerdBy = "direction",
    last_relu: bool = False,
) -> Method:
    """Cosine logits on new and stored samples, then head re-training on the memory.

    The BFP authors' program differs in `ce_among`, `rivals`, `fit_by`, `fit_rows`, `herd_by` and
    `last_relu`: the preset `authors` has its values.
    """
    everywhere = ("train", "fit")
    ce = SeenCrossEntropy if ce_among == "seen" else CrossEntropy
    others = everywhere if fit_by == "all" else ("train",)
    ranking = partial(MarginRanking, nearest=nearest, margin=margin, rivals=rivals)
    weighted_terms = (
        WeightedTerm("ce", 1.0, ce, stages=everywhere),
        WeightedTerm("less_forget", less_forget, LessForget, stages=others),
        WeightedTerm("margin_ranking", margin_ranking, ranking, stages=others),
    )
    train = Stage("train", rows=NEW_AND_STORED, observes=False, begin=imprint)
    fit = Stage(
        "fit",
        fitting_epochs,
        Descent(fitting_lr),
        rows=STORED,
        trains=("head",),
        replays=False,
        observes=False,
        consolidate_first=True,
        begin=release if fit_rows == "seen" else nothing_to_do,
    )
    return Method(
        weighted_terms,
        suggests={"momentum": 0.9},
        net_options={"last_relu": last_relu},
        memories=("herding" if herd_by == "direction" else "raw_herding",),
        head=partial(CosineHead, scale=scale),
        stages=(train, fit),
    )
