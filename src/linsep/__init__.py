"""Continual learning that keeps old classes linearly separable.

A Method defines the losses, a Learner applies them, and a Run drives it through the tasks:

>>> import linsep
>>> config = linsep.Config(scenario="blobs", method="derpp+bfp", memory=20, training={"epochs": 1})
>>> for event in linsep.build(config):
...     if isinstance(event, linsep.TaskEnd):
...         accuracy = event.class_il

`linsep.train` does the same into a folder that can be resumed, compared and reported.
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import testing as testing
    from .classifier.estimator import IncrementalClassifier as IncrementalClassifier
    from .classifier.predictive import SavedClassifier as SavedClassifier
    from .data.arrays import from_arrays as from_arrays
    from .data.images import Dataset as Dataset
    from .data.objects import from_huggingface as from_huggingface
    from .data.objects import from_torch as from_torch
    from .errors import LinsepError as LinsepError
    from .learning import metrics as metrics
    from .learning.projection import BackwardProjection as BackwardProjection
    from .learning.run import EpochEnd as EpochEnd
    from .learning.run import Run as Run
    from .learning.run import StepEnd as StepEnd
    from .learning.run import TaskEnd as TaskEnd
    from .notebook.runs import Compared as Compared
    from .notebook.runs import Runs as Runs
    from .notebook.runs import runs as runs
    from .notebook.runs import train as train
    from .notebook.saved import SavedRun as SavedRun
    from .notebook.saved import load as load
    from .prepare import build as build
    from .settings.config import Config as Config

# The module that each public name lives in; imported when first asked for: torch takes seconds.
_HOMES = {
    name: home
    for home, names in {
        "classifier.estimator": ("IncrementalClassifier",),
        "classifier.predictive": ("SavedClassifier",),
        "data.arrays": ("from_arrays",),
        "data.images": ("Dataset",),
        "data.objects": ("from_huggingface", "from_torch"),
        "errors": ("LinsepError",),
        "learning.metrics": ("metrics",),
        "learning.projection": ("BackwardProjection",),
        "learning.run": ("EpochEnd", "Run", "StepEnd", "TaskEnd"),
        "notebook.runs": ("Compared", "Runs", "runs", "train"),
        "notebook.saved": ("SavedRun", "load"),
        "prepare": ("build",),
        "settings.config": ("Config",),
        "testing": ("testing",),
    }.items()
    for name in names
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'linsep' has no attribute {name!r}")
    collects = gc.isenabled()
    gc.disable()  # which would search through all of torch again and again, in vain
    try:
        home = import_module(f"linsep.{_HOMES[name]}")
        return home if name in ("metrics", "testing") else getattr(home, name)
    finally:
        if collects:
            gc.enable()


def __dir__() -> list[str]:
    return list(__all__)
