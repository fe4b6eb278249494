"""Runs as tasks of a Ray cluster: one CPU each, or a share of a GPU.

Knows Ray, which is imported here and nowhere else. A task's messages come through the mailbox; one
that is lost with its worker or node is reported as dead, and the grid hands it out again. Ray
itself retries nothing, so that nothing runs twice.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from ...optional import needed
from ..worker import Job, Message
from .mailbox import NEVER_FULL, Mailbox, do_posted


class Ray:
    shares_memory = False

    def __init__(self, runs: Path, address: str | None, slots: Sequence[Mapping[str, str]]) -> None:
        self._ray = needed("ray", "--on ray")
        gpus = [slot["CUDA_VISIBLE_DEVICES"] for slot in slots if "CUDA_VISIBLE_DEVICES" in slot]
        self._gpu_share = len(set(gpus)) / len(gpus) if gpus else 0.0
        self._address, self._cpus = address, len(slots)
        self._mailbox = Mailbox(runs)
        self._ours = False

    def room(self) -> int:
        return NEVER_FULL

    def start(self, jobs: Sequence[Job]) -> None:
        self._connect()
        task = self._ray.remote(do_posted).options(
            num_cpus=1, num_gpus=self._gpu_share, max_retries=0, name="linsep run"
        )
        for job in jobs:
            box = self._mailbox.address(job)
            self._mailbox.sent[task.remote(job, box)] = job, box

    def hear(self, timeout: float) -> list[Message]:
        if not self._mailbox.sent:  # all runs are held elsewhere
            time.sleep(timeout)
            return []
        ended, _ = self._ray.wait(list(self._mailbox.sent), num_returns=1, timeout=timeout)
        messages = self._mailbox.news()
        return messages + [self._mailbox.last(task, self._loss(task)) for task in ended]

    def stop(self) -> None:
        self._mailbox.stop()

    def close(self) -> None:
        for task in self._mailbox.sent:
            self._ray.cancel(task, force=True)
        self._mailbox.close()
        if self._ours:
            self._ray.shutdown()

    def _connect(self) -> None:
        if self._ray.is_initialized():
            return
        where: dict[str, Any] = {"address": self._address}
        if self._address is None:
            where = {"address": "local", "num_cpus": self._cpus}
        try:
            self._ray.init(
                **where, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            first = str(error).strip().partition("\n")[0]
            raise ConfigError(f"--address {self._address}: no Ray cluster there: {first}") from None
        self._ours = True

    def _loss(self, task: Any) -> str:
        """Why a task may have ended without a report."""
        try:
            self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            return f"its worker or node was lost ({type(error).__name__})"
        return "its worker or node was lost"
