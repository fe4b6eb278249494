"""ER-ACE: in the stream's loss, new classes do not push old ones down (Caccia et al., 2022)."""

from functools import partial

from torch import Tensor
from torch.nn.functional import cross_entropy

from ..learning.losses import asymmetric_ce
from ..learning.method import Method, Summand
from ..learning.terms import ReplayCE, Step, Term
from ..settings.sections import Weight
from .replay import RESERVOIRS


class AsymmetricCE(Term):
    """From the second task on among the batch's classes and those not seen yet."""

    def forward(self, step: Step) -> Tensor:
        p = step.stream
        if not step.task.earlier:
            return cross_entropy(p.out.logits, p.batch.y)
        return asymmetric_ce(p.out.logits, p.batch.y, step.task.seen)


def er_ace(*, replay_ce: Weight = 1.0, first_task: bool = False) -> Method:
    """Replay over all classes; the stream's loss leaves out those that are absent."""
    replayed = partial(ReplayCE, first_task=first_task)
    summands = Summand("ace", 1.0, AsymmetricCE), Summand("replay_ce", replay_ce, replayed)
    return Method(summands, memories=RESERVOIRS)
