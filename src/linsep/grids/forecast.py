"""What runs will take, before they are made: compute, images, bytes on disk and hours.

Hours are the images that pass the network, times the seconds of one: these are measured once for a
machine and a network, by a few steps of fine-tuning, and remembered in linsep's cache.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.filesize import decimal

from ..settings import sections
from ..settings.catalogue import ADDONS, METHODS
from ..settings.sections import Keep

if TYPE_CHECKING:
    from ..prepare import Prepared

PACES = (
    "paces.json"  # in the cache: the seconds of an image passed forward, by what passes it where
)
STEPS, SECONDS = 30, 3.0  # that are measured at most, but no fewer steps than FEWEST
FEWEST = 5


class Forecast(NamedTuple):
    """What one run will take, about."""

    compute: float | None  # relative to fine-tuning; None: unknown, with a part of the user's
    trained: int  # images of the tasks, each as often as there are epochs
    tested: int
    size: int  # bytes on disk while it runs
    seconds: float | None  # None: nobody has measured


def forecasts(runs: Sequence[Prepared], keep: Keep | None = None) -> list[Forecast]:
    weights: dict[str, tuple[int, int]] = {}
    return [_forecast(prepared, keep, weights) for prepared in runs]


def _forecast(
    prepared: Prepared, keep: Keep | None, weights: dict[str, tuple[int, int]]
) -> Forecast:
    from ..learning.cost import TRAINED

    compute = relative_compute(prepared.config.method)
    tasks = prepared.data.scenario.tasks
    trained = prepared.config.training.epochs * sum(len(task.train) for task in tasks)
    tested = prepared.workload().tested()
    passes = TRAINED * trained * (1.0 if compute is None else compute) + tested
    pace = remembered(prepared)
    known = pace is not None and compute is not None
    seconds = pace * passes if known else None  # type: ignore[operator]
    net = prepared.config.net.model_dump_json(), prepared.data.scenario.num_classes
    if str(net) not in weights:
        weights[str(net)] = _weights(prepared)
    return Forecast(compute, trained, tested, _size(prepared, keep, *weights[str(net)]), seconds)


def relative_compute(method: str) -> float | None:
    """Images through the networks, as a multiple of fine-tuning's, as `linsep list` has them."""
    base, *extras = method.split("+")
    if base not in METHODS or not ADDONS.keys() >= set(extras):
        return None
    return METHODS[base].compute + sum(ADDONS[extra].compute for extra in extras)


def _weights(prepared: Prepared) -> tuple[int, int]:
    """How many parameters a net has, and its bytes."""
    alone = prepared.alone()
    here = sections.Compute(device="cpu")  # the run's device may be elsewhere
    learner = replace(alone, config=alone.config.model_copy(update={"compute": here})).learner()
    tensors = learner.net.state_dict().values()
    return learner.spec.parameters, sum(t.numel() * t.element_size() for t in tensors)


def _size(prepared: Prepared, keep: Keep | None, parameters: int, weights: int) -> int:
    """Weights, snapshots, and the two newest states, each with the net, its past and momentum."""
    from ..storage.snapshots import SMALL

    training = prepared.config.training
    keep = keep or ("tasks" if parameters <= SMALL else "end")
    tasks = len(prepared.data.scenario.tasks)
    snapshots = {"end": 1, "tasks": tasks, "epochs": tasks * (training.epochs + 1)}[keep]
    moments = 2 if training.optimizer == "adamw" else int(training.momentum > 0)
    return weights * (1 + snapshots + 2 * (2 + moments))


def described(found: Sequence[Forecast], at_once: int = 1) -> str:
    """'Relative compute 2.00 to 3.00; 60000 images to train on, ...' of the runs that are ahead."""
    known = [one.compute for one in found if one.compute is not None]
    low, high = (f"{end(known):.2f}" if known else "unknown" for end in (min, max))
    compute = low if low == high else f"{low} to {high}"
    trained, tested = sum(one.trained for one in found), sum(one.tested for one in found)
    return (
        f"Relative compute {compute}; {trained} images to train on and {tested} to test; about "
        f"{decimal(sum(one.size for one in found))} on disk; {_time(found, at_once)}."
    )


def _time(found: Sequence[Forecast], at_once: int) -> str:
    measured = [one.seconds for one in found if one.seconds is not None]
    if None in (one.compute for one in found):
        return "hours unknown, because a method or an add-on is your own"
    if len(measured) < len(found):
        return "hours unknown: --measure times a step of fine-tuning on this machine"
    whole = max(sum(measured) / at_once, *measured)
    return f"about {whole / 3600:.1f} hours" if whole >= 3600 else f"about {whole / 60:.1f} minutes"


# --- the pace of a network on this machine -------------------------------------------------------


def remembered(prepared: Prepared) -> float | None:
    """The seconds of an image passed forward, if they were measured on this machine."""
    pace = _paces().get(_key(prepared))
    return pace if isinstance(pace, float) else None


def measure(prepared: Prepared) -> float | None:
    """Time steps of fine-tuning and remember the pace; None if the device is not here."""
    import torch

    from ..learning.cost import TRAINED
    from ..learning.run import StepEnd
    from ..resolve import devices
    from ..storage import files

    config = prepared.config
    if config.compute.device not in devices():
        return None
    torch.set_num_threads(config.compute.threads or 1)
    took, last = list[float](), time.perf_counter()
    for event in prepared.alone().build():
        if isinstance(event, StepEnd):
            float(sum(event.losses.values()))  # waits for the device
            took.append(time.perf_counter() - last)
            if len(took) >= STEPS or (len(took) >= FEWEST and sum(took) > SECONDS):
                break
        last = time.perf_counter()
    pace = statistics.median(took[1:] or took) / (TRAINED * config.training.batch_size)
    place = _place()
    place.parent.mkdir(parents=True, exist_ok=True)
    files.write(place, json.dumps(_paces() | {_key(prepared): pace}, indent=1).encode())
    return pace


def _paces() -> dict[str, object]:
    with suppress(OSError, ValueError):
        found = json.loads(_place().read_bytes())
        return found if isinstance(found, dict) else {}
    return {}


def _place() -> Path:
    from ..data.published import cache_home

    return cache_home() / PACES


def _key(prepared: Prepared) -> str:
    """What decides the pace: the machine, the device, the network, the images, the batch."""
    import torch

    c, augment = prepared.config, prepared.data.augment
    device = torch.cuda.get_device_name() if c.compute.device == "cuda" else c.compute.device
    compute = c.compute.model_dump(include={"threads", "precision", "compile"})
    net = c.net.model_dump(include={"name", "options", "train"})
    shape = (prepared.data.scenario.shape[0], *augment.size)
    return json.dumps([platform.node(), device, net, shape, c.training.batch_size, compute])
