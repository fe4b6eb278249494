"""One lesson for the model in a folder: the run of one more task, which may be killed at any time.

While it runs, its state lies beside the old model, and the manifest has a note of it; the new model
replaces the old one only at the end. Repeating the same lesson (the same images, labels and
settings) resumes it bit for bit, and does nothing if it was the model's last lesson.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..data.images import DuplicateWarning, digests, repeated
from ..data.objects import Form, read
from ..errors import DivergedError, StateError, printable
from ..learning.run import Event, Run
from ..prepare import Progress
from ..storage import manifest
from ..storage.manifest import Lesson, Params
from ..storage.resumable import SAVE_EVERY, Resumable
from . import saved
from .beginning import begin, resolved, started
from .course import Course, check_names
from .estimator import labels_of


class Teaching(Resumable):
    """`with Teaching(folder, images, labels, new=params) as s: for event in s: ...`"""

    WHAT, REMEDY = "lesson", "add --discard to learn the lesson from the start"

    def __init__(
        self,
        folder: Path,
        images: Any,
        labels: Any = None,
        *,
        new: Params,
        net: nn.Module | None = None,
        classes: Sequence[Any] | None = None,
        about: str = "images",
        start_from: str | None = None,
        again: bool = False,
        discard: bool = False,
        empty_memory: bool = False,
        custom: Sequence[str] = (),
        save_every: float = SAVE_EVERY,
        progress: Progress = lambda done, total: None,
    ) -> None:
        """`new` and `classes` are what a folder without a model begins with; `start_from` is a file
        with weights that know these classes already.

        `again` teaches what the model has learned last once more; `discard` drops another lesson
        that was interrupted; `net`, `empty_memory` and `custom` are those of
        `IncrementalClassifier.load`. `progress` receives how many images have passed a frozen
        backbone, and how many will.
        """
        super().__init__(folder, save_every)
        self.new, self.net, self.classes, self.about = new, net, classes, printable(about)
        self.again, self.discard, self.start_from = again, discard, start_from
        self.empty_memory, self.custom = empty_memory, custom
        self.given, self.finished, self.progress = (images, labels), False, progress

    def __iter__(self) -> Iterator[Event]:
        try:
            yield from super().__iter__()
        except DivergedError:  # resuming would diverge again
            self._forget()
            raise

    # --- the inside ------------------------------------------------------------------------------

    def _open(self) -> None:
        saved.check_no_run(self.folder)
        course = self._course()
        config = resolved(self.new) if course is None else course.config
        form = Form(side=self.new.image_size) if course is None else course.form
        if form.table:
            raise StateError(f"{self.folder} was made of tables of numbers, and reads no images")
        images, labels = self.given
        given = read(images, form)
        if twice := repeated(digests(given.rows)):
            text = f"{self.about}: {len(twice)} images occur more than once"
            warnings.warn(text, DuplicateWarning, stacklevel=2)
        labels = labels_of(given, labels)
        check_names(np.unique(labels).tolist())
        params, lessons = (course.params, len(course.history)) if course else (self.new, 0)
        self.key = self._key(params, given.rows, labels, lessons)
        if course:
            course = replace(course, params=params.model_copy(update={"keep": self.new.keep}))
        if course and not self.again and course.key == self.key:
            self.course, self.finished = course, True
            return
        self._check_under_way()
        self._set_threads(config.compute.threads)
        if course is None:
            course = begin(params, given, self.classes, self.net, self.start_from)
            rows = course.as_learned(given.rows, self.progress)
            course = course.begun(rows)
        else:
            rows = course.as_learned(given.rows, self.progress)
        self.course, self.task = course, (rows, labels)
        self.run = self._build()

    def _build(self) -> Run:
        starts = self.start_from is not None and not self.course.history
        make = partial(started, self.course) if starts else self.course.next_run
        run, self.columns = make(*self.task)
        return run

    def _record(self, event: Event) -> None:
        """Nothing: a lesson's accuracies are in the model that it ends with."""

    def _sections(self) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        begun = Lesson(key=self.key, about=self.about, begun=now)
        return {"lesson": self.manifest.lesson or begun}

    def _finish(self) -> None:
        assert self.run is not None
        self.course = self.course.learned(self.run, self.columns, self.key)
        self.lease.check()
        saved.write(self.folder, self.course, memory=True)
        self.finished = True

    def _course(self) -> Course | None:
        """What the folder's model has learned; None if there is no model in it."""
        saved.settle(self.folder)
        if self.manifest.classifier is None:
            return None
        return saved.load(self.folder, self.net, empty_memory=self.empty_memory, custom=self.custom)

    def _key(self, params: Params, rows: torch.Tensor, labels: NDArray[Any], lessons: int) -> str:
        """Identify the lesson by its images, labels and settings, not by the images' path."""
        told = [
            params.model_dump(exclude={"keep"}),
            [self.classes, self.start_from],
            self.again and lessons,
            list(rows.shape),
        ]
        digest = blake2b(json.dumps(told, sort_keys=True, default=str).encode(), digest_size=16)
        digest.update(json.dumps(labels.tolist()).encode())
        digest.update(np.ascontiguousarray(rows).data)
        return digest.hexdigest()

    def _check_under_way(self) -> None:
        """Refuse another interrupted lesson, unless it is to be dropped."""
        before = self.manifest.lesson
        if before is None:
            self.manifest = self.manifest.model_copy(update={"environments": []})
        if before is None or before.key == self.key:
            return
        if not self.discard:
            raise StateError(saved.interrupted(self.folder, before))
        self._forget()

    def _forget(self) -> None:
        """Drop the lesson under way."""
        if self.manifest.classifier is None:
            (self.folder / manifest.NAME).unlink(missing_ok=True)
            self.manifest = manifest.new()
        else:
            self._note(lesson=None, environments=[])
        saved.settle(self.folder)
