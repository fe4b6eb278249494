"""Functions timed in turns in one process: the least of all rounds counts.

Whatever else the machine does can only add to a time, so the least is the closest to the truth.
"""

import gc
import time
from collections.abc import Callable
from typing import NamedTuple


class Times(NamedTuple):
    cpu: float  # seconds
    wall: float


def least(*works: Callable[[], object], rounds: int) -> list[Times]:
    """The least CPU and wall time of each function, after one round that does not count."""
    gc.disable()
    try:
        timed = [[_once(work) for work in works] for _ in range(rounds + 1)]
    finally:
        gc.enable()
    return [Times(*map(min, zip(*times, strict=True))) for times in zip(*timed[1:], strict=True)]


def _once(work: Callable[[], object]) -> Times:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Times(time.process_time() - cpu, time.perf_counter() - wall)
