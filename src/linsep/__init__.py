"""Continual learning that keeps old classes linearly separable.

A Method says what, a Learner does it, a Run drives it, results remember it:

>>> import linsep
>>> config = linsep.Config(scenario="blobs", method="derpp+bfp", memory=20, training={"epochs": 1})
>>> for event in linsep.build(config):
...     if isinstance(event, linsep.TaskEnd):
...         accuracy = event.class_il
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .config import Config as Config
    from .config import build as build
    from .data import Dataset as Dataset
    from .datasets.adapters import from_huggingface as from_huggingface
    from .datasets.adapters import from_torch as from_torch
    from .datasets.arrays import from_arrays as from_arrays
    from .errors import LinsepError as LinsepError
    from .projection import BackwardProjection as BackwardProjection
    from .run import EpochEnd as EpochEnd
    from .run import Run as Run
    from .run import StepEnd as StepEnd
    from .run import TaskEnd as TaskEnd

# Where each public name lives; imported when first asked for, since torch takes seconds.
_HOMES = {
    "BackwardProjection": "projection",
    "Config": "config",
    "Dataset": "data",
    "EpochEnd": "run",
    "LinsepError": "errors",
    "Run": "run",
    "StepEnd": "run",
    "TaskEnd": "run",
    "build": "config",
    "from_arrays": "datasets.arrays",
    "from_huggingface": "datasets.adapters",
    "from_torch": "datasets.adapters",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'linsep' has no attribute {name!r}")
    return getattr(import_module(f"linsep.{_HOMES[name]}"), name)
