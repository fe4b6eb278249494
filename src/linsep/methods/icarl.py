"""iCaRL: exemplars join the stream, outputs are sigmoids, the nearest mean decides.

Rebuffi et al., 2017. Herding is in exemplars.py, the nearest mean in predictors.py.
"""

from typing import Literal

from torch import Tensor

from ..learning.losses import distilled_bce
from ..learning.method import NEW_AND_STORED, Method, Stage, Summand
from ..learning.predictors import NearestMean
from ..learning.terms import Step, Term


class DistilledBCE(Term):
    """New classes towards their labels, old ones towards what the old net says of the same rows."""

    looks_back = True

    def forward(self, step: Step) -> Tensor:
        p, task = step.stream, step.task
        old = p.before.logits if p.before is not None and task.earlier else None
        return distilled_bce(p.out.logits, p.batch.y, task.seen, old, task.earlier)


def icarl(*, herd_by: Literal["direction", "feature"] = "direction") -> Method:
    """Binary cross-entropies on new and stored rows; prediction by the nearest exemplar mean.

    A mean over classes has small gradients: its learning rate is five times the scenario's.
    """
    return Method(
        (Summand("distilled_bce", 1.0, DistilledBCE),),
        lr=0.1,
        rate_factor=5.0,
        suggests={"weight_decay": 1e-5},
        memories=("herding" if herd_by == "direction" else "raw_herding",),
        predictor=NearestMean,
        stages=(Stage("train", rows=NEW_AND_STORED, observes=False),),
    )
