"""From a net's output to scores; which classes have been seen is not known here.

A head may be a rule of its own (cosine, bias-corrected): then the net's logits are the scores.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data.images import Images
from ..data.tasks import Task
from ..errors import DivergedError
from ..nets.heads import DecidesLinearly, LinearHead
from ..nets.net import Output, Spec
from .logistic import fit_logistic, mean_and_deviation
from .terms import TaskContext

MOST_LACKING = 0.1  # of the classes seen may have no stored row where a head is fitted anew
NEVER = -1e30  # the score of a class that nothing is known of: less than any other's


class Predictor(nn.Module):
    """The net's own logits."""

    looks_back = False  # whether `fit` compares with the network that predicted before this task

    def __init__(self, spec: Spec) -> None:
        super().__init__()

    def forward(self, out: Output) -> Tensor:
        return out.logits

    def as_linear(self, head: DecidesLinearly) -> tuple[Tensor, Tensor]:
        """Weights and biases of the linear rule that decides as this one does on the features."""
        return head.as_linear()

    def fit(self, context: TaskContext, exemplars: Images) -> None:
        """Called after every task, once the memory has settled, with the rows it has."""


class LinearRule(Predictor):
    """A linear head of its own, beside the one that the net is trained with."""

    weight: Tensor  # (C, d)
    bias: Tensor  # (C,)

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.register_buffer("weight", torch.zeros(spec.classes, spec.features))
        self.register_buffer("bias", torch.full((spec.classes,), NEVER))

    def forward(self, out: Output) -> Tensor:
        return F.linear(out.features.float(), self.weight, self.bias)

    def as_linear(self, head: DecidesLinearly) -> tuple[Tensor, Tensor]:
        return self.weight, self.bias

    def decide_by(self, classes: Tensor, weight: Tensor, bias: Tensor) -> None:
        """Decide among these classes alone by w z + b."""
        self.weight.zero_()
        self.bias.fill_(NEVER)
        self.weight[classes] = weight.to(self.weight)
        self.bias[classes] = bias.to(self.bias)


class NearestMean(Predictor):
    """iCaRL's rule: the closest mean of a class's exemplars, all features on the unit sphere."""

    means: Tensor

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.register_buffer("means", torch.zeros(spec.classes, spec.features))

    def forward(self, out: Output) -> Tensor:
        z = F.normalize(out.features.float())
        return -torch.cdist(z, self.means, compute_mode="donot_use_mm_for_euclid_dist")

    def as_linear(self, head: DecidesLinearly) -> tuple[Tensor, Tensor]:
        """Among unit vectors the closest mean m is the one with the largest m z - |m|^2 / 2.

        |z| = 1 there, and |m| = 1 for every class that has exemplars; so |z| does not matter.
        """
        return self.means.detach(), self.means.new_zeros(len(self.means))

    def fit(self, context: TaskContext, exemplars: Images) -> None:
        if not len(exemplars):
            return
        z = F.normalize(context.evaluate(exemplars).features)
        for c in exemplars.y.unique().tolist():
            rows = (exemplars.y == c).to(z.device)
            self.means[c] = F.normalize(z[rows].mean(0), dim=0)


class Aligned(Predictor):
    """The logits of a linear head whose newest rows have been made as long as the older ones.

    w_c z + b_c, with g w_c for w_c in the newest task's classes; g is the mean length of the older
    classes' rows over that of the newest ones' (Zhao et al., 2020). The net stays as it is.
    """

    scale: Tensor
    bias: Tensor

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.register_buffer("scale", torch.ones(spec.classes))
        self.register_buffer("bias", torch.zeros(spec.classes))

    def forward(self, out: Output) -> Tensor:
        return self.scale * (out.logits.float() - self.bias) + self.bias

    def as_linear(self, head: DecidesLinearly) -> tuple[Tensor, Tensor]:
        weight, bias = head.as_linear()
        return self.scale[:, None] * weight, bias

    def fit(self, context: TaskContext, exemplars: Images) -> None:
        head, task = context.net.head, context.task
        assert isinstance(head, LinearHead)
        weight, bias = head.as_linear()
        self.bias.copy_(bias)
        self.scale.fill_(1.0)
        if task.earlier and task.classes:
            length = weight.norm(dim=1)
            old, new = (length[list(classes)].mean() for classes in (task.earlier, task.classes))
            self.scale[list(task.classes)] = old / new


class Refitted(LinearRule):
    """A linear head of its own, fitted to the features of the stored rows after each task.

    By logistic regression on standardised features, with the penalty |W|^2 / (2 C) on the sum of
    the losses. It is the trained head's copy after a task that head can judge by, and where stored
    rows lack more than a tenth of the classes seen; otherwise a class without rows is never
    predicted. The net keeps the head that it was trained with.
    """

    def __init__(self, spec: Spec, *, c: float) -> None:
        super().__init__(spec)
        self.c = c

    def fit(self, context: TaskContext, exemplars: Images) -> None:
        head, task = context.net.head, context.task
        lacking = set(task.seen) - set(exemplars.y.tolist())
        poor = len(lacking) > MOST_LACKING * len(task.seen)
        if (poor or _shows_all(task)) and isinstance(head, DecidesLinearly):
            self.decide_by(torch.arange(len(self.bias)), *head.as_linear())
            return
        labels, target = exemplars.y.unique(return_inverse=True)  # (K,) sorted, (n,)
        if len(labels) < 2:  # nothing to tell apart
            self.decide_by(labels, torch.zeros_like(self.weight[labels]), torch.zeros(len(labels)))
            return
        z = finite(context.evaluate(exemplars).features, task).double()  # (n, d)
        mean, deviation = mean_and_deviation(z)
        x = (z - mean) / deviation
        found = fit_logistic(x, target, len(labels), c=self.c, gap=1e-10)
        weight = found.weight / deviation  # (K, d), of the features as they are
        self.decide_by(labels, weight, found.bias - weight @ mean)


def finite(features: Tensor, task: Task) -> Tensor:
    """The features on the host; DivergedError if they are no longer numbers."""
    if not features.isfinite().all():
        raise DivergedError(
            f"the features are no longer numbers after task {task.index + 1}; try a smaller "
            "training.lr or a smaller weight"
        )
    return features.cpu()


def _shows_all(task: Task) -> bool:
    """Whether a head trained on a task can judge: it is the first, or has enough of every class.

    Enough is half as many images as of the class with most.
    """
    counts = task.train.y.bincount(minlength=max(task.seen) + 1)
    return not task.earlier or 2 * int(counts[list(task.seen)].min()) >= max(int(counts.max()), 1)
