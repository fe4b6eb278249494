"""Multinomial logistic regression with an L2 penalty, and the head that `+refit` fits by it.

It is solved to a known distance of the optimum; the linear probe measures features with it too. The
objective is scikit-learn's,

    C * sum_i -log softmax(W x_i + b)[y_i] + 1/2 ||W||^2,   b not penalised,

minimised by L-BFGS until strong convexity bounds the distance to the minimum. At the same distance
it is 1.7 (d = 512) to 3.4 (d = 64) times faster than scikit-learn's, whose L-BFGS does not rotate
the features (benchmarks/README.md); with few rows or two classes scikit-learn's is faster.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..data.images import Images
from ..data.tasks import Task
from ..nets.heads import DecidesLinearly
from ..nets.net import Spec
from .model import LinearRule, finite
from .terms import TaskContext

ROWS = 4096  # rows turned to float64 at a time
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
    weak = c * len(x) / (2 if classes == 2 else 1)  # 1 / strong convexity
    problem = _Rotated(x.detach().cpu(), y.cpu().long(), classes, 1 / weak)
    v, value, bound, iterations = _lbfgs(problem, gap, max_iter)
    weight, bias = v[:, :-1] @ problem.basis.double().T, v[:, -1]  # (K, d), (K,)
    penalty = float(weight.square().sum()) / (2 * weak)
    return Logistic(weight, bias, value, value - penalty, bound, iterations, bound <= gap)


def mean_and_deviation(x: Tensor) -> tuple[Tensor, Tensor]:
    """Per column, in float64; a deviation that is nothing but rounding becomes 1."""
    blocks = torch.split(x, ROWS)
    mean = torch.stack([b.sum(0, dtype=torch.float64) for b in blocks]).sum(0) / len(x)
    squares = torch.stack([(b.double() - mean).square().sum(0) for b in blocks]).sum(0)
    deviation = (squares / len(x)).sqrt()
    return mean, deviation.masked_fill(deviation <= 1e-9 * mean.abs(), 1.0)


class _Rotated:
    """The mean objective in coordinates where the features are uncorrelated: W = V basis^T.

    Rotating W along the features' principal directions leaves ||W|| as it is, and directions that
    no row has stay at zero, so they are left out. The Hessian is then near a diagonal one, which
    makes L-BFGS fast however correlated the features are. The intercept is a last column.
    """

    def __init__(self, x: Tensor, y: Tensor, classes: int, penalty: float) -> None:
        n, d = x.shape
        self.n, self.classes, self.y = n, classes, y
        span = torch.linalg.qr(x.T)[0] if n < d else None  # (d, n) only the rows' span matters
        inside = x if span is None else x @ span  # (n, r)
        squares, turn = torch.linalg.eigh(inside.T @ inside / n)  # (r,), (r, r)
        self.basis = turn if span is None else span @ turn  # (d, r)
        self.squares = F.pad(squares.double().clamp(min=0), (0, 1), value=1.0)  # (r + 1,) E x^2
        self.penalty = torch.full_like(self.squares, penalty)
        self.penalty[-1] = 0
        self.x = x.new_ones(n, len(self.squares))  # (n, r + 1)
        torch.mm(x, self.basis, out=self.x[:, :-1])

    def logits(self, v: Tensor) -> Tensor:
        return F.linear(self.x, v.to(self.x.dtype)).double()  # (n, K)

    def value(self, logits: Tensor, v: Tensor) -> tuple[float, Tensor]:
        """The objective and the softmax, (n, K)."""
        top = logits.amax(1, keepdim=True)
        p = (logits - top).exp_()
        total = p.sum(1, keepdim=True)
        own = logits.gather(1, self.y[:, None])
        loss = float((total.log() + top - own).mean())
        return loss + float((self.penalty * v * v).sum()) / 2, p.div_(total)

    def gradient(self, p: Tensor, v: Tensor) -> Tensor:
        """(K, r + 1); overwrites p."""
        residual = p.scatter_add_(1, self.y[:, None], -p.new_ones(self.n, 1))
        return (residual.to(self.x.dtype).T @ self.x).double() / self.n + self.penalty * v

    def curvature(self, p: Tensor) -> Tensor:
        """About the Hessian's diagonal: (r + 1,).

        One for all classes: the gradient's sum over classes is the penalty's alone, and scaling
        classes apart would send steps along that almost flat direction.
        """
        spread = (p - p * p).mean().clamp(min=1e-9)
        return spread * self.squares + self.penalty

    def gap(self, gradient: Tensor, curvature: Tensor) -> float:
        """How far above its minimum the objective can be, by least curvatures; b's is a guess."""
        least = self.penalty.clone()
        least[-1] = curvature[-1]
        return float((gradient.square() / least).sum()) / 2

    def slope(self, p: Tensor, v: Tensor, step: Tensor, step_logits: Tensor) -> float:
        """The objective's derivative along `step`."""
        own = step_logits.gather(1, self.y[:, None])
        loss = (float((p * step_logits).sum()) - float(own.sum())) / self.n
        return loss + float((self.penalty * v * step).sum())


