"""Runs as jobs of a Slurm cluster, one job array for all that start together, through submitit.

Knows submitit, which is imported here and nowhere else. Messages come through the mailbox. A job
that Slurm preempts or that reaches its time limit is queued again and resumes from its last save;
one that is lost is reported as dead, and the grid hands it out again. `cluster=local` runs the jobs
as processes of this machine instead, for trying out.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from ...optional import needed
from ..worker import Job, Message
from .mailbox import NEVER_FULL, Mailbox, do_posted

LOOK_EVERY = 0.2  # seconds
DEFAULTS = {"cpus_per_task": 1, "timeout_min": 24 * 60, "name": "linsep"}


class Posted:
    """A job as submitit calls it; `checkpoint` is what it asks for when time is up."""

    def __call__(self, job: Job, box: Path) -> None:
        do_posted(job, box)

    def checkpoint(self, job: Job, box: Path) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, job, box)


class Slurm:
    shares_memory = False

    def __init__(
        self, runs: Path, options: Mapping[str, Any], slots: Sequence[Mapping[str, str]]
    ) -> None:
        submitit = needed("submitit", "--on slurm")
        given = dict(options)
        cluster = given.pop("cluster", "slurm")
        gpus = {"gpus_per_node": 1} if any("CUDA_VISIBLE_DEVICES" in slot for slot in slots) else {}
        self._mailbox = Mailbox(runs)
        common = submitit.AutoExecutor._valid_parameters()
        named = {k if k in common else f"slurm_{k}": v for k, v in given.items()}
        try:
            self._executor = submitit.AutoExecutor(runs.absolute() / ".slurm", cluster=cluster)
            self._executor.update_parameters(**{**DEFAULTS, **gpus, **named})
        except (RuntimeError, ValueError, TypeError, NameError, AssertionError) as error:
            first = str(error).strip().partition("\n")[0]
            raise ConfigError(f"--on slurm: {first}") from None
        # Without Slurm nobody keeps a queue.
        self._most = NEVER_FULL if cluster == "slurm" else len(slots)

    def room(self) -> int:
        return self._most - len(self._mailbox.sent)

    def start(self, jobs: Sequence[Job]) -> None:
        boxes = [self._mailbox.address(job) for job in jobs]
        submitted = self._executor.map_array(Posted(), jobs, boxes)
        self._mailbox.sent.update(zip(submitted, zip(jobs, boxes, strict=True), strict=True))

    def hear(self, timeout: float) -> list[Message]:
        until = time.monotonic() + timeout
        while True:
            ended = [submitted for submitted in self._mailbox.sent if submitted.done()]
            messages = self._mailbox.news()
            if ended or messages or time.monotonic() > until:
                break
            time.sleep(LOOK_EVERY)
        lost = "its job ended without a report ({0.state})"
        return messages + [self._mailbox.last(one, lost.format(one)) for one in ended]

    def stop(self) -> None:
        self._mailbox.stop()

    def close(self) -> None:
        for submitted in self._mailbox.sent:
            submitted.cancel(check=False)
        self._mailbox.close()
