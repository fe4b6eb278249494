"""A classifier is a run whose scenario is open-ended: `next_run` is the run of one more task.

Nobody needs to know how many tasks will follow. If the classes are announced, the head has a column
for each of them from the start, and learning a scenario's tasks one by one gives the numbers of
`linsep run`. If not, the head grows with every task.

A backbone that never learns turns images into features once. These are learned, tested and kept in
the images' place; they can be neither cropped nor flipped, so nothing is augmented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..data.augment import Augment, Columns
from ..data.images import Images, Shape, dtype_of
from ..data.objects import Form, InputError
from ..data.scenarios import Opened
from ..data.tasks import Group, Scenario, Task
from ..errors import ConfigError, StateError
from ..learning.features import features, kept_features
from ..learning.learner import Learner
from ..learning.metrics import accuracy
from ..learning.resizing import grow
from ..learning.run import Run
from ..nets.frozen import Centring
from ..prepare import Prepared, Progress
from ..randomness import Cursor
from ..resolve import without_weights
from ..settings.config import Config
from ..storage.manifest import Params
from .account import held_out, report


@dataclass
class Course:
    """Everything that was learned so far, and how it is learned."""

    config: Config  # resolved
    augment: Augment
    shape: Shape  # of an image or of a row of a table, as it is read
    params: Params = field(default_factory=Params)
    labels: list[Any] = field(default_factory=list)  # of the head's columns
    announced: bool = False  # whether all labels were known beforehand
    groups: tuple[Group, ...] = ()  # of each task: its classes, and images that it never saw
    history: list[dict[str, Any]] = field(default_factory=list)  # a report of each task
    changes: list[dict[str, Any]] = field(default_factory=list)  # forgotten, renamed, ...
    key: str | None = None  # of the last task, if it was learned in a folder
    learner: Learner | None = None
    lacking: bool = False  # saved without its memory: it may predict but not learn
    module: nn.Module | None = None  # the backbone, if it was handed in
    handed_in: str | None = None  # the class of a module that was
    centring: Centring | None = None  # of a frozen backbone's features, as the first lesson has it
    feature_names: list[str] | None = None  # of a table

    @property
    def seen(self) -> tuple[int, ...]:
        """The columns that were learned, in the order of their tasks."""
        return tuple(dict.fromkeys(c for group in self.groups for c in group.classes))

    @property
    def classes(self) -> NDArray[Any]:
        """The labels that were learned, sorted."""
        return np.unique(np.asarray([self.labels[c] for c in self.seen]))

    @property
    def form(self) -> Form:
        """What the classifier is given."""
        if isinstance(self.augment, Columns):
            return Form(table=True)
        channels, height, width = self.shape
        return Form(channels, height if height == width else None, False)

    @property
    def keeps(self) -> bool:
        """Whether rows outlive their lesson: for replay, or to test on."""
        if self.params.memory is None:
            return self.prepared(2).method.trains
        return self.params.memory > 0

    @property
    def frozen(self) -> bool:
        """Whether the backbone does not learn, and rows are the features that it makes of images"""
        return self.prepared(2).frozen

    def as_learned(self, rows: Tensor, progress: Progress | None = None) -> Tensor:
        """Rows as they are learned: images, or their features if the backbone is frozen.

        With a `progress`, which counts them, features are kept on disk and found there.
        """
        if not self.frozen:
            return rows
        model, images = self.learner or self.learner_for(2), unlabelled(rows)
        if progress is None:
            return features(model, images)
        return kept_features(model, images, progress).pixels()

    def begun(self, rows: Tensor) -> Course:
        """This course as it is when its first lesson has these rows.

        What is trained learns from rows that are centred as these are. Sums take rows as they are,
        so that the same rows give the same rule however they are divided into lessons.
        """
        if not self.prepared(2).method.trains:
            table = isinstance(self.augment, Columns)
            return replace(self, augment=Columns.plain(rows.shape[1])) if table else self
        return replace(self, centring=Centring.of(rows)) if self.frozen else self

    def next_run(self, rows: Tensor, labels: NDArray[Any]) -> tuple[Run, list[Any]]:
        """The run of one more task, not trained yet, and the label of each column of its head.

        This course stays as it is.
        """
        columns = self._columns_with(labels)
        place = {label: column for column, label in enumerate(columns)}
        images = Images.of(rows, torch.tensor([place[label] for label in labels.tolist()]))
        seed = [self.config.seed, len(self.groups)]
        train, test = held_out(images, self.params.test_share, seed)
        return self.run_for(train, test, len(columns)), columns

    def run_for(self, train: Images, test: Images, columns: int) -> Run:
        """The run of one more task; its labels are columns of a head that has so many by then."""
        if self.lacking:
            raise StateError(
                "this copy of the model has no memory, so that learning more would make it forget; "
                "use the whole model, or ask for an empty memory (empty_memory=True, "
                "--empty-memory)"
            )
        if len(train) < 2:
            raise InputError(
                f"a lesson needs at least 2 rows to train on; found {len(train)} sample"
            )
        rows = self.config.memory.size
        if 0 < rows < columns:
            raise ConfigError(
                f"memory: {rows} samples cannot cover {columns} classes; "
                f"start with memory={columns} or more"
            )
        place, seen = len(self.groups), self.seen
        present = tuple(sorted(set(train.y.tolist())))
        new = tuple(c for c in present if c not in seen)
        earlier = (Task(i, (), (), self.nothing()) for i in range(place))
        tasks = (*earlier, Task(place, new, seen, train))
        groups = (*self.groups, Group(present, test))
        run = Run(self._scenario(tasks, groups, columns), self.learner_for(columns))
        run.cursor = Cursor(place)
        for i, group in enumerate(self.groups):  # what is known before this task
            scores = run.learner.predict(group.test)
            run.class_il[place - 1, i] = accuracy(scores, group.test.y)
        return run

    def learned(self, run: Run, labels: list[Any], key: str | None = None) -> Course:
        """This course with one more task behind it.

        Without a memory its test images go too, once they were added to sums that decide.
        """
        when = datetime.now(UTC).isoformat(timespec="seconds")
        history = [*self.history, {"when": when} | report(run, labels)]
        groups = run.scenario.groups
        if not self.keeps:
            held = replace(run.scenario.tasks[-1], train=groups[-1].test)
            learner = run.learner
            learner.predictor.add(learner.context(held, learner.eval_net))
            none = _empty(learner.spec.raw)
            groups = tuple(Group(group.classes, none) for group in groups)
        now = replace(self, labels=labels, groups=groups, history=history, key=key)
        now.learner = run.learner
        if now.frozen or now.config.net.weights:  # what the net started from is behind it
            now.config = self.config.model_copy(update={"net": without_weights(self.config.net)})
        return now

    def learner_for(self, columns: int) -> Learner:
        """Another learner, with so many columns, that knows what this course has taught.

        The course keeps its own, so that a task that fails half-way has changed nothing.
        """
        fresh = self.prepared(columns).learner(growing=not self.announced)
        if self.learner is not None and self.learner.spec.classes == columns:
            fresh.load_state_dict(self.learner.state_dict())
        elif self.learner is not None:
            grow(self.learner, fresh)
        return fresh

    def prepared(self, columns: int) -> Prepared:
        """A run of two empty tasks, used to build a learner with all that a method may need."""
        nothing = _empty(self.shape)
        tasks = Task(0, (0,), (), nothing), Task(1, (1,), (0,), nothing)
        scenario = self._scenario(tasks, (Group((0,), nothing),), columns)
        return Prepared(
            self.config, Opened(scenario, self.augment, ""), "", self.module, self.centring
        )

    def nothing(self) -> Images:
        """No rows of those that are learned."""
        return _empty(self.shape if self.learner is None else self.learner.spec.raw)

    def _scenario(
        self, tasks: tuple[Task, ...], groups: tuple[Group, ...], columns: int
    ) -> Scenario:
        return Scenario("classifier", columns, tasks, groups, ("",) * columns)

    def _columns_with(self, labels: NDArray[Any]) -> list[Any]:
        """The label of each column once these labels are learned, those that are new last."""
        known, found = self.labels, np.unique(labels).tolist()
        if known and isinstance(known[0], str) != isinstance(found[0], str):
            raise InputError(
                f"y has labels like {found[0]!r}, and the classifier's are like {known[0]!r}: "
                "they should be all text or all numbers"
            )
        new = [label for label in found if label not in known]
        if new and self.announced:
            raise ConfigError(f"the class {new[0]!r} was not announced: {known}")
        return known + new

    def __reduce__(self) -> tuple[Any, ...]:
        known = None if self.learner is None else self.learner.state_dict()
        columns = 0 if self.learner is None else self.learner.spec.classes
        return _revived, (vars(self) | {"learner": None}, columns, known)


def _revived(fields: Mapping[str, Any], columns: int, known: Mapping[str, Any] | None) -> Course:
    course = Course(**fields)
    if known is not None:
        course.learner = course.learner_for(columns)
        course.learner.load_state_dict(known)
    return course


def _empty(shape: Shape) -> Images:
    return Images.of(torch.zeros(0, *shape, dtype=dtype_of(shape)), torch.zeros(0))


def check_names(labels: Sequence[Any]) -> None:
    """Refuse a class that could not be saved, before anything is learned of it."""
    for label in labels:
        if isinstance(label, str) and any("\ud800" <= letter <= "\udfff" for letter in label):
            raise StateError(f"the class name {label!r} is not UTF-8; rename it")


def unlabelled(rows: Tensor) -> Images:
    """Rows whose labels nobody reads."""
    return Images.of(rows, torch.zeros(len(rows), dtype=torch.int64))