def _lbfgs(
    problem: _Rotated, gap: float, max_iter: int, memory: int = 10
) -> tuple[Tensor, float, float, int]:
    """Minimise until the bound on the gap is below `gap`: V, value, bound, iterations.

    Logits are linear in V, so a trial step costs n K and not n K d.
    """
    v = torch.zeros(problem.classes, problem.x.shape[1], dtype=torch.float64)
    logits = torch.zeros(problem.n, problem.classes, dtype=torch.float64)
    value, p = problem.value(logits, v)
    curvature, gradient = problem.curvature(p), problem.gradient(p, v)
    past: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=memory)
    for iteration in range(max_iter + 1):
        bound = problem.gap(gradient, curvature)
        if bound <= gap or iteration == max_iter:
            break
        step = -_inverse_hessian_times(gradient, past, curvature)
        step_logits = problem.logits(step)
        found = _line_search(problem, v, logits, step, step_logits, value, gradient)
        if found is None:  # rounding: nothing lower in this direction
            break
        length, value, p = found
        v, logits, before = v + length * step, logits.add_(step_logits, alpha=length), gradient
        curvature, gradient = problem.curvature(p), problem.gradient(p, v)
        change = gradient - before
        along = length * float((step * change).sum())
        if along > 0:
            past.append((length * step, change, 1 / along))
    return v, value, bound, iteration


def _inverse_hessian_times(
    g: Tensor, past: Sequence[tuple[Tensor, Tensor, float]], diagonal: Tensor
) -> Tensor:
    """The two-loop recursion (Nocedal and Wright, algorithm 7.4), from a diagonal first guess."""
    q, weights = g.clone(), []
    for s, change, rho in reversed(past):
        weights.append(rho * float((s * q).sum()))
        q.add_(change, alpha=-weights[-1])
    q /= diagonal
    if past:
        _, change, rho = past[-1]
        q /= rho * float((change.square() / diagonal).sum())
    for (s, change, rho), weight in zip(past, reversed(weights), strict=True):
        q.add_(s, alpha=weight - rho * float((change * q).sum()))
    return q


def _line_search(
    problem: _Rotated,
    v: Tensor,
    logits: Tensor,
    step: Tensor,
    step_logits: Tensor,
    value: float,
    gradient: Tensor,
) -> tuple[float, float, Tensor] | None:
    """Halve or double the step until it meets the weak Wolfe conditions: length, value, softmax."""
    slope = float((gradient * step).sum())
    low, high, length = 0.0, float("inf"), 1.0
    for _ in range(40):
        trial = v + length * step
        reached, p = problem.value(logits + length * step_logits, trial)
        if not reached <= value + 1e-4 * length * slope:
            high = length
        elif problem.slope(p, trial, step, step_logits) < 0.9 * slope:
            low = length
        else:
            return length, reached, p
        length = (low + high) / 2 if high < float("inf") else 2 * length
    return None
