"""How much a run has to do: training steps and images to test, known before it begins.

Knows sizes. Knows nothing of nets, so that a plan can be costed before anything is built.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..data.tasks import Scenario
from ..randomness import Cursor
from ..settings.sections import Training
from .method import Method, Stage
from .terms import BACKWARD

TRAINED = 1 + BACKWARD  # passes forward that a trained image costs: its own, and one backward


def epochs(stage: Stage, training: Training) -> int:
    """How many a stage takes."""
    return training.epochs if stage.epochs is None else stage.epochs


@dataclass(frozen=True)
class Workload:
    """The sizes of a run; rows that a stage chooses from the memory are estimated."""

    per_epoch: tuple[tuple[int, ...], ...]  # steps in an epoch, of each task and stage
    epochs: tuple[int, ...]  # of each stage
    tests: tuple[int, ...]  # images to test after each task
    batch_size: int

    @classmethod
    def of(cls, method: Method, scenario: Scenario, training: Training, room: int) -> Workload:
        """`room` is the memory's capacity."""
        size = training.batch_size
        per_epoch = tuple(
            tuple(-(-stage.rows.expected(task, room) // size) for stage in method.stages)
            for task in scenario.tasks
        )
        tested = [len(group.test) for group in scenario.groups]
        tests = tuple(sum(tested[: task.index + 1]) for task in scenario.tasks)
        return cls(per_epoch, tuple(epochs(s, training) for s in method.stages), tests, size)

    def steps(self, cursor: Cursor | None = None) -> int:
        """Training steps before a place in the run, or in all."""
        count = 0
        for task, stages in enumerate(self.per_epoch):
            for stage, per_epoch in enumerate(stages):
                whole = self.epochs[stage] * per_epoch
                if cursor is None or (task, stage) < cursor[:2]:
                    count += whole
                elif (task, stage) == cursor[:2]:
                    count += min(cursor.epoch * per_epoch + cursor.step, whole)
        return count

    def trained(self, cursor: Cursor | None = None) -> int:
        """Images of the stream, as often as they are trained on."""
        return self.steps(cursor) * self.batch_size

    def tested(self, cursor: Cursor | None = None) -> int:
        """Images tested after the tasks before a place in the run, or after all."""
        return sum(self.tests if cursor is None else self.tests[: cursor.task])

    def passes(self, cursor: Cursor | None = None) -> int:
        """Images passed forward through the net; replayed ones, which vary, are not counted."""
        return TRAINED * self.trained(cursor) + self.tested(cursor)
