"""SER's forward consistency: say of new images what the old net says (Zhuo et al., 2023)."""

from torch import Tensor

from ..learning.losses import logit_match
from ..learning.method import Summand
from ..learning.terms import Step, Term
from ..settings.sections import Weight


class StreamLogits(Term):
    """Logits of the stream towards what the previous task's net says of the same images."""

    looks_back = True

    def forward(self, step: Step) -> Tensor | None:
        p = step.stream
        if p.before is None or not step.task.earlier:
            return None
        return logit_match(p.out.logits, p.before.logits)


def ser(*, weight: Weight = 0.2) -> Summand:
    """Strong experience replay: on new images, logits stay those of the previous task's net.

        weight * mean over rows and classes of (f(x) - f_old(x))^2

    f gives the logits of the net that learns, f_old those of its frozen copy from the end of the
    previous task; the rows are the stream's. The paper's other half, stored logits of replayed
    rows, is what `der` and `derpp` do; docs/methods/ser.md has the options of the whole.
    """
    return Summand("ser", weight, StreamLogits)
