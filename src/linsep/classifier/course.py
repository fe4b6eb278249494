"""A classifier is a run whose scenario is open-ended: `next_run` is the run of one more task.

Nobody needs to know how many tasks will follow. If the classes are announced, the head has a column
for each of them from the start, and learning a scenario's tasks one by one gives the numbers of
`linsep run`. If not, the head grows with every task.

A backbone that never learns turns images into features once, and a head learns on these. The
features stand in for the images from then on, as rows of a table (`Columns`): they can be neither
cropped nor flipped, so nothing is augmented.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..data.augment import Augment, Columns, as_bytes
from ..data.images import Images
from ..data.objects import Form, InputError
from ..data.scenarios import Opened
from ..data.tasks import Group, Scenario, Task
from ..errors import ConfigError, StateError
from ..learning.learner import Learner, grow
from ..learning.metrics import accuracy
from ..learning.model import Model, Predictor
from ..learning.run import Run
from ..nets.net import Net, Shape
from ..prepare import Prepared
from ..randomness import Cursor
from ..resolve import without_weights
from ..settings import sections
from ..settings.config import Config
from ..storage.manifest import Params
from .account import held_out, report

WIDE = 64  # features whose length the usual learning rate suits


@dataclass
class Frozen:
    """A backbone that does not learn, and the shape of the images that it reads."""

    model: Model
    shape: Shape

    @classmethod
    def of(cls, learner: Learner) -> Frozen:
        spec = learner.spec
        net = Net(learner.net.backbone, nn.Identity()).requires_grad_(False)
        how = learner.augment, learner.evaluation, learner.compute, spec
        return cls(Model(net, Predictor(spec), *how), spec.raw)

    def __call__(self, rows: Tensor) -> Tensor:
        """Images (n, c, h, w) as rows of features, (n, 1, 1, 4d) bytes."""
        return as_bytes(self.model.embed(unlabelled(rows)).cpu().numpy())


@dataclass
class Course:
    """Everything that was learned so far, and how it is learned."""

    config: Config  # resolved
    augment: Augment
    shape: Shape  # of a stored image
    params: Params = field(default_factory=Params)
    labels: list[Any] = field(default_factory=list)  # of the head's columns
    announced: bool = False  # whether all labels were known beforehand
    groups: tuple[Group, ...] = ()  # of each task: its classes, and images that it never saw
    history: list[dict[str, Any]] = field(default_factory=list)  # a report of each task
    key: str | None = None  # of the last task, if it was learned in a folder
    learner: Learner | None = None
    lacking: bool = False  # saved without its memory: it may predict but not learn
    module: nn.Module | None = None  # the backbone, if it was handed in
    handed_in: str | None = None  # the class of a module that was
    front: Frozen | None = None  # a backbone that does not learn; the images are its features
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
        if self.front is None and isinstance(self.augment, Columns):
            return Form(table=True)
        channels, height, width = self.reads
        return Form(channels, height if height == width else None, False)

    @property
    def reads(self) -> Shape:
        return self.shape if self.front is None else self.front.shape

    def as_learned(self, rows: Tensor) -> Tensor:
        """Rows as they are learned: images, or their features if the backbone is frozen."""
        return rows if self.front is None else self.front(rows)

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
        """This course with one more task behind it; without a memory its test images go too."""
        when = datetime.now(UTC).isoformat(timespec="seconds")
        history = [*self.history, {"when": when} | report(run, labels)]
        groups = run.scenario.groups
        if not self.params.memory:
            groups = tuple(Group(group.classes, self.nothing()) for group in groups)
        now = replace(self, labels=labels, groups=groups, history=history, key=key)
        now.learner = run.learner
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
        nothing = self.nothing()
        tasks = Task(0, (0,), (), nothing), Task(1, (1,), (0,), nothing)
        scenario = self._scenario(tasks, (Group((0,), nothing),), columns)
        return Prepared(self.config, Opened(scenario, self.augment, ""), "", self.module)

    def nothing(self) -> Images:
        return Images.of(torch.zeros(0, *self.shape, dtype=torch.uint8), torch.zeros(0))

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


def unlabelled(rows: Tensor) -> Images:
    """Rows whose labels nobody reads."""
    return Images.of(rows, torch.zeros(len(rows), dtype=torch.int64))


# --- a backbone that does not learn --------------------------------------------------------------


def backbone_only(
    config: Config, augment: Augment, shape: Shape, module: nn.Module | None
) -> Course:
    """A course for the sake of its backbone: nothing that a method would keep is beside it."""
    plain = {"method": "ft", "options": {}, "memory": sections.Memory(size=0)}
    return Course(config.model_copy(update=plain), augment, shape, module=module)


def head_only(config: Config, augment: Augment, front: Frozen, **more: Any) -> Course:
    """A course whose images are features already; what the backbone started from is behind it."""
    settled = config.model_copy(update={"net": without_weights(config.net)})
    shape = (1, 1, 4 * len(augment.mean))
    return Course(settled, augment, shape, module=nn.Flatten(), front=front, **more)


def centred(features: Tensor) -> Columns:
    """Features by their own means and one deviation for all of them.

    A feature that hardly varies among the first classes may vary much among later ones: divided by
    a deviation of its own it would outweigh all the others. The steps of a head grow with the
    squared length of a row, so more features than `WIDE` are scaled to the length of so many;
    otherwise the usual learning rate diverges on the 1280 features of a pretrained net.
    """
    rows = features.view(torch.float32).view(len(features), -1).numpy()
    each = Columns.of(rows)
    common = float(np.sqrt(np.mean(np.square(rows.std(axis=0, dtype=np.float64))))) or 1.0
    scale = common * max(1.0, rows.shape[1] / WIDE) ** 0.5
    return Columns(each.size, each.mean, (scale,) * rows.shape[1], flip=False)
