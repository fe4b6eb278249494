"""Replay of stored images beside the stream.

ER replays labels (Riemer et al., 2019), DER logits and DER++ both (Buzzega et al., 2020). ER-ACE
spares absent classes in the stream's loss (Caccia et al., 2022), A-GEM never steps against the
gradient on stored rows (Chaudhry et al., 2019), and FDR keeps the outputs on stored rows what they
were when their task ended (Benjamin et al., 2019).
"""

from dataclasses import replace
from functools import partial
from typing import Literal

from torch import Tensor
from torch.nn.functional import cross_entropy

from ..data.tasks import Task
from ..learning.losses import Distance, asymmetric_ce, probability_match
from ..learning.method import DESCEND, Method, WeightedTerm, in_two_steps, project
from ..learning.terms import CrossEntropy, Needs, ReplayCE, ReplayLogits, Step, Term
from ..settings.sections import Weight

Target = Literal["stored", "previous_net"]
RESERVOIRS = ("balanced", "plain", "loss_aware")


def er(*, replay_ce: Weight = 1.0, first_task: bool = True) -> Method:
    """Cross-entropy on current-task data and, in a separate pass, on a replay batch."""
    replayed = partial(ReplayCE, first_task=first_task)
    weighted_terms = (
        WeightedTerm("ce", 1.0, CrossEntropy),
        WeightedTerm("replay_ce", replay_ce, replayed),
    )
    return Method(weighted_terms, lr=0.1, memories=RESERVOIRS)


def der(
    *,
    replay_logits: Weight = 0.3,
    target: Target = "stored",
    distance: Distance = "mse",
    first_task: bool = True,
) -> Method:
    """Cross-entropy on current-task data; replayed logits stay what they were."""
    logits = partial(ReplayLogits, target=target, distance=distance, first_task=first_task)
    weighted_terms = (
        WeightedTerm("ce", 1.0, CrossEntropy),
        WeightedTerm("replay_logits", replay_logits, logits),
    )
    return Method(weighted_terms, memories=RESERVOIRS)


def derpp(
    *,
    replay_ce: Weight = 0.5,
    replay_logits: Weight = 0.1,
    target: Target = "stored",
    distance: Distance = "mse",
    first_task: bool = True,
) -> Method:
    """DER with ER's term: labels and logits, each on a replay batch."""
    distilled = der(
        replay_logits=replay_logits, target=target, distance=distance, first_task=first_task
    )
    labels = er(replay_ce=replay_ce, first_task=first_task).weighted_terms[1]
    return replace(distilled, weighted_terms=(*distilled.weighted_terms, labels))


class AsymmetricCE(Term):
    """From the second task on among the batch's classes and those not seen yet."""

    def forward(self, step: Step) -> Tensor:
        p = step.stream
        if not step.task.earlier:
            return cross_entropy(p.out.logits, p.batch.y)
        return asymmetric_ce(p.out.logits, p.batch.y, step.task.seen)


def er_ace(*, replay_ce: Weight = 1.0, first_task: bool = False) -> Method:
    """Replay over all classes; the loss on new data leaves out absent old ones."""
    replayed = partial(ReplayCE, first_task=first_task)
    weighted_terms = (
        WeightedTerm("ace", 1.0, AsymmetricCE),
        WeightedTerm("replay_ce", replay_ce, replayed),
    )
    return Method(weighted_terms, memories=RESERVOIRS)


def agem() -> Method:
    """Cross-entropy on the stream, its gradient projected where it would hurt earlier tasks."""
    reference = WeightedTerm("reference_ce", 1.0, partial(ReplayCE, first_task=False))
    return Method(
        (WeightedTerm("ce", 1.0, CrossEntropy), reference),
        memories=("task_shares", *RESERVOIRS),
        rule=project(reference.name),
    )


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
    """Cross-entropy on current-task data and a weighted distance to stored outputs.

    "two_steps" follows the second term in a step of its own, whatever its weight (D15).
    """
    name = "replay_probabilities"
    weight = replay_probabilities if update == "sum" else 1.0
    return Method(
        (WeightedTerm("ce", 1.0, CrossEntropy), WeightedTerm(name, weight, ReplayProbabilities)),
        memories=("task_shares",),
        rule=DESCEND if update == "sum" else in_two_steps(name),
    )
