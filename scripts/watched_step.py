"""What one training step of a method does, found by watching it on a toy scenario.

Weights, replay batches, stages, rules and predictors are what the method declares. What each term
reads of its batches is noted while the terms give their losses in the last task, so nothing here is
typed by hand. Knows methods and learners. Draws nothing: that is step_figure.py's.
"""

import copy
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from linsep import testing
from linsep.compare.variants import title
from linsep.data.images import Images
from linsep.data.tasks import Task
from linsep.learning.learner import Learner
from linsep.learning.memory import Memory
from linsep.learning.method import BoundStage, Stage, nothing_to_do
from linsep.learning.run import Run
from linsep.learning.terms import Pass, Step, Term
from linsep.methods import assemble
from linsep.nets.heads import LinearHead
from linsep.settings import sections

BATCH, DRAW = sections.Training().batch_size, sections.Memory().replay_batch_size
CAPACITY = sections.Memory().size
# What a term can read of a step, and how it is called; in the order in which it is shown.
WORDS = {
    ("out", "logits"): "logits", ("out", "features"): "features", ("out", "taps"): "features",
    ("batch", "y"): "labels", ("batch", "logits"): "stored logits",
    ("batch", "features"): "stored features", ("before", "logits"): "old logits",
    ("before", "features"): "old features", ("before", "taps"): "old features",
    ("batch", "x"): "images",
}  # fmt: skip
OLD = {"old logits", "old features"}
CARRIED = {"labels": "label", "stored logits": "logits", "stored features": "features"}
COLUMNS = {"place": "image", "y": "label", "logits": "logits", "features": "features"}
Path = tuple[str, ...]


@dataclass(frozen=True)
class Lane:
    """A batch that passes the net in a step."""

    draw: str | None  # its name; None: the batch of the stage
    images: int
    carries: tuple[str, ...]  # what terms read of its samples
    frozen: bool  # whether it passes the previous task's net too


@dataclass(frozen=True)
class Loss:
    """A weighted_term: which batches it reads, and what of them."""

    name: str
    weight: float
    reads: Mapping[str | None, tuple[str, ...]]  # of each batch that it looks at
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Panel:
    """A stage of a task."""

    name: str
    epochs: int | None
    sources: frozenset[str]  # of the stage's batch: "stream", "memory"
    lanes: tuple[Lane, ...]
    losses: tuple[Loss, ...]
    update: str
    begins: tuple[str, ...]


@dataclass(frozen=True)
class Kept:
    """The memory: how it chooses samples, what it stores with them, and when."""

    policy: str
    columns: tuple[str, ...]
    filled: str


@dataclass(frozen=True)
class Facts:
    method: str
    data: str  # where the current-task batches come from
    later: bool  # whether there are tasks before
    memory: Kept | None
    panels: tuple[Panel, ...]
    predicts: tuple[str, ...]

    @property
    def title(self) -> str:
        return title(self.method)


class Watched:
    """A step, or a part of one, that notes what is read of it."""

    def __init__(self, thing: object, noted: set[Path], path: Path = ()) -> None:
        self._thing, self._noted, self._path = thing, noted, path

    def __getattr__(self, name: str) -> Any:
        value, path = getattr(self._thing, name), (*self._path, name)
        if value is None:
            return None
        self._noted.add(path)
        parts = ("stream", "replay", "batch", "out", "before")
        return Watched(value, self._noted, path) if name in parts else value


def watch(name: str) -> Facts:
    """The facts of a method, 'derpp+bfp', with its defaults."""
    method = assemble(name, {})
    run = testing.toy_run(method)
    while run.cursor.task < len(run.scenario.tasks) - 1:
        next(iter(run))
    next(iter(run))
    learner, task = run.learner, run.scenario.tasks[-1]
    panels = tuple(_panel(run, task, stage) for stage in method.stages)
    more = len(task.train) > len(testing.toy_scenario().tasks[-1].train)
    data = "all tasks at once" if more else "the task's images"
    later = bool(task.earlier)
    return Facts(name, data, later, _kept(learner), panels, tuple(_predicts(learner)))


def _panel(run: Run, task: Task, stage: Stage) -> Panel:
    learner = run.learner
    at = learner.bind(task, stage)
    losses = tuple(_losses(run, at))
    batches = list(dict.fromkeys([None, *at.replay_names.values()]))
    lanes = [_lane(one, losses) for one in batches]
    first, *others = lanes
    lanes = [first, *sorted(others, key=lambda lane: not lane.frozen)]  # old net's side by side
    update = f"A step {learner.method.rule.line} moves the {' and '.join(stage.trains)}."
    begins = ["The network starts anew."] if stage.reinitialise else []
    if stage.begin is not nothing_to_do and stage.begin.__doc__:
        begins.append(_first_line(stage.begin))
    sources = _sources(learner, task, stage)
    return Panel(stage.name, stage.epochs, sources, tuple(lanes), losses, update, tuple(begins))


