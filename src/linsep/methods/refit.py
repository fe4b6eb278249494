"""A head fitted anew for prediction, on stored rows alone (after Kang et al., 2020).

The rule is in predictors.py, the regression in logistic.py.
"""

from dataclasses import replace
from functools import partial

from ..errors import ConfigError
from ..learning.method import Addition, Method
from ..learning.predictors import Predictor, Refitted
from ..settings.sections import Rate


def refit(*, c: Rate = 0.1) -> Addition:
    """Predict by a head that is fitted anew to the stored rows' features after each task.

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
    if method.predictor is not Predictor:
        raise ConfigError(
            "term 'refit' predicts by a head, and this sum has another rule already; leave one out"
        )
    return replace(method, predictor=partial(Refitted, c=c))
