"""Class statistics that are carried to every later network, and predict in the head's place.

The rule is in learning/transport.py, the statistics in learning/statistics.py, the maps in
learning/drift.py.
"""

from dataclasses import replace
from functools import partial

from ..errors import ConfigError
from ..learning.method import Addition, Method
from ..learning.predictors import Predictor
from ..learning.transport import Carrying, Covariance, Map, Prior, Transported
from ..settings.sections import Rate, Share, Weight


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
) -> Addition:
    """Predict from each class's mean and covariance, carried by a map of old to new features.

        m_c <- m_c W + b,   S <- W' S W + residual R,   score_c(z) = z S^-1 m_c - m_c S^-1 m_c / 2

    Statistics are taken when a class's task ends. At each later task's end, W and b are fitted to
    that task's images as the previous and the present network see them, and R is the covariance of
    what they miss. No image is kept, and training does not notice: the net keeps its own head.

    `map` may also be "none", "bfp" (the map that BFP has learned), "sdc" (Yu et al., 2020) or
    "dpcr" (He et al., 2025); `sigma` is for "sdc", `gamma` for the head of "dpcr". `covariance`:
    "class" draws each class's towards the shared one by `pooling`, "none" is the nearest mean.
    """
    how = Carrying(map, covariance, ridge, residual, shrinkage, pooling, prior, sigma, gamma)
    return partial(_transported, how=how)


def _transported(method: Method, *, how: Carrying) -> Method:
    if method.predictor is not Predictor:
        raise ConfigError(
            "term 'transport' predicts by statistics, and this sum has another rule already; "
            "leave one out"
        )
    if how.map == "bfp" and "bfp" not in [s.name for s in method.summands]:
        raise ConfigError(
            "transport.map: 'bfp' is the map that BFP learns; add it before, as in ft+bfp+transport"
        )
    if how.map == "dpcr" and (how.covariance, how.prior) != ("shared", "equal"):
        raise ConfigError(
            "transport.map: 'dpcr' has a rule of its own; leave transport.covariance and "
            "transport.prior out"
        )
    return replace(method, predictor=partial(Transported, how=how))
