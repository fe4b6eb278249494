"""Whether a saved state fits the run that it is loaded into.

Knows a run's state and its files' seal. Knows nothing of when states are saved.
"""

from pathlib import Path
from typing import Any

import torch

from ..errors import StateError
from ..learning.run import Run
from . import files

# What loading a state of another shape may raise.
UNFIT = ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError


def load(run: Run, path: Path, key: str) -> str:
    """Give the run the state in a file, and return the events until then.

    StateError if the file is damaged, of another run, or lacks something.
    """
    state = files.unseal(path)
    if state.get("key") != key:
        raise StateError(f"{path} is the state of another run, {state.get('key')!r}")
    try:
        run.load_state_dict(state["run"])
        _require_sound(run, state["run"])
        events = state["events"]
    except UNFIT as error:
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise StateError(f"{path} holds no state of this run: {reason}") from None
    if not isinstance(events, str):
        raise StateError(f"{path} holds no events, but {type(events).__name__}")
    return events


def sealed(run: Run, key: str, events: str) -> bytes:
    """What a run, known by its key, resumes from; StateError if its net is not finite."""
    state = {"run": run.state_dict(), "key": key, "events": events}
    require_finite(run)
    return files.seal(state)


def require_finite(run: Run) -> None:
    for name, value in run.learner.net.state_dict().items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise StateError(f"the net's {name} is no longer finite; the last good state is kept")


def _require_sound(run: Run, saved: dict[str, Any]) -> None:
    """Refuse a state that could be loaded and that no run can be in."""
    ends = (len(run.scenario.tasks), len(run.learner.method.stages), 10**9, 10**9)
    at = [type(n) is int and 0 <= n <= end for n, end in zip(saved["cursor"], ends, strict=True)]
    shapes = [saved[name].shape == run.class_il.shape for name in ("class_il", "task_il")]
    sums = saved["sums"].keys() == saved["counts"].keys()
    single = [value.numel() == 1 and value.is_floating_point() for value in saved["sums"].values()]
    counts = [type(count) is int and count > 0 for count in saved["counts"].values()]
    if not all([*at, *shapes, sums, *single, *counts]):
        raise ValueError("its cursor, accuracies or losses are those of no run")
