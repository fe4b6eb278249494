"""FDR: outputs on stored rows stay what they were when their task ended (Benjamin et al., 2019)."""

from typing import Literal

from torch import Tensor

from ..data.tasks import Task
from ..learning.losses import probability_match
from ..learning.method import Method, Summand
from ..learning.terms import CrossEntropy, Needs, Step, Term
from ..learning.updates import DESCEND, in_two_steps
from ..settings.sections import Weight


class ReplayProbabilities(Term):
    """Softmax outputs of replayed rows towards the stored ones."""

    def needs(self, task: Task) -> Needs:
        return {"replay", "logits"} if task.earlier else {"logits"}

    def forward(self, step: Step) -> Tensor | None:
        p = step.replay
        if p is None or p.batch.logits is None:
            return None
        return probability_match(p.out.logits, p.batch.logits)


def fdr(
    *, replay_probabilities: Weight = 1.0, update: Literal["sum", "two_steps"] = "sum"
) -> Method:
    """Cross-entropy on the stream and a weighted distance to stored outputs.

    "two_steps" follows the second term in a step of its own, whatever its weight (D15).
    """
    name = "replay_probabilities"
    weight = replay_probabilities if update == "sum" else 1.0
    return Method(
        (Summand("ce", 1.0, CrossEntropy), Summand(name, weight, ReplayProbabilities)),
        memories=("task_shares",),
        rule=DESCEND if update == "sum" else in_two_steps(name),
    )
