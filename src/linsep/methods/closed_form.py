"""Methods that train nothing: sums over the features of all images so far decide, in closed form.

They are for a backbone that does not learn. Each is a rule that others can add to a method which
trains (prediction.py); the sums are in learning/statistics.py.
"""

from ..learning.method import AddOn, Method, Stage
from ..settings.sections import Rate, Share
from . import prediction
from .prediction import Expanded


def ncm() -> Method:
    """Predict the class with the nearest mean feature."""
    return _by(prediction.transport(map="none", covariance="none"))


def slda(*, shrinkage: Share = 0.1) -> Method:
    """Streaming linear discriminant analysis: class means and one covariance, of all images so far.

    score_c(z) = z S^-1 m_c - m_c S^-1 m_c / 2
    """
    return _by(prediction.transport(map="none", shrinkage=shrinkage))


def ranpac(*, width: Expanded = 2000) -> Method:
    """Ridge regression on randomly expanded features, its ridge chosen on rows of each task."""
    return _by(prediction.ranpac(width=width))


def acil(*, width: Expanded = 2000, ridge: Rate = 1.0) -> Method:
    """Ridge regression on randomly expanded features, with one ridge for all tasks."""
    return _by(prediction.acil(width=width, ridge=ridge))


def _by(rule: AddOn) -> Method:
    return Method((), stages=(Stage("train", epochs=0),)) + rule
