"""Weight alignment: at prediction, new classes' weights are as long as old ones'.

Zhao et al., 2020. The rule is in predictors.py.
"""

from dataclasses import replace

from ..errors import ConfigError
from ..learning.method import Addition, Method
from ..learning.predictors import Aligned, Predictor
from ..nets.heads import LinearHead


def wa() -> Addition:
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
