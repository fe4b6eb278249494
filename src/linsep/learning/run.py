"""A run is an iterator of events. The caller owns the loop; there are no callbacks.

Its state is whole at every yield: the cursor already points at what comes next.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor

from ..data.images import Images, join
from ..data.tasks import Scenario, Task
from ..errors import DivergedError, StateError
from ..randomness import Cursor
from .cost import Meter, Workload
from .learner import Learner
from .method import BoundStage
from .metrics import count_confusions, is_right

READ_EVERY = 50  # steps between checks of the losses on an accelerator: reading one waits for it


@dataclass(frozen=True)
class StepEnd:
    """One training step has ended.

    >>> import linsep
    >>> step = next(iter(linsep.build(linsep.Config(scenario="blobs", method="er"))))
    >>> step.cursor.task, sorted(step.losses)
    (0, ['ce'])
    """

    cursor: Cursor  # the step that has ended
    losses: dict[str, Tensor]  # unweighted scalars, left on the device
    images: int  # in the stream's batch


@dataclass(frozen=True)
class EpochEnd:
    """One epoch has ended; the losses are its averages.

    >>> import linsep
    >>> config = linsep.Config(scenario="blobs", method="er", training={"epochs": 1})
    >>> epochs = [e for e in linsep.build(config) if isinstance(e, linsep.EpochEnd)]
    >>> len(epochs), sorted(epochs[-1].losses)
    (5, ['ce', 'replay_ce'])
    """

    cursor: Cursor  # of the epoch; its step is the number of steps it took
    stage: str
    losses: dict[str, float]  # each term's mean over the steps in which it gave a loss


@dataclass(frozen=True)
class TaskEnd:
    """One task has been learned, and every task so far has been tested.

    >>> import linsep
    >>> config = linsep.Config(scenario="blobs", method="er", training={"epochs": 1})
    >>> ends = [e for e in linsep.build(config) if isinstance(e, linsep.TaskEnd)]
    >>> [len(end.class_il) for end in ends]
    [1, 2, 3, 4, 5]
    """

    task: int  # in the order of learning
    class_il: tuple[float, ...]  # accuracy on each group of classes so far, among all seen
    task_il: tuple[float, ...]  # the same, among the classes of the image's own group

    @property
    def group(self) -> int:
        """The newest group of classes; joint training learns all groups in one task."""
        return len(self.class_il) - 1


@dataclass(frozen=True)
class ChunkEnd:
    """A chunk of test images has been tested, after the last epoch of a task."""

    task: int  # in the order of learning
    images: int  # tested so far
    total: int


Recorded = EpochEnd | TaskEnd  # what is written down; the others only tell how far a run is
Event = StepEnd | ChunkEnd | Recorded


class Run:
    """A run that can be iterated over: each event is yielded when it has happened.

    >>> import linsep
    >>> run = linsep.build(linsep.Config(scenario="blobs", method="er", training={"epochs": 1}))
    >>> run
    Run(blobs, task 1 of 5, step 0 of 20)
    >>> events = list(run)
    >>> run.class_il.shape  # after task, on task
    torch.Size([5, 5])
    >>> run
    Run(blobs, finished, step 20 of 20)

    Nothing is written; `linsep.train` keeps a run in a folder.
    """

    def __init__(self, scenario: Scenario, learner: Learner) -> None:
        self.scenario, self.learner = scenario, learner
        self.cursor = Cursor()
        capacity = learner.memory.capacity
        self.workload = Workload.of(learner.method, scenario, learner.training, capacity)
        self.meter = Meter(learner)
        self.tested = 0  # images so far, while a task is tested
        shape = len(scenario.groups), len(scenario.groups)  # after task, on task
        self.class_il = torch.full(shape, torch.nan, dtype=torch.float64)
        self.task_il = torch.full(shape, torch.nan, dtype=torch.float64)
        # Class-IL, after the newest task: how often class (row) was taken for class (column).
        self.confusion = torch.zeros(scenario.num_classes, scenario.num_classes, dtype=torch.int64)
        self._sums: dict[str, Tensor] = {}  # of this epoch's losses so far
        self._counts: dict[str, int] = {}
        self._unread: list[StepEnd] = []  # steps whose losses nobody has read

    @property
    def finished(self) -> bool:
        """Whether the last task has been learned and tested."""
        return self.cursor.task >= len(self.scenario.tasks)

    def __iter__(self) -> Iterator[Event]:
        while not self.finished:
            task = self.scenario.tasks[self.cursor.task]
            if self.cursor == Cursor(self.cursor.task):
                self.learner.begin_task(task)
                self.meter.begin(task)
            while self.cursor.stage < len(self.learner.method.stages):
                if self.cursor == Cursor(self.cursor.task, self.cursor.stage):
                    with self.meter.counting():
                        stage = self.learner.method.stages[self.cursor.stage]
                        self.learner.begin_stage(task, stage)
                yield from self._stage(task)
                self.cursor = Cursor(self.cursor.task, self.cursor.stage + 1)
            # Behind the last stage, epoch 0 means that end_task is still to come, epoch 1 that
            # testing has begun, and step counts the chunks tested.
            if self.cursor.epoch == 0:
                with self.meter.counting():
                    self.learner.end_task(task)
                self.cursor = self.cursor._replace(epoch=1)
            yield from self._evaluate(task.index)
            self.cursor = Cursor(self.cursor.task + 1)
            rows = (m[task.index, : task.index + 1] for m in (self.class_il, self.task_il))
            yield TaskEnd(self.cursor.task - 1, *(tuple(row.tolist()) for row in rows))

    def __repr__(self) -> str:
        done, total = self.steps()
        tasks = len(self.scenario.tasks)
        place = "finished" if self.finished else f"task {self.cursor.task + 1} of {tasks}"
        return f"Run({self.scenario.name}, {place}, step {done} of {total})"

    def _repr_html_(self) -> str:
        done, total = self.steps()
        bar = f'<progress value="{done}" max="{total}"></progress>'
        return f"<div>{bar} {escape(repr(self))}</div>"

    def steps(self) -> tuple[int, int]:
        """How many training steps are done, and how many there will be; stages' data estimated."""
        return self.workload.steps(self.cursor), self.workload.steps()

    def passes(self) -> tuple[int, int]:
        """How many images have passed through the net, and how many will: a share of the work."""
        return self.workload.passes(self.cursor) + self.tested, self.workload.passes()

    def place(self, cursor: Cursor | None = None) -> str:
        """'task 2/5  epoch 3/5', or 'task 2/5  testing 512/4000'; of now, unless a cursor says."""
        cursor = self.cursor if cursor is None else cursor
        task = min(cursor.task, len(self.scenario.tasks) - 1)
        where, stages = f"task {task + 1}/{len(self.scenario.tasks)}", self.learner.method.stages
        if cursor.stage >= len(stages):
            return f"{where}  testing {self.tested}/{self.workload.tests[task]}"
        stage = stages[cursor.stage]
        name = "" if stage.name == "train" else f"{stage.name} "
        of = stage.epochs_of(self.learner.training)
        return f"{where}  {name}epoch {min(cursor.epoch + 1, of)}/{of}"

    def check_losses(self) -> None:
        """Read the losses nobody has read yet; DivergedError if one is not finite."""
        for event in self._unread:
            for name, loss in event.losses.items():
                if not torch.isfinite(loss):
                    task, _, epoch, step = event.cursor
                    place = f"task {task + 1}, epoch {epoch + 1}, step {step + 1}"
                    raise DivergedError(
                        f"the loss {name!r} became {float(loss)} at {place}; "
                        "try a smaller training.lr or a smaller weight"
                    )
        self._unread.clear()

    def _stage(self, task: Task) -> Iterator[Event]:
        learner, stage = self.learner, self.learner.method.stages[self.cursor.stage]
        at = learner.bind(task, stage)
        epochs = stage.epochs_of(learner.training) if len(at.rows) else 0
        while self.cursor.epoch < epochs:
            place = self.cursor[:3]  # task, stage, epoch
            order = torch.from_numpy(
                learner.randomness.at("order", *place).permutation(len(at.rows))
            )
            done = self.cursor.step  # above 0 when resumed inside an epoch
            parts = batches(order, learner.training.batch_size)
            for rows in parts[done:]:
                yield self._step(at, at.rows.take(rows), whole=len(rows) == len(parts[0]))
            ended = self.cursor
            losses = {k: float(v) / self._counts[k] for k, v in self._sums.items()}
            self._sums, self._counts = {}, {}
            self.cursor = ended._replace(epoch=ended.epoch + 1, step=0)
            yield EpochEnd(ended, stage.name, losses)

    def _step(self, at: BoundStage, images: Images, *, whole: bool) -> StepEnd:
        learner, here = self.learner, self.cursor
        at = at.due(here.step)
        last = here[:2] == (len(self.scenario.tasks) - 1, 0)
        if last and not here.step:  # the cost of a step is that of the last task's last epoch
            self.meter.steps.clear()
        batch = learner.batch(images, "augment", here, augmented=at.stage.augmented)
        replay = learner.replay_batches(at, here)
        keyed = learner.randomness.keyed("step", *here, device=learner.device)  # for random layers
        with keyed, self.meter.step(noted=last and whole):
            losses, logits = learner.step(at, batch, replay, here.epoch)
        learner.observe(at, batch, logits, here)
        for name, loss in losses.items():
            self._sums[name] = self._sums[name] + loss if name in self._sums else loss
            self._counts[name] = self._counts.get(name, 0) + 1
        self.cursor = here._replace(step=here.step + 1)
        event = StepEnd(here, losses, len(images))
        self._unread.append(event)
        if learner.device.type == "cpu" or len(self._unread) >= READ_EVERY:
            self.check_losses()
        return event

    def _evaluate(self, now: int) -> Iterator[Event]:
        """Test all groups in one stream of chunks, however small they are.

        Scores are not kept: a run that resumes here makes them again.
        """
        self.confusion.zero_()
        groups = self.scenario.groups[: now + 1]
        images, sizes = join([group.test for group in groups]), [len(g.test) for g in groups]
        numbers = torch.arange(len(groups)).repeat_interleave(torch.tensor(sizes))
        right = torch.zeros(2, len(groups), dtype=torch.float64)  # Class-IL, Task-IL
        self.tested = 0
        rows = torch.arange(len(images)).split(self.learner.evaluation.chunk)
        for chunk, part in enumerate(rows if len(images) else (), start=1):
            asked, which = images.take(part), numbers[part]
            scores = self.learner.predict(asked).cpu()
            count_confusions(self.confusion, scores, asked.y)
            for i in which.unique().tolist():
                own, y = scores[which == i], asked.y[which == i]
                right[0, i] += is_right(own, y).sum()
                right[1, i] += is_right(own, y, groups[i].classes).sum()
            self.tested += len(part)
            if chunk > self.cursor.step:
                self.cursor = self.cursor._replace(step=chunk)
                yield ChunkEnd(self.cursor.task, self.tested, len(images))
        of = torch.tensor(sizes, dtype=torch.float64)
        self.class_il[now, : len(of)], self.task_il[now, : len(of)] = right / of
        self.tested = 0

    def state_dict(self) -> dict[str, Any]:
        """Return everything that a run of the same configuration needs to continue from here."""
        self.check_losses()
        return {
            "seed": self.learner.randomness.seed,
            "cursor": tuple(self.cursor),
            "learner": self.learner.state_dict(),
            "class_il": self.class_il,
            "task_il": self.task_il,
            "confusion": self.confusion,
            "sums": dict(self._sums),
            "counts": dict(self._counts),
            "meter": self.meter.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned, exactly as if the run had not stopped."""
        if state["seed"] != self.learner.randomness.seed:
            raise StateError(
                f"this state was made with seed {state['seed']}, not {self.learner.randomness.seed}"
            )
        self.learner.load_state_dict(state["learner"])
        self.cursor = Cursor(*state["cursor"])
        self.class_il.copy_(state["class_il"])
        self.task_il.copy_(state["task_il"])
        self.confusion.copy_(state["confusion"])
        self._sums = {k: v.to(self.learner.device) for k, v in state["sums"].items()}
        self._counts = dict(state["counts"])
        self.meter.load_state_dict(state["meter"])
        self._unread.clear()


def batches(order: Tensor, size: int) -> Sequence[Tensor]:
    """Of `size` rows, the last one short; a single row left over joins the batch before it.

    BatchNorm cannot normalise one row.
    """
    whole = list(order.split(size))
    if len(whole) > 1 and len(whole[-1]) == 1:
        whole[-2:] = [torch.cat(whole[-2:])]
    return whole
