"""Other rules of prediction that can be added to a method: EMA, WA, Refit, Transport and its kin.

Training does not notice any of them. The rules are in learning/model.py, learning/logistic.py,
learning/transport.py and learning/statistics.py.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated

from pydantic import Field

from ..errors import ConfigError
from ..learning.logistic import Refitted
from ..learning.method import AddOn, Method
from ..learning.model import Aligned, Predictor
from ..learning.statistics import RandomRidge
from ..learning.transport import Carrying, Covariance, Map, Prior, Transported
from ..nets.heads import LinearHead
from ..nets.net import Spec
from ..settings.sections import Rate, Share, Weight


def ema(*, decay: Share = 0.99) -> AddOn:
    """Predict by an average of the weights over the steps of training.

        w_mean <- decay * w_mean + (1 - decay) * w        after every step

    Training does not notice: gradients, memory and the frozen net of the previous task are those of
    the net itself. At each task's end, the averaged net's BatchNorm statistics are estimated on
    stored rows and rows of the task, as many of each class. No pass is added to a step.
    """
    return lambda method: replace(method, average=decay)


def wa() -> AddOn:
    """Weight alignment: predict as if the head's newest rows were as long as the older ones.

        w_c * (mean of |w| over old classes) / (mean of |w| over new classes)  for w_c, c new

    after each task but the first. Training does not notice: the net keeps its own weights.
    """
    return _aligned


def _aligned(method: Method) -> Method:
    if method.head is not LinearHead or method.predictor is not Predictor:
        raise ConfigError(
            "term 'wa' aligns a plain linear head, and this method predicts by another rule"
        )
    return replace(method, predictor=Aligned)


def refit(*, c: Rate = 0.1) -> AddOn:
    """Predict by a head that is re-trained on the stored samples after each task.

        c * sum over stored rows of CE(W z + b, y) + |W|^2 / 2   is least,   z standardised

    The memory has about as many rows of each class, so this head leans to none of them, as the
    trained one does to the newest. The trained head predicts after the first task, after one with
    about as many images of every class seen, and where stored rows lack more than a tenth of the
    classes. Training does not notice: the net keeps its own head.
    """
    return partial(_refitted, c=c)


def _refitted(method: Method, *, c: float) -> Method:
    if not method.memories:
        raise ConfigError(
            "term 'refit' fits a head to stored rows, and this method keeps none; add it to one "
            "that does, such as er"
        )
    return _ruled(method, name="refit", by="a head", rule=partial(Refitted, c=c))


def _ruled(method: Method, *, name: str, by: str, rule: Callable[[Spec], Predictor]) -> Method:
    if method.predictor is not Predictor:
        raise ConfigError(
            f"add-on {name!r} predicts by {by}, and this combination already has another rule; "
            "leave one out"
        )
    return replace(method, predictor=rule)


def transport(
    *,
    map: Map = "linear",
    covariance: Covariance = "shared",
    ridge: Rate = 0.3,
    residual: Weight = 0.5,
    shrinkage: Share = 0.1,
    pooling: Share = 0.9,
    prior: Prior = "equal",
    sigma: Rate = 0.3,
    gamma: Rate = 200.0,
) -> AddOn:
    """Predict from each class's mean and covariance, carried by a map of old to new features.

        m_c <- m_c W + b,   S <- W' S W + residual R,   score_c(z) = z S^-1 m_c - m_c S^-1 m_c / 2

    Statistics are taken when a class's task ends. At each later task's end, W and b are fitted to
    that task's images as the previous and the present network see them, and R is the covariance of
    what they miss. No image is kept, and training does not notice: the net keeps its own head.

    `map` may also be "none", "bfp" (the map that BFP has learned), "sdc" (Yu et al., 2020) or
    "dpcr" (He et al., 2025); `sigma` is for "sdc", `gamma` for the head of "dpcr". `covariance`:
    "class" draws each class's towards the shared one by `pooling`, "none" is the nearest mean.
    "pooled" is the shared one from a sum for each class, so that one can be forgotten exactly.
    """
    how = Carrying(map, covariance, ridge, residual, shrinkage, pooling, prior, sigma, gamma)
    return partial(_transported, how=how)


def _transported(method: Method, *, how: Carrying) -> Method:
    if how.map == "bfp" and "bfp" not in [s.name for s in method.weighted_terms]:
        raise ConfigError(
            "transport.map: 'bfp' is the map that BFP learns; add it before, as in ft+bfp+transport"
        )
    if how.map == "dpcr" and (how.covariance not in POOLED or how.prior != "equal"):
        raise ConfigError(
            "transport.map: 'dpcr' has a rule of its own; leave transport.covariance and "
            "transport.prior out"
        )
    return _ruled(method, name="transport", by="statistics", rule=partial(Transported, how=how))


POOLED = ("shared", "pooled")
Expanded = Annotated[int, Field(ge=1, le=20_000)]


def ranpac(*, width: Expanded = 2000) -> AddOn:
    """Predict by ridge regression on randomly expanded features of all images so far.

        h = ReLU(z P),   W = (H'H + ridge I)^-1 H'Y,   score_c(z) = h w_c

    P is random and never learned. H'H and H'Y are sums over the images of all tasks, taken when
    their task ends, and the ridge is chosen anew on every fifth image of the newest task. Meant for
    a frozen backbone; no image is kept, and training does not notice.
    """
    rule = partial(RandomRidge, width=width, ridge=None)
    return partial(_ruled, name="ranpac", by="a regression", rule=rule)


def acil(*, width: Expanded = 2000, ridge: Rate = 1.0) -> AddOn:
    """Predict by analytic learning: as `ranpac`, with one ridge for all tasks.

    The result of ACIL's recursion, W_t from W_(t-1) and the new images alone, is this regression on
    the images of all tasks together.
    """
    rule = partial(RandomRidge, width=width, ridge=ridge)
    return partial(_ruled, name="acil", by="a regression", rule=rule)
