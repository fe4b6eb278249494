"""What a classifier has learned, lesson by lesson: the learner and the run of every experiment.

A lesson is a task like those of a scenario, but nobody needs to know how many will follow. If the
classes are announced, the head has a column for each of them from the start, and lessons over a
scenario's tasks give the numbers of a run of that scenario. If not, it grows with every lesson.

Knows columns of the head, not labels. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from ..data.augment import Augment
from ..data.images import Images
from ..data.scenarios import Opened
from ..data.tasks import Group, Scenario, Task
from ..errors import ConfigError, StateError
from ..learning.learner import Learner, grow
from ..learning.run import Event, Run
from ..prepare import Prepared
from ..randomness import Cursor
from ..settings.config import Config
from .features import Frozen
from .inputs import InputError

NAME = "classifier"


@dataclass
class Course:
    """Everything that was learned so far, and how it is learned."""

    config: Config  # resolved
    augment: Augment
    shape: tuple[int, int, int]  # of a stored image
    announced: int | None = None  # columns of the head, if they are known beforehand
    seen: tuple[int, ...] = ()  # columns that were learned, in the order of their lessons
    tested: list[Group] = field(default_factory=list)  # images of each lesson that it never saw
    learner: Learner | None = None
    lacking: bool = False  # its memory: it predicts, and must not learn
    module: nn.Module | None = None  # a backbone that was handed in
    front: Frozen | None = None  # a backbone that does not learn; the images are its features

    @property
    def columns(self) -> int:
        return 0 if self.learner is None else self.learner.spec.classes

    def lesson(self, train: Images, test: Images, columns: int) -> Lesson:
        """The next lesson; its labels are columns of a head that has so many of them by then."""
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
        rows = self.config.memory.rows
        if 0 < rows < columns:
            raise ConfigError(
                f"memory: {rows} rows cannot hold one of each of {columns} classes; "
                f"start with memory={columns} or more"
            )
        return Lesson(self, train, test, columns)

    def learner_for(self, columns: int) -> Learner:
        """Another learner, with so many columns, that knows what this course has taught.

        The course keeps its own, so that a lesson that fails half-way has changed nothing.
        """
        known = self.learner
        if known is not None and self.announced not in (None, columns):
            raise ConfigError(f"{self.announced} classes were announced, and there are {columns}")
        fresh = self.prepared(columns).learner(growing=self.announced is None)
        if known is not None and known.spec.classes == columns:
            fresh.load_state_dict(known.state_dict())
        elif known is not None:
            grow(known, fresh)
        return fresh

    def state_dict(self) -> dict[str, Any]:
        """All of it, as plain values, tensors and the config."""
        whole = {name: value for name, value in vars(self).items() if name != "learner"}
        known = None if self.learner is None else self.learner.state_dict()
        return whole | {"columns": self.columns, "learner": known}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Course:
        course = cls(**{k: v for k, v in state.items() if k not in ("columns", "learner")})
        if state["learner"] is not None:
            course.learner = course.learner_for(state["columns"])
            course.learner.load_state_dict(state["learner"])
        return course

    def __reduce__(self) -> tuple[Any, ...]:
        return Course.from_state, (self.state_dict(),)

    def prepared(self, columns: int) -> Prepared:
        """The run of two empty lessons, a first and a later one: what any lesson needs is there."""
        nothing = self.nothing()
        tasks = Task(0, (0,), (), nothing), Task(1, (1,), (0,), nothing)
        scenario = Scenario(NAME, columns, tasks, (Group((0,), nothing),), ("",) * columns)
        return Prepared(self.config, Opened(scenario, self.augment, ""), "", self.module)

    def forget_tests(self) -> None:
        """Keep the classes of each lesson, and none of the images that it was tested on."""
        self.tested = [Group(group.classes, self.nothing()) for group in self.tested]

    def nothing(self) -> Images:
        return Images.of(torch.zeros(0, *self.shape, dtype=torch.uint8), torch.zeros(0))


class Lesson:
    """One lesson under way: iterate to teach it. Its state is whole at every event."""

    def __init__(self, course: Course, train: Images, test: Images, columns: int) -> None:
        self.course, self.place = course, len(course.tested)
        present = sorted(set(train.y.tolist()))
        new = tuple(c for c in present if c not in course.seen)
        empty = Task(0, (), (), course.nothing())
        task = Task(self.place, new, course.seen, train)
        tasks = (*(replace(empty, index=i) for i in range(self.place)), task)
        groups = (*course.tested, Group(tuple(present), test))
        self.task, self.group = task, groups[-1]
        learner = course.learner_for(columns)
        scenario = Scenario(NAME, columns, tasks, groups, ("",) * columns)
        self.before = self._accuracies(learner, course.tested)
        self.run = Run(scenario, learner)
        self.run.cursor = Cursor(self.place)

    def __iter__(self) -> Iterator[Event]:
        yield from self.run
        self.end()

    def end(self) -> None:
        """Let the course know what the run has learned."""
        self.course.learner = self.run.learner
        self.course.seen = self.task.seen
        self.course.tested.append(self.group)

    @property
    def after(self) -> list[float]:
        """Accuracy on the held-out images of each lesson so far, once this one has ended."""
        return [float(v) for v in self.run.class_il[self.place, : self.place + 1]]

    def state_dict(self) -> dict[str, Any]:
        return self.run.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.run.load_state_dict(state)

    @staticmethod
    def _accuracies(learner: Learner, groups: Sequence[Group]) -> list[float]:
        from ..learning.metrics import accuracy

        return [accuracy(learner.predict(group.test), group.test.y) for group in groups]
