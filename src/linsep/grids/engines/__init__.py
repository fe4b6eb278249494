"""Where runs are done: on this machine, on a Ray cluster, or as Slurm jobs.

An engine takes jobs and tells what becomes of them, in the messages of `worker`. It knows processes
and schedulers; which runs there are, and which to try again, is the grid's business. The runs'
folder, on a path that all of them share, is the only thing that two engines have in common, so what
one has begun another may resume.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ...errors import ConfigError, unknown
from ..worker import Job, Message
from .local import Local
from .ray import Ray
from .slurm import Slurm

ENGINES = ("local", "ray", "slurm")


class Engine(Protocol):
    shares_memory: bool  # whether a run alone has more of it than one among others

    def room(self) -> int:
        """Return how many more jobs the engine can take now."""

    def start(self, jobs: Sequence[Job]) -> None: ...

    def hear(self, timeout: float) -> list[Message]:
        """Return new messages; wait for the first, but no longer than the given time."""

    def stop(self) -> None:
        """Ask every run to save and end. Each reports its end, so keep calling `hear`."""

    def close(self) -> None:
        """Release all resources, by force if need be."""


def open_engine(
    name: str,
    runs: Path,
    *,
    slots: Sequence[Mapping[str, str]],
    address: str | None = None,
    slurm: Mapping[str, Any] | None = None,
) -> Engine:
    """`slots` are this machine's, each with the environment of the process in it."""
    if name not in ENGINES:
        raise ConfigError(f"--on: {unknown('engine', name, ENGINES)}")
    if address and name != "ray":
        raise ConfigError(f"--address is a Ray cluster's; with --on {name} leave it out")
    if slurm and name != "slurm":
        raise ConfigError(f"--slurm sets options of Slurm jobs; with --on {name} leave it out")
    if name == "ray":
        return Ray(runs, address, slots)
    if name == "slurm":
        return Slurm(runs, slurm or {}, slots)
    return Local(runs, slots)