def _losses(run: Run, at: BoundStage) -> list[Loss]:
    """Every term's loss on all samples of the stage, watched."""
    learner = run.learner
    learner.net.train_only(at.stage.trains)
    batch = learner.batch(at.rows, "augment", run.cursor, augmented=at.stage.augmented)
    teacher = learner.previous_net if at.task.earlier else None
    stream = Pass(batch, learner.net, teacher)
    drawn = learner.replay_batches(at, run.cursor)
    passes = {name: Pass(draw, learner.net, teacher) for name, draw in drawn.items()}
    losses = []
    for name, term in at.terms.items():
        noted = set[Path]()
        step = Step(at.task, learner.net, stream, passes.get(at.replay_names.get(name, "")))
        again = _passed(run, term, cast(Step, Watched(step, noted)))
        ended = _passed(run, copy.deepcopy(term).end_task, learner.context(at.task))
        rows = len((step.replay or stream).batch.y)
        notes = tuple(_notes(term, noted, learner.spec.parameters, again / rows, ended))
        reads = _reads(noted, at.replay_names.get(name))
        looked_back = any(OLD & {*words} for words in reads.values())
        assert looked_back == ("before" in term.needs(at.task)), f"{name} is not as it declares"
        losses.append(Loss(name, learner.weights[name], reads, notes))
    return losses


def _passed(run: Run, call: Callable[..., object], given: object) -> int:
    """How many images a call passes through the net."""
    before = run.meter.run["forward"]
    with run.meter.counting():
        call(given)
    return run.meter.run["forward"] - before


def _reads(noted: Collection[Path], draw: str | None) -> dict[str | None, tuple[str, ...]]:
    """What was read of the current-task batch and of the term's replay batch."""
    reads = {}
    for part, lane in (("stream", None), ("replay", draw)):
        words = [word for path, word in WORDS.items() if (part, *path) in noted]
        if (part, "out") in noted:
            reads[lane] = tuple(dict.fromkeys(words))
    return reads


def _notes(
    term: Term, noted: Collection[Path], parameters: int, again: float, ended: int
) -> Iterator[str]:
    if ("net",) in noted:
        yield "reads the weights"
    if again:
        yield f"passes its batch {again:g} more times, forward and back"
    if numbers := sum(value.numel() for value in term.buffers()) // parameters:
        yield f"keeps {numbers} numbers for each weight"
    if ended:
        yield "passes images once more when the task ends"
    if term.optimizer() is not None:
        yield "trains a map of its own"


def _lane(draw: str | None, losses: Collection[Loss]) -> Lane:
    read = {word for loss in losses for word in loss.reads.get(draw, ())}
    carries = ("image", *(short for word, short in CARRIED.items() if word in read))
    return Lane(draw, BATCH if draw is None else DRAW, carries, bool(OLD & read))


def _sources(learner: Learner, task: Task, stage: Stage) -> frozenset[str]:
    """Where a stage's samples come from: the task's are a copy for it, and stored ones are not."""
    copy = Images.of(task.train.pixels(), task.train.y)
    chosen = stage.rows.choose(replace(task, train=copy), learner.memory, learner.choosing(task))
    sources = [chosen.sources[number] for number in chosen.which.unique().tolist()]
    return frozenset("stream" if source is copy.sources[0] else "memory" for source in sources)


def _kept(learner: Learner) -> Kept | None:
    method, memory = learner.method, learner.memory
    if not method.memories:
        return None
    columns = tuple(word for name, word in COLUMNS.items() if name in memory.columns)
    if type(memory).observe is not Memory.observe:
        filled = "filled from current-task batches after each step"
    elif settled := [stage for stage in method.stages if stage.consolidate_first]:
        place = "training" if settled[0] is method.stages[0] else f"the stage {settled[0].name!r}"
        filled = f"filled from each task before {place}"
    else:
        filled = "filled from each task at its end"
    return Kept(method.memories[0].replace("_", " "), columns, filled)


def _predicts(learner: Learner) -> list[str]:
    said = [_first_line(type(learner.predictor))]
    if not isinstance(learner.net.head, LinearHead):
        said.append(_first_line(type(learner.net.head)))
    if (decay := learner.method.average) is not None:
        said.append(f"The network's weights are averaged over the steps with decay {decay:g}.")
    return said


def _first_line(documented: object) -> str:
    """Of its documentation, in the words of the pages."""
    line = (inspect.getdoc(documented) or "").partition("\n")[0]
    return re.sub(r"\bnet\b", "network", line).replace("`", "")
