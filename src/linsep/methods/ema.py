"""An exponential average of the weights for prediction (Soutif-Cormerais et al., 2023)."""

from dataclasses import replace
from functools import partial

from ..learning.method import Addition, Method
from ..settings.sections import Share


def ema(*, decay: Share = 0.99) -> Addition:
    """Predict by an average of the weights over the steps of training.

        w_mean <- decay * w_mean + (1 - decay) * w        after every step

    Training does not notice: gradients, memory and the frozen net of the previous task are those of
    the net itself. At each task's end, the averaged net's BatchNorm statistics are estimated on
    stored rows and rows of the task, as many of each class. No pass is added to a step.
    """
    return partial(_averaged, decay=decay)


def _averaged(method: Method, *, decay: float) -> Method:
    return replace(method, average=decay)
