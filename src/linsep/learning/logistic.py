"""Multinomial logistic regression with an L2 penalty, and the head that `+refit` fits by it.

It is solved to a known distance of the optimum; the linear probe measures features with it too. The
objective is scikit-learn's,

    C * sum_i -log softmax(W x_i + b)[y_i] + 1/2 ||W||^2,   b not penalised,

minimised by SciPy's L-BFGS until strong convexity bounds the distance to the minimum. At the same
distance it is 1.1 (d = 512) to 3.2 (d = 64) times faster than scikit-learn's, which does not rotate
the features (benchmarks/README.md).
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ..data.images import Images
from ..data.tasks import Task
from ..nets.heads import DecidesLinearly
from ..nets.net import Spec
from .model import LinearRule, finite
from .terms import TaskContext

ROWS = 4096  # rows turned to float64 at a time
SPREAD = 0.2  # of p (1 - p) at the start: about what it is on the way to the optimum
MOST_LACKING = 0.1  # of the classes seen may have no stored row where a head is fitted anew


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


def _shows_all(task: Task) -> bool:
    """Whether a head trained on a task can judge: it is the first, or has enough of every class.

    Enough is half as many images as of the class with most.
    """
    counts = task.train.y.bincount(minlength=max(task.seen) + 1)
    return not task.earlier or 2 * int(counts[list(task.seen)].min()) >= max(int(counts.max()), 1)


@dataclass(frozen=True, eq=False)
class Logistic:
    """The solved regression. `objective` and `loss` are means over the rows it was fitted on."""

    weight: Tensor  # (K, d) float64
    bias: Tensor  # (K,) float64
    objective: float  # mean loss + ||W||^2 / (2 C n)
    loss: float  # mean loss alone
    gap: float  # about the most the objective can be above its minimum
    iterations: int
    converged: bool

    def scores(self, x: Tensor) -> Tensor:
        """Logits, (n, K) float64."""
        blocks = torch.split(x.detach().cpu(), ROWS)
        return torch.cat([F.linear(b.double(), self.weight, self.bias) for b in blocks])


def fit_logistic(
    x: Tensor, y: Tensor, classes: int, *, c: float = 1.0, gap: float = 1e-5, max_iter: int = 1000
) -> Logistic:
    """Minimise the module's objective on `x` as given, with y in 0..classes-1.

    Divided by C n the objective is 1/(C n)-strongly convex in W, so a gradient G bounds the
    distance to its minimum by C n |G|^2 / 2; iteration ends once that is below `gap`. The share of
    b, which has no penalty, is estimated from its own curvature. With two classes scikit-learn fits
    one vector w, the difference of two rows, which is the same as doubling the penalty.
    """
    if classes < 2 or int(y.min()) == int(y.max()):
        raise ValueError("a regression needs rows of at least two classes")
    if int(y.max()) >= classes:
        raise ValueError(f"labels: {int(y.max())} is beyond {classes} classes")
    if not c > 0 or not gap > 0:
        raise ValueError(f"want c > 0 and gap > 0, got {c} and {gap}")
    from scipy.optimize import minimize  # here: it takes a while to import

    weak = c * len(x) / (2 if classes == 2 else 1)  # 1 / strong convexity
    problem = _Problem(x.detach().cpu(), y.cpu().long(), classes, 1 / weak)

    def check(intermediate_result: object) -> None:
        if problem.bound <= gap:
            raise StopIteration

    start = np.zeros(classes * len(problem.scale))
    options = {"maxiter": max_iter, "maxfun": 10 * max_iter, "ftol": 0.0, "gtol": 0.0}
    found = minimize(
        problem, start, jac=True, method="L-BFGS-B", callback=check, options=options
    )  # gives up early only where rounding leaves nothing lower
    objective, _ = problem(found.x)
    v = torch.from_numpy(found.x).view(classes, -1) * problem.scale
    weight, bound = v[:, :-1] @ problem.basis.double().T, problem.bound  # (K, d)
    return Logistic(weight, v[:, -1], objective, problem.loss, bound, found.nit, bound <= gap)


class _Problem:
    """The mean objective in coordinates where its curvature is near 1 in every direction.

    Turning W by the features' principal directions leaves ||W|| as it is, and directions that no
    row has stay at zero, so they are left out. The Hessian is then near a diagonal one; scaled by
    its root, L-BFGS is fast however correlated the features are. The intercept is a last column.
    """

    def __init__(self, x: Tensor, y: Tensor, classes: int, penalty: float) -> None:
        n, d = x.shape
        self.y, self.classes, self.each = y, classes, torch.arange(n)
        span = torch.linalg.qr(x.T)[0] if n < d else None  # (d, n) only the rows' span matters
        inside = x if span is None else x @ span  # (n, r)
        squares, turn = torch.linalg.eigh(inside.T @ inside / n)
        self.basis = turn if span is None else span @ turn  # (d, r)
        squares = F.pad(squares.double().clamp(min=0), (0, 1), value=1.0)  # (r + 1,) E x^2
        penalties = torch.full_like(squares, penalty)
        penalties[-1] = 0
        spread = SPREAD * (classes - 1) / classes**2  # of p (1 - p), on average over classes
        self.scale = (spread * squares + penalties).rsqrt()
        self.penalty = penalties * self.scale.square()
        self.x = F.pad(x @ self.basis, (0, 1), value=1.0) * self.scale.to(x.dtype)  # (n, r + 1)
        self.bound = self.loss = float("inf")

    def __call__(self, flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The objective and its gradient; `loss` and `bound` are of the same place."""
        v = torch.from_numpy(flat).view(self.classes, -1)
        log_p = F.linear(self.x, v.to(self.x.dtype)).double().log_softmax(1)  # (n, K)
        self.loss = -float(log_p[self.each, self.y].mean())
        p = log_p.exp_()
        least = self.penalty.clone()
        # How curved the objective is at least; along b, which has no penalty, it is a guess.
        least[-1] = (p - p * p).mean().clamp(min=1e-9) * self.scale[-1].square()
        p[self.each, self.y] -= 1
        gradient = (p.to(self.x.dtype).T @ self.x).double() / len(self.x) + self.penalty * v
        self.bound = float((gradient.square() / least).sum()) / 2
        return self.loss + float((self.penalty * v * v).sum()) / 2, gradient.flatten().numpy()


def mean_and_deviation(x: Tensor) -> tuple[Tensor, Tensor]:
    """Per column, in float64; a deviation that is nothing but rounding becomes 1."""
    blocks = torch.split(x, ROWS)
    mean = torch.stack([b.sum(0, dtype=torch.float64) for b in blocks]).sum(0) / len(x)
    squares = torch.stack([(b.double() - mean).square().sum(0) for b in blocks]).sum(0)
    deviation = (squares / len(x)).sqrt()
    return mean, deviation.masked_fill(deviation <= 1e-9 * mean.abs(), 1.0)
