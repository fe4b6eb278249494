"""What a run costs: images through the nets, bytes and numbers kept, known before it begins.

Counted is what training does: its steps, and what a method passes through the net between them to
choose exemplars, fit a predictor or weigh parameters. Tests are not counted. All follows from what
terms, rules, stages and memories declare, and no image is passed. docs/cost.md defines the figures.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import lcm
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.images import Images
from ..data.tasks import Scenario, Task
from ..nets.net import Output
from .learner import Learner
from .method import BoundStage, BoundTerm
from .run import batches
from .stand_in import StandIn
from .terms import Passes
from .updates import Rule
from .workload import TRAINED, epochs

COLUMNS = {"x": "images", "y": "labels"}  # of a memory, as they are called here


@dataclass(frozen=True)
class Cost:
    """The cost of a run: images that pass, bytes and numbers that are kept."""

    step: Passes  # images of a whole step in the last task
    run: Passes  # images over all steps and between them
    finetuning: float  # passes forward that fine-tuning would make of the same stream
    kept: Mapping[str, int]  # bytes from task to task beside the net: images, logits, frozen ...
    parameters: int  # of the net and the frozen net, and numbers that terms keep

    @property
    def passes(self) -> float:
        """As a multiple of fine-tuning's."""
        return self.run.total / self.finetuning

    def facts(self) -> dict[str, Any]:
        """As cost.json has it."""
        return {
            "passes": self.passes,
            "images": self.run.total,
            "bytes": sum(self.kept.values()),
            "parameters": self.parameters,
            "step": asdict(self.step),
            "run": asdict(self.run),
            "kept": dict(self.kept),
        }


def cost_of(learner: Learner, scenario: Scenario, given: Scenario) -> Cost:
    """The cost of learning a scenario, which the method's curriculum made of the given one.

    Rows of earlier tasks that the last one has again are counted as kept: joint training's.
    """
    rehearsal = _Rehearsal(learner)
    for task in scenario.tasks:
        rehearsal.learn(task)
    stream = learner.training.epochs * sum(len(task.train) for task in given.tasks)
    again = len(scenario.tasks[-1].train) - len(given.tasks[-1].train)
    kept = dict(_kept(learner))
    kept["images"] += again * int(np.prod(scenario.shape))
    nets = [learner.net, *filter(None, [learner.teacher, _average(learner)])]
    parameters = sum(p.numel() for net in nets for p in net.parameters())
    parameters += sum(value.numel() for value in _terms_state(learner))
    return Cost(rehearsal.step, rehearsal.run, TRAINED * stream, kept, parameters)


