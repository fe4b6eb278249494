"""The one object that learns: a net, its frozen past, terms, memory and optimisers.

Knows how a step is made: draw, step, observe. Knows no schedule: which batch comes when, and how
often, is the run's business.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.augment import Augment
from ..data.images import Batch, Images
from ..data.tasks import Scenario, Task
from ..errors import ConfigError
from ..nets.net import Backbone, Net, Output, Spec, fits_channels_last, frozen, untracked
from ..settings import sections
from ..streams import Cursor, Streams
from .exemplars import POLICIES
from .memory import BalancedReservoir, Memory
from .method import Method, Stage, Summand
from .optimizers import Optimizers
from .rules import Update
from .terms import Moment, Needs, Pass, Step, Term

SHARED = "replay"  # the name of the draw that all terms share


class Learner:
    def __init__(
        self,
        method: Method,
        backbone: Callable[[], Backbone],
        scenario: Scenario,
        streams: Streams,
        augment: Augment,
        training: sections.Training,
        memory: sections.Memory,
        evaluation: sections.Evaluation,
        compute: sections.Compute,
    ) -> None:
        self.method, self.streams, self.augment = method, streams, augment
        self.training, self.evaluation, self.compute = training, evaluation, compute
        self.draw_rows = memory.draw
        self.shared_draw = memory.draws == "shared"
        self.device = torch.device("cpu" if compute.device == "auto" else compute.device)
        self._backbone = backbone
        with streams.initialising("backbone"):
            body = backbone()
        raw, size = scenario.tasks[0].train.shape, augment.size
        with streams.initialising("head"):
            head = method.head(body.widths["features"], scenario.num_classes)
        learned = sum(p.numel() for part in (body, head) for p in part.parameters())
        shapes = raw, (raw[0], *size), scenario.num_classes, body.widths, learned
        self.spec = Spec(*shapes)
        self.bound: list[tuple[Summand, Term]] = []
        for s in method.summands:
            with streams.initialising(f"term/{s.name}"):
                self.bound.append((s, s.build(self.spec).to(self.device)))
        needs = [term.needs(task) for task in scenario.tasks for _, term in self.bound]
        self.net = self._place(Net(body, head, sorted(_union(n.taps for n in needs))))
        self.teacher = frozen(self.net) if any(n.before for n in needs) else None
        self.predictor = method.predictor(self.spec).to(self.device)
        self.memory = _memory(method, memory, self.spec, _union(n.columns for n in needs))
        self.seen = torch.zeros(self.spec.classes, dtype=torch.bool, device=self.device)
        self.optimizers = Optimizers(method.stages, self.net, self.bound, training)
        if compute.compile:
            self.net.compile()

    # --- a task ----------------------------------------------------------------------------------

    def begin_task(self, task: Task) -> None:
        self.seen[list(task.classes)] = True
        self.optimizers.reset()
        for s, term in self.bound:
            with self.streams.initialising(f"term/{s.name}", task.index):
                term.begin_task(task)

    def begin_stage(self, task: Task, stage: Stage) -> None:
        if stage.settled:
            self._settle(task)
        if stage.fresh:
            self._renew(task)
        with self.streams.initialising(f"stage/{stage.name}", task.index):
            stage.begin(self._moment(task))

    def data(self, task: Task, stage: Stage) -> Images:
        """What a stage trains on: the same whenever it is asked for within the stage."""
        return stage.data(task, self.memory, self._rows(task))

    def end_task(self, task: Task) -> None:
        if not any(stage.settled for stage in self.method.stages):
            self._settle(task)
        if len(self.memory):
            self.predictor.fit(self.memory.images(), self.look)
        for s, term in self.bound:
            with self.streams.initialising(f"term/{s.name}/end", task.index):
                term.end_task(self._moment(task))
        if self.teacher is not None:
            self.teacher.load_state_dict(self.net.state_dict())

    # --- a step: draw, step, observe -------------------------------------------------------------

    def batch(self, images: Images, name: str, cursor: Cursor, *, augmented: bool = True) -> Batch:
        if augmented:
            raw = images.pixels().to(self.device, non_blocking=True)
            x = self._laid_out(self.augment.train(raw, self.streams.at(name, *cursor)))
        else:
            x = self.inputs(images)
        return Batch(x, images.y.to(self.device, non_blocking=True), images)

    def draw(self, task: Task, cursor: Cursor) -> dict[str, Batch]:
        """Every replay batch of the coming step, by the name of its draw."""
        stage = self.method.stages[cursor.stage]
        if not stage.replay or not len(self.memory):
            return {}
        wanted = [self._draw_of(s) for s, term in self._active(stage) if term.needs(task).draws]
        return {name: self._replay(name, cursor) for name in dict.fromkeys(wanted)}

    def step(
        self, batch: Batch, draws: Mapping[str, Batch], task: Task, stage: Stage, epoch: int
    ) -> tuple[dict[str, Tensor], Tensor]:
        """One step by the method's rule: each term's loss, unweighted, and the stream's logits.

        A function of its arguments and this object's state: nothing random happens here. Passes
        run stream first, then in the summands' order, for BatchNorm and rounding notice it.
        """
        active = self._active(stage)
        needs = {s.name: term.needs(task) for s, term in active}
        self.net.train_only(stage.trains)
        self._clear_gradients()
        with self._precision():
            stream = self._pass(batch, any(n.before for n in needs.values()))
        seen: dict[str, Tensor] = {}

        def objective(names: Collection[str]) -> Tensor | None:
            named = [b for b in active if b[0].name in names]
            losses = self._losses(named, stream, draws, needs, task)
            seen.update({s.name: loss.detach() for s, loss in losses.items()})
            weighted = [s.weight * loss.float() for s, loss in losses.items()]
            return torch.stack(weighted).sum() if weighted else None

        def follow() -> None:
            self.optimizers.step(stage, epoch)
            for s, term in active:
                term.after_step(self.net, s.weight)
            self._clear_gradients()

        parameters = self.optimizers.parameters(stage)
        self.method.rule(Update([s.name for s, _ in active], objective, parameters, follow))
        return seen, stream.out.logits.detach()

    def observe(self, batch: Batch, logits: Tensor, cursor: Cursor) -> None:
        if self.method.stages[cursor.stage].replay:
            self.memory.observe(batch.images, logits, self.streams.at("memory", *cursor))

    # --- without gradient ------------------------------------------------------------------------

    def look(self, images: Images) -> Output:
        """What the net says of the images as they are, in float32; taps are left out."""
        parts = [(out.logits.float(), out.features.float()) for out in self.outputs(images)]
        logits, features = (torch.cat(column) for column in zip(*parts, strict=True))
        return Output(logits, features, {})

    def embed(self, images: Images) -> Tensor:
        """Features, (n, d) float32."""
        return self.look(images).features

    def inputs(self, images: Images) -> Tensor:
        """The images as the net reads them at prediction."""
        return self._laid_out(self.augment.eval(images.pixels().to(self.device)))

    def predict(self, images: Images) -> Tensor:
        """Scores (n, classes), -inf where unseen: the only door to evaluation."""
        own = self.evaluation.rule == "method"
        parts = [self.predictor(o) if own else o.logits for o in self.outputs(images)]
        scores = torch.cat(parts).float()
        return scores.masked_fill(~self.seen, -torch.inf) if self.evaluation.mask_unseen else scores

    @torch.no_grad()
    def outputs(self, images: Images) -> Iterator[Output]:
        """What the net says of the images as they are, chunk by chunk."""
        self.net.eval()
        for part in images.chunks(self.evaluation.chunk):
            with self._precision():
                yield self.net(self.inputs(part))

    # --- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            "net": self.net.state_dict(),
            "teacher": None if self.teacher is None else self.teacher.state_dict(),
            "terms": {s.name: term.state_dict() for s, term in self.bound},
            "predictor": self.predictor.state_dict(),
            "memory": self.memory.state_dict(),
            "seen": self.seen,
            "optimizers": self.optimizers.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.net.load_state_dict(state["net"])
        if self.teacher is not None:
            self.teacher.load_state_dict(state["teacher"])
        for s, term in self.bound:
            term.load_state_dict(state["terms"][s.name])
        self.predictor.load_state_dict(state["predictor"])
        self.memory.load_state_dict(state["memory"])
        self.seen.copy_(state["seen"])
        self.optimizers.load_state_dict(state["optimizers"])

    # --- the inside ------------------------------------------------------------------------------

    def _place(self, net: Net) -> Net:
        wanted = self.compute.channels_last
        self.channels_last = fits_channels_last(net) if wanted == "auto" else wanted
        if self.channels_last and self.device.type == "cpu" and not fits_channels_last(net):
            raise ConfigError(
                "compute.channels_last: this net has layers whose channels are not a multiple of "
                "8, which torch's convolutions on the CPU do not survive; leave it at auto"
            )
        layout = torch.channels_last if self.channels_last else torch.preserve_format
        return net.to(self.device, memory_format=layout)  # type: ignore[call-overload]

    def _laid_out(self, x: Tensor) -> Tensor:
        return x.contiguous(memory_format=torch.channels_last) if self.channels_last else x

    def _moment(self, task: Task) -> Moment:
        return Moment(task, self.net, self.look, self.inputs)

    def _rows(self, task: Task) -> np.random.Generator:
        """The generator that rows of a task are chosen with, by its stages and by the memory."""
        return self.streams.at("task rows", task.index)

    def _settle(self, task: Task) -> None:
        self.memory.consolidate(task, self.look, self._rows(task))

    def _renew(self, task: Task) -> None:
        """The net as it would be if it were made anew; its optimisers were cleared already."""
        with self.streams.initialising("backbone", task.index):
            body = self._backbone()
        with self.streams.initialising("head", task.index):
            head = self.method.head(self.spec.features, self.spec.classes)
        self.net.load_state_dict(Net(body, head).state_dict())

    def _active(self, stage: Stage) -> list[tuple[Summand, Term]]:
        here = None, stage.name
        named = [b for b in self.bound if stage.terms is None or b[0].name in stage.terms]
        return [b for b in named if b[0].only_in in here]

    def _draw_of(self, s: Summand) -> str:
        return SHARED if self.shared_draw else s.name

    def _replay(self, draw: str, cursor: Cursor) -> Batch:
        rows = self.memory.sample(self.draw_rows, self.streams.at(f"{draw}/rows", *cursor))
        images = Images.of(self.memory.x, self.memory.y).take(rows)
        batch = self.batch(images, f"{draw}/augment", cursor)
        if self.memory.logits is None:
            return batch
        return batch._replace(logits=self.memory.logits[rows].to(self.device))

    def _own(
        self, replay: Mapping[str, Pass], s: Summand, needs: Mapping[str, Needs]
    ) -> Pass | None:
        return replay.get(self._draw_of(s)) if needs[s.name].draws else None

    def _pass(self, batch: Batch, before: bool) -> Pass:
        return Pass(batch, self.net, self.teacher if before else None)

    def _losses(
        self,
        named: Sequence[tuple[Summand, Term]],
        stream: Pass,
        draws: Mapping[str, Batch],
        needs: Mapping[str, Needs],
        task: Task,
    ) -> dict[Summand, Tensor]:
        with self._precision():
            replay = self._replayed(draws, named, needs)
            steps = {s: Step(task, self.net, stream, self._own(replay, s, needs)) for s, _ in named}
            found = {s: term(steps[s]) for s, term in named}
        return {s: loss for s, loss in found.items() if loss is not None}

    def _replayed(
        self,
        draws: Mapping[str, Batch],
        named: Sequence[tuple[Summand, Term]],
        needs: Mapping[str, Needs],
    ) -> dict[str, Pass]:
        """The named terms' draws through the net, in the terms' order."""
        wanted = [self._draw_of(s) for s, _ in named if needs[s.name].draws]
        before = {self._draw_of(s) for s, _ in named if needs[s.name].before}
        quiet = untracked(self.net) if self.training.bn_updates == "stream" else nullcontext()
        with quiet:
            return {
                name: self._pass(draws[name], name in before)
                for name in dict.fromkeys(wanted)
                if name in draws
            }

    def _clear_gradients(self) -> None:
        self.net.zero_grad()
        for _, term in self.bound:
            term.zero_grad()

    def _precision(self) -> AbstractContextManager[object]:
        if self.compute.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)


def _memory(method: Method, wanted: sections.Memory, spec: Spec, columns: frozenset[str]) -> Memory:
    if not method.memories:
        return Memory(spec.raw, spec.classes, 0)
    policy = POLICIES[wanted.policy]
    table = policy(spec.raw, spec.classes, wanted.rows, columns)
    if isinstance(table, BalancedReservoir):
        table.evict = wanted.evict
    return table
