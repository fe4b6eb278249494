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

# Where each public name lives; imported when first asked for, since torch takes seconds.
_HOMES = {
    "BackwardProjection": "learning.projection",
    "Compared": "notebook.runs",
    "Config": "settings.config",
    "Dataset": "data.images",
    "EpochEnd": "learning.run",
    "IncrementalClassifier": "classifier.estimator",
    "LinsepError": "errors",
    "Run": "learning.run",
    "Runs": "notebook.runs",
    "SavedClassifier": "classifier.predictive",
    "SavedRun": "notebook.saved",
    "StepEnd": "learning.run",
    "TaskEnd": "learning.run",
    "build": "prepare",
    "from_arrays": "data.arrays",
    "from_huggingface": "data.objects",
    "from_torch": "data.objects",
    "load": "notebook.saved",
    "metrics": "learning",
    "runs": "notebook.runs",
    "testing": "",
    "train": "notebook.runs",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'linsep' has no attribute {name!r}")
    home = f"linsep.{_HOMES[name]}".rstrip(".")
    collects = gc.isenabled()
    gc.disable()  # which would search through all of torch again and again, in vain
    try:
        if name in ("metrics", "testing"):
            return import_module(f"{home}.{name}")
        return getattr(import_module(home), name)
    finally:
        if collects:
            gc.enable()


def __dir__() -> list[str]:
    return list(__all__)