class _Rehearsal:
    """A run with blank images: the memory and the stages choose rows as they will, by labels."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.memory = learner, learner.memory.blank()
        self.offered = self.drawn = 0  # rows, by the stream so far; rows of a draw now
        self.step = self.run = Passes()

    def learn(self, task: Task) -> None:
        learner, stages = self.learner, self.learner.method.stages
        blank = replace(task, train=_blank(task.train))
        for stage in stages:
            if stage.settled:
                self._settle(blank)
            self.run += Passes(forward=stage.looks(task))
            rows = stage.rows.choose(blank, self.memory, learner.choosing(task))
            step = self._train(replace(learner.bind(task, stage), rows=rows))
            if stage is stages[0]:
                self.step = step
        if not any(stage.settled for stage in stages):
            self._settle(blank)
        past = learner.previous is not None
        self.run += learner.predictor.passes(task, len(self.memory), past)
        if "features" in learner.memory.columns:  # as the memory refreshes them
            self.run += Passes(forward=len(self.memory))
        for term in learner.terms.values():
            self.run += term.needs(task).at_end

    def _train(self, at: BoundStage) -> Passes:
        """Count a stage; return what a whole step of it passes, on average."""
        training, rule = self.learner.training, self.learner.method.rule
        sizes = list(map(len, batches(torch.arange(len(at.rows)), training.batch_size)))
        periods = {bound.needs.every for bound in at.terms.values()}
        alike = Counter[_Place]()
        left = epochs(at.stage, training) if len(at.rows) else 0
        while left:
            settled = not at.stage.observes or self.drawn == self.learner.draw_rows
            times = left if settled else 1  # epochs that are alike from here on
            for number, rows in enumerate(sizes):
                due = frozenset(every for every in periods if not number % every)
                alike[rows, self.drawn, due] += times
                if at.stage.observes:
                    self._offer(rows * times)
            left -= times
        learns = self._reaches_backbone(at)
        for place, steps in alike.items():
            self.run += step_passes(at.terms, rule, learns, *place) * steps
        rows = min(training.batch_size, len(at.rows))
        return sum(
            (
                step_passes(at.terms, rule, learns, rows, self.drawn, due) * float(share)
                for due, share in shares(periods).items()
            ),
            Passes(),
        )

    def _reaches_backbone(self, at: BoundStage) -> bool:
        inside = set(map(id, self.learner.net.backbone.parameters()))
        return any(id(parameter) in inside for parameter in at.parameters)

    def _offer(self, rows: int) -> None:
        self.offered += rows
        if (held := self.memory.held(self.offered)) != self.memory.size:
            self.memory.size = held
            self._count_draw()

    def _settle(self, task: Task) -> None:
        self.memory.consolidate(task, self._look, self.learner.choosing(task))
        self._count_draw()

    def _count_draw(self) -> None:
        rng, some = np.random.default_rng(0), len(self.memory) > 0
        self.drawn = len(self.memory.sample(self.learner.draw_rows, rng)) if some else 0

    def _look(self, images: Images) -> Output:
        """What a net might say of the images, which are counted."""
        self.run += Passes(forward=len(images))
        logits = torch.zeros(len(images), self.memory.classes)
        return Output(logits, logits[:, :1], {})


_Due = frozenset[int]  # the periods, in steps, of the terms that work in a step
_Place = tuple[int, int, _Due]  # rows of the stream and of a draw, and which terms work


def shares(periods: Collection[int]) -> dict[_Due, Fraction]:
    """The share of steps in which some periods are due and the others are not.

    By inclusion and exclusion, so periods may be long: of 2 and 3, both are due in 1/6 of the
    steps, and 2 alone in 1/2 - 1/6.
    """
    several = [
        frozenset(some) for n in range(len(periods) + 1) for some in combinations(periods, n)
    ]
    exact = {
        due: sum(Fraction((-1) ** len(more - due), lcm(*more)) for more in several if due <= more)
        for due in several
    }
    return {due: Fraction(share) for due, share in exact.items() if share}


def step_passes(
    terms: Mapping[str, BoundTerm], rule: Rule, learns: bool, rows: int, drawn: int, due: _Due
) -> Passes:
    """The images that pass in one step, as its terms and the rule declare it."""
    working = {name: bound for name, bound in terms.items() if bound.needs.every in due}
    streamed = any(b.needs.frozen_rows in ("both", "stream") for b in working.values())
    found = Passes(forward=rows, frozen=rows * streamed)
    for names in rule.rounds(list(working)):
        now = [working[name] for name in names]
        past = {b.draw for b in now if b.needs.frozen_rows in ("both", "replay")} - {None}
        found += Passes(
            forward=drawn * len({bound.draw for bound in now if bound.draw}),
            frozen=drawn * len(past),
        )
        for several in rule.together(names):
            back = [working[n] for n in several if working[n].needs.through]
            found += Passes(backward=learns * _rows(back, rows, drawn))
        for bound in now:
            found += bound.needs.passes * _rows([bound], rows, drawn)
    return found


def _rows(bound: Iterable[BoundTerm], rows: int, drawn: int) -> int:
    """How many rows some terms look at together."""
    several = list(bound)
    streamed = any(one.needs.rows != "replay" for one in several)
    return rows * streamed + drawn * len(_draws(several))


def _draws(bound: Iterable[BoundTerm]) -> set[str]:
    return {one.draw for one in bound if one.draw and one.needs.rows != "stream"}


def _blank(images: Images) -> Images:
    return Images.of(
        torch.zeros(1, 1, 1, 1, dtype=torch.uint8).expand(len(images), 1, 1, 1), images.y
    )


def _kept(learner: Learner) -> Iterator[tuple[str, int]]:
    """What is kept from task to task, and its bytes."""
    for name, column in learner.memory.columns.items():
        yield COLUMNS.get(name, name), column.nbytes
    frozen = learner.teacher.state_dict().values() if learner.teacher is not None else ()
    yield "frozen", sum(value.nbytes for value in frozen)
    average = _average(learner)
    averaged = average.state_dict().values() if average is not None else ()
    yield "average", sum(value.nbytes for value in averaged)
    yield "terms", sum(value.nbytes for value in _terms_state(learner))
    yield "predictor", sum(value.nbytes for value in learner.predictor.state_dict().values())


def _average(learner: Learner) -> StandIn | None:
    """The averaged weights; a copy that only has other statistics is made from the net again."""
    return learner.stand_in if learner.method.average is not None else None


def _terms_state(learner: Learner) -> list[Tensor]:
    lasting = [term.state_dict() for term in learner.terms.values() if term.lasting]
    return [value for state in lasting for value in state.values()]
