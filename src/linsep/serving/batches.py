"""Concurrent requests answered together: while one batch is computed, the next one gathers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from .model import Answers, Rows, Served

BATCH = 64  # images that are computed at once
WAITING = 1024  # images that may wait


class BusyError(Exception):
    """More images wait than should."""


class _Job(NamedTuple):
    model: Served
    rows: Rows
    answer: asyncio.Future[Answers]


class Batches:
    """`await batches.answer(model, rows)`, inside a running `batches.work()`."""

    def __init__(self, noted: Callable[[int], object] = lambda images: None) -> None:
        """`noted` is given the size of each batch."""
        self._jobs: deque[_Job] = deque()
        self._some = asyncio.Event()
        self._noted = noted
        self.waiting = 0  # images

    async def answer(self, model: Served, rows: Rows) -> Answers:
        """What a model says of a request's images; they are not divided, and no other answers."""
        if self.waiting + len(rows) > max(WAITING, len(rows)):
            raise BusyError
        job = _Job(model, rows, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self.waiting += len(rows)
        self._some.set()
        return await job.answer

    async def work(self) -> None:
        """Compute batch after batch, until cancelled."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "model") as computing:
            while True:
                await self._some.wait()
                jobs = self._next()
                images = sum(len(job.rows) for job in jobs)
                self._noted(images)
                try:
                    p, strange = await loop.run_in_executor(computing, _computed, jobs)
                except Exception as error:  # noqa: BLE001 - each request is told, and others go on
                    for job in jobs:
                        if not job.answer.done():
                            job.answer.set_exception(error)
                    continue
                start = 0
                for job in jobs:
                    end = start + len(job.rows)
                    if not job.answer.done():  # a client may have gone
                        job.answer.set_result((p[start:end], strange[start:end]))
                    start = end

    def _next(self) -> list[_Job]:
        """The requests that have waited longest and share a model, up to a batch."""
        first = self._jobs.popleft()
        taken, images = [first], len(first.rows)
        while self._jobs and self._jobs[0].model is first.model:
            if images + len(self._jobs[0].rows) > BATCH:
                break
            taken.append(self._jobs.popleft())
            images += len(taken[-1].rows)
        self.waiting -= images
        if not self._jobs:
            self._some.clear()
        return taken


def _computed(jobs: list[_Job]) -> Answers:
    rows = jobs[0].rows if len(jobs) == 1 else np.concatenate([job.rows for job in jobs])
    return jobs[0].model.answer(rows)
