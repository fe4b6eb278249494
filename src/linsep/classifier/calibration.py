"""How sure a classifier may be: temperature scaling, and how far confidence is from accuracy.

Guo et al., 2017. Pure functions of scores and labels.
"""

import numpy as np
import torch
from torch import Tensor

FEWEST = 20  # held-out rows below which a temperature would be noise
RANGE = (-4.0, 4.0)  # of the logarithm of the temperature
BINS = 15


def temperature(scores: Tensor, y: Tensor) -> float:
    """The number to divide scores by so that their softmax fits the labels best; 1 for few rows."""
    if len(y) < FEWEST:
        return 1.0
    from scipy.optimize import minimize_scalar

    s = scores.double()

    def loss(logarithm: float) -> float:
        return float(torch.nn.functional.cross_entropy(s / np.exp(logarithm), y))

    return float(np.exp(minimize_scalar(loss, bounds=RANGE, method="bounded").x))


def probabilities(scores: Tensor, temperature: float) -> Tensor:
    """(n, classes), 0 where a score is -inf."""
    return (scores.double() / temperature).softmax(1)


def calibration_error(p: Tensor, y: Tensor) -> float | None:
    """ECE: the mean gap between confidence and accuracy over 15 bins; None without rows."""
    if not len(y):
        return None
    sure, chosen = p.max(1)
    right = (chosen == y).double()
    place = (sure * BINS).long().clamp(max=BINS - 1)
    gap = 0.0
    for b in place.unique().tolist():
        here = place == b
        gap += float(here.double().mean() * (sure[here].mean() - right[here].mean()).abs())
    return gap
