"""One lesson for the model in a folder, which may be killed at any time.

What is kept of a lesson under way is described in note.py. The model itself is replaced when the
lesson has ended; until then it is the old one. The same lesson, that is, the same rows, labels and
settings, resumes where it was, bit for bit, and a lesson that was the model's last is not taught
twice.

storage/resumable.py has the loop; how a lesson is learned is course.py's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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
from ..learning.run import Event, Run
from ..settings.signature import validate
from ..storage import environment
from ..storage.resumable import SAVE_EVERY, Resumable, set_threads
from . import manifest, saved
from .estimator import IncrementalClassifier
from .inputs import Given
from .labels import labels_of
from .note import NOTE, STATES, Note, forget, interrupted


class Teaching(Resumable):
    """`with Teaching(folder, images, labels, new=classifier) as s: for event in s: ...`"""

    NAMES, WHAT = STATES, "lesson"

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
        super().__init__(folder, save_every)
        self.new, self.classes, self.about = new, classes, printable(about)
        self.again, self.discard, self.empty_memory, self.own = again, discard, empty_memory, own
        self.given, self.finished, self.resumed = (images, labels), False, False

    def __iter__(self) -> Iterator[Event]:
        try:
            yield from super().__iter__()
        except DivergedError:  # it would again
            forget(self.folder)
            raise

    # --- the inside ------------------------------------------------------------------------------

    def _open(self) -> None:
        classifier = self._classifier()
        set_threads(_threads(classifier))
        given, labels = self._read(classifier)
        history = getattr(classifier, "history_", [])
        self.key = self._key(classifier, given.rows, labels, len(history))
        if history and not self.again and history[-1]["lesson"] == self.key:
            self.classifier, self.finished = classifier, True
            forget(self.folder)
            return
        begun = self._begun([entry["lesson"] for entry in history])
        self.run = self._prepare(classifier, given, labels)
        if begun is not None and self._resume("add --discard to learn the lesson from the start"):
            self.resumed = True
            self._compare(begun.made)
        here = environment.describe(self.run.learner.device)
        made = {k: here[k] for k in environment.DECISIVE}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        note = Note(key=self.key, about=self.about, begun=begun.begun if begun else now, made=made)
        self._write(NOTE, note.model_dump_json(indent=1).encode() + b"\n")

    def _build(self) -> Run:
        classifier = self._classifier()
        return self._prepare(classifier, *self._read(classifier))

    def _record(self, event: Event) -> None:
        """Nothing: a lesson's accuracies are in the model that it ends with."""

    def _finish(self) -> None:
        self.lesson.end()
        self.classifier._learned(self.lesson, self.columns, self.key)
        self.lease.check()
        saved.write(self.folder, self.classifier, memory=True)
        forget(self.folder)
        self.finished = True

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
    ) -> Run:
        rows = given.rows if given.table is None else given.table  # which are read again for free
        self.classifier = classifier
        self.lesson, self.columns = classifier._lesson(rows, labels, self.classes)
        return self.lesson.run


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


def _threads(classifier: IncrementalClassifier) -> int | None:
    """As many as were asked for."""
    course = getattr(classifier, "course_", None)
    wanted = course.config.compute.threads if course is not None else None
    return wanted or (classifier.settings or {}).get("compute", {}).get("threads")
