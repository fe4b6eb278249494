"""One lesson for the model in a folder, which may be killed at any time.

What is kept of a lesson under way is described in note.py. The model itself is replaced when the
lesson has ended; until then it is the old one. The same lesson, that is, the same rows, labels and
settings, resumes where it was, bit for bit, and a lesson that was the model's last is not taught
twice.

Knows files and their order. How a lesson is learned is course.py's.
"""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import nn

from ..errors import ConfigError, DivergedError, StateError, printable, shortened
from ..learning.run import Event, TaskEnd
from ..settings.signature import validate
from ..storage import environment, files, states
from ..storage.lease import Lease
from . import manifest, saved
from .course import Lesson
from .estimator import IncrementalClassifier
from .inputs import Given
from .labels import labels_of
from .note import NOTE, STATES, Note, forget, interrupted

SAVE_EVERY = 30.0  # seconds


class Teaching:
    """`with Teaching(folder, images, labels, new=classifier) as lesson: for event in lesson: ...`

    Stop whenever you like: call `save()` first and nothing is lost at all.
    """

    def __init__(
        self,
        folder: Path,
        images: Any,
        labels: Any = None,
        *,
        new: IncrementalClassifier,
        classes: Sequence[Any] | None = None,
        about: str = "images",
        again: bool = False,
        discard: bool = False,
        empty_memory: bool = False,
        own: Sequence[str] = (),
        save_every: float = SAVE_EVERY,
    ) -> None:
        """`new` is what a folder without a model begins with.

        `again` teaches what the model has learned last once more; `discard` drops another lesson
        that was interrupted; `empty_memory` and `own` are those of `IncrementalClassifier.load`.
        """
        self.folder, self.new, self.classes, self.about = folder, new, classes, printable(about)
        self.again, self.discard, self.empty_memory = again, discard, empty_memory
        self.own, self.save_every = own, save_every
        self.given, self.finished, self.resumed = (images, labels), False, False
        self.lesson: Lesson | None = None
        self.lease = Lease(folder)
        self._saved = 0.0

    def __enter__(self) -> Teaching:
        with ExitStack() as undo:
            with files.reporting(f"cannot use {self.folder}"):
                if not self.folder.exists():
                    self.folder.mkdir(parents=True)
                    undo.callback(_tidy, self.folder)
                self.lease.acquire()
            undo.callback(self.lease.release)
            self._open()
            undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.lease.release()

    def __iter__(self) -> Iterator[Event]:
        if self.lesson is None:
            return
        try:
            for event in self.lesson:
                if isinstance(event, TaskEnd) or self._due():
                    self.save()
                yield event
            self.classifier._learned(self.lesson, self.columns, self.key)
        except DivergedError:  # it would again
            forget(self.folder)
            raise
        self.lease.check()
        saved.write(self.folder, self.classifier, memory=True)
        forget(self.folder)
        self.finished = True

    def save(self) -> None:
        """Write how far the lesson has come to disk, and flush it."""
        assert self.lesson is not None
        state = states.sealed(self.lesson.run, self.key, "")
        self.lease.check()
        files.write(self.folder / STATES[0], state, keep=self.folder / STATES[1])
        self._saved = time.monotonic()

    # --- the inside ------------------------------------------------------------------------------

    def _due(self) -> bool:
        return time.monotonic() - self._saved >= self.save_every

    def _open(self) -> None:
        for stray in self.folder.glob(".*.tmp"):  # of a process that was killed
            stray.unlink(missing_ok=True)
        classifier = self._classifier()
        torch.set_num_threads(_threads(classifier))
        given, labels = self._read(classifier)
        history = getattr(classifier, "history_", [])
        self.key = self._key(classifier, given.rows, labels, len(history))
        if history and not self.again and history[-1]["lesson"] == self.key:
            self.classifier, self.finished = classifier, True
            forget(self.folder)
            return
        begun = self._begun([entry["lesson"] for entry in history])
        self._prepare(classifier, given, labels)
        if begun is not None:
            self._resume(begun)
        device = classifier.course_.config.compute.device
        made = {k: environment.describe(torch.device(device))[k] for k in environment.DECISIVE}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        note = Note(key=self.key, about=self.about, begun=begun.begun if begun else now, made=made)
        files.write(self.folder / NOTE, note.model_dump_json(indent=1).encode() + b"\n")
        self._saved = time.monotonic()

    def _classifier(self) -> IncrementalClassifier:
        """The folder's own, or a new one."""
        if not (self.folder / manifest.NAME).exists():
            made: IncrementalClassifier = clone(self.new)
            return made
        saved.settle(self.folder)
        module = self.new.net if isinstance(self.new.net, nn.Module) else None
        return IncrementalClassifier.load(
            self.folder, net=module, empty_memory=self.empty_memory, own=self.own
        )

    def _key(self, classifier: Any, rows: torch.Tensor, labels: Any, lessons: int) -> str:
        """Known by what is learned and how, wherever the images lie."""
        told = [classifier.get_params(), self.classes, self.again and lessons, list(rows.shape)]
        digest = blake2b(json.dumps(told, sort_keys=True, default=str).encode(), digest_size=16)
        digest.update(json.dumps(labels.tolist()).encode())
        digest.update(np.ascontiguousarray(rows).data)
        return digest.hexdigest()

    def _begun(self, learned: list[str | None]) -> Note | None:
        """The note of this lesson, if it was interrupted; another one's is refused or dropped."""
        found = interrupted(self.folder)
        if found is None or found.key == self.key:
            return found
        if not self.discard and found.key not in learned[-1:]:
            raise StateError(
                f"{self.folder} is in the middle of learning {found.about}, begun {found.begun}; "
                "repeat that command to finish it, or add --discard to drop it"
            )
        forget(self.folder)
        return None

    def _read(self, classifier: IncrementalClassifier) -> tuple[Given, NDArray[Any]]:
        """Rows in the classifier's form, and a label for each that can be saved."""
        images, labels = self.given
        given = classifier._read(images, labels, hasattr(classifier, "course_"))
        found = labels_of(given, labels)
        manifest.check_labels(np.unique(found).tolist())
        return given, found

    def _prepare(
        self, classifier: IncrementalClassifier, given: Given, labels: NDArray[Any]
    ) -> None:
        rows = given.rows if given.table is None else given.table  # which are read again for free
        self.classifier = classifier
        self.lesson, self.columns = classifier._lesson(rows, labels, self.classes)

    def _resume(self, begun: Note) -> None:
        """From the newest state that is whole; from the start if none was saved yet."""
        there = [self.folder / name for name in STATES if (self.folder / name).exists()]
        for path in there:
            assert self.lesson is not None
            try:
                states.load(self.lesson.run, path, self.key)
            except StateError as error:
                warnings.warn(str(error), stacklevel=4)
                again = self._classifier()  # for the state may have been loaded in part
                self._prepare(again, *self._read(again))
                continue
            self.resumed = True
            self._compare(begun)
            return
        if there:
            raise StateError(
                f"no state of the interrupted lesson in {self.folder} can be read; add --discard "
                "to learn it from the start"
            )

    def _compare(self, begun: Note) -> None:
        device = torch.device(self.classifier.course_.config.compute.device)
        here = environment.describe(device)
        for field, value in begun.made.items():
            if here.get(field) != value:
                warnings.warn(
                    f"this lesson was begun with {field} = {value!r} and resumes with "
                    f"{here.get(field)!r}: the rest may differ in the last bits",
                    stacklevel=5,
                )


def _tidy(folder: Path) -> None:
    """Remove a folder in which nothing has begun."""
    if all(path.name.startswith(".lock") for path in folder.iterdir()):
        shutil.rmtree(folder)


def check(classifier: IncrementalClassifier) -> None:
    """Refuse parameters that no lesson can be learned with, before any image is read."""
    seed, side = classifier.random_state, classifier.image_size
    validate(manifest.Params, {"holdout": classifier.holdout, "device": classifier.device})
    if isinstance(seed, int) and not 0 <= seed < 2**32:
        raise ConfigError(f"random_state: should be from 0 to below 2**32, not {shortened(seed)}")
    if side is not None and not 1 <= side <= manifest.MOST_SIDE:
        most = manifest.MOST_SIDE
        raise ConfigError(f"image_size: should be from 1 to {most}, not {shortened(side)}")
    classifier._resolved(False, 0)


def _threads(classifier: IncrementalClassifier) -> int:
    """As many as were asked for, or one: the number changes the last bits."""
    course = getattr(classifier, "course_", None)
    wanted = course.config.compute.threads if course is not None else None
    return wanted or (classifier.settings or {}).get("compute", {}).get("threads") or 1
