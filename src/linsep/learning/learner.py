"""The one object that learns: a net, its frozen past, terms, memory and optimisers.

A step is made of three parts: replay, step, observe. Which batch comes when, and how often, is the
run's business.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..data.augment import Augment
from ..data.images import Batch, Images
from ..data.tasks import Scenario, Task
from ..nets.net import Backbone, Net, Spec, frozen, untracked
from ..randomness import Cursor, Randomness
from ..settings import sections
from .exemplars import balanced, make_memory
from .method import BoundStage, Method, Stage
from .model import EvalNet, Model
from .optimizers import Optimizers
from .terms import Pass, Step, TaskContext, Term

SHARED = "replay"  # the name of the replay batch that all terms share
# Images for BatchNorm's statistics: at least at once; times each is augmented; enough of them.
AT_ONCE, TIMES, ENOUGH = 16, 4, 4000


class Learner(Model):
    """A model that learns task after task by a method."""

    def __init__(
        self,
        method: Method,
        backbone: Callable[[], Backbone],
        scenario: Scenario,
        randomness: Randomness,
        augment: Augment,
        training: sections.Training,
        memory: sections.Memory,
        evaluation: sections.Evaluation,
        compute: sections.Compute,
        train: Collection[str] | None = None,
    ) -> None:
        """`train` names the modules of the net that may learn; None: all."""
        self.method, self.randomness, self.training = method, randomness, training
        self._backbone, self.replay_batch_size = backbone, memory.replay_batch_size
        self.shares_replay = memory.replay_batches == "shared"
        with randomness.keyed("backbone"):
            body = backbone()
        raw = body.rows or scenario.tasks[0].train.shape
        with randomness.keyed("head"):
            head = method.head(body.widths["features"], scenario.num_classes)
        learned = sum(p.numel() for part in (body, head) for p in part.parameters())
        self.spec = Spec(raw, augment.reads, scenario.num_classes, body.widths, learned)
        self.weights = {s.name: s.weight for s in method.weighted_terms}
        self.terms: dict[str, Term] = {}
        for s in method.weighted_terms:
            with randomness.keyed(f"term/{s.name}"):
                self.terms[s.name] = s.build(self.spec)
        terms = self.terms.values()
        needs = frozenset(n for task in scenario.tasks for term in terms for n in term.needs(task))
        net = Net(body, head, sorted({tap for term in terms for tap in term.taps}), train)
        with randomness.keyed("predictor"):
            predictor = method.predictor(self.spec)
        super().__init__(net, predictor, augment, evaluation, compute, self.spec)
        for term in terms:
            term.to(self.device)
        stands_in = method.average is not None or evaluation.batchnorm == "recalibrated"
        self.eval_copy = EvalNet(self.net, method.average) if stands_in else None
        looks_back = self.predictor.looks_back and method.moves_backbone(self.net)
        teaches = "before" in needs or (looks_back and not stands_in)
        self.previous_net = frozen(self.net) if teaches else None
        self.previous_eval_net = None  # that predicted before this task, if a predictor asks
        if looks_back:
            self.previous_eval_net = frozen(self.eval_net) if stands_in else self.previous_net
        self.memory = make_memory(memory, self.spec, needs, scenario.tasks)
        if compute.compile:
            self.net.compile()

    # --- a task ----------------------------------------------------------------------------------

    def begin_task(self, task: Task) -> None:
        self.seen[list(task.classes)] = True
        self.optimizers.reset()
        for name, term in self.terms.items():
            with self.randomness.keyed(f"term/{name}", task.index):
                term.begin_task(task)

    def begin_stage(self, task: Task, stage: Stage) -> None:
        if stage.consolidate_first:
            self._consolidate(task)
        if stage.reinitialise:
            self._renew(task)
        with self.randomness.keyed(f"stage/{stage.name}", task.index):
            stage.begin(self.context(task))

    def bind(self, task: Task, stage: Stage) -> BoundStage:
        """What a stage trains on, and by which terms; the same whenever asked for within it."""
        stage = stage.of(task)
        terms = {name: self.terms[name] for name in self.method.active(stage)}
        replaying = [n for n, t in terms.items() if stage.replays and "replay" in t.needs(task)]
        batches = {name: SHARED if self.shares_replay else name for name in replaying}
        rows = stage.rows.choose(task, self.memory, self.choosing(task))
        return BoundStage(task, stage, rows, terms, batches, self.net.parts(stage.trains))

    def end_task(self, task: Task) -> None:
        if not any(stage.consolidate_first for stage in self.method.stages):
            self._consolidate(task)
        self.settle(task)
        for name, term in self.terms.items():
            with self.randomness.keyed(f"term/{name}/end", task.index):
                term.end_task(self.context(task))
        self.memory.refresh(self.evaluate)
        past = (self.previous_net, self.net), (self.previous_eval_net, self.eval_net)
        for previous, present in past:
            if previous is not None:
                previous.load_state_dict(present.state_dict())

    # --- a step: replay, step, observe ------------------------------------------------------------

    def batch(self, images: Images, name: str, cursor: Cursor, *, augmented: bool = True) -> Batch:
        if augmented:
            raw = images.pixels().to(self.device, non_blocking=True)
            x = self._laid_out(self.augment.train(raw, self.randomness.at(name, *cursor)))
        else:
            x = self.inputs(images)
        return Batch(x, images.y.to(self.device, non_blocking=True), images)

    def replay_batches(self, at: BoundStage, cursor: Cursor) -> dict[str, Batch]:
        """Every replay batch of the coming step, by name."""
        names = dict.fromkeys(at.replay_names[name] for name in at.terms if name in at.replay_names)
        return {name: self._replay(name, cursor) for name in names} if len(self.memory) else {}

    def step(
        self, at: BoundStage, batch: Batch, replay: Mapping[str, Batch], epoch: int
    ) -> tuple[dict[str, Tensor], Tensor]:
        """One step by the method's rule: each term's loss, unweighted, and the stream's logits.

        A function of its arguments, this object's state and torch's generators, which random layers
        use and the run keys. Passes run stream first, then in the terms' order: BatchNorm's running
        statistics and rounding depend on it.
        """
        self.net.train_only(at.stage.trains, still=self.training.bn_updates == "none")
        self._clear_gradients()
        with self._precision():
            stream = self._pass(at.task, batch)
        losses: dict[str, Tensor] = {}
        for names in self.method.rule.rounds(list(at.terms)):
            spoken = self._losses(at, names, stream, replay)
            if not spoken:
                continue
            weighted = {name: self.weights[name] * loss.float() for name, loss in spoken.items()}
            self.method.rule.backward(weighted, at.parameters)
            self.optimizers.step(at.stage.name, at.stage.descent.rate(epoch, self.training))
            for name, term in at.terms.items():
                term.after_step(self.net, self.weights[name])
            self._clear_gradients()
            losses |= {name: loss.detach() for name, loss in spoken.items()}
        if self.eval_copy is not None:
            self.eval_copy.follow(self.net)
        return losses, stream.out.logits.detach()

    def observe(self, at: BoundStage, batch: Batch, logits: Tensor, cursor: Cursor) -> None:
        if at.stage.observes:
            self.memory.observe(batch.images, logits, self.randomness.at("memory", *cursor))

    # --- evaluation ------------------------------------------------------------------------------

    @property
    def eval_net(self) -> Net:
        return self.net if self.eval_copy is None else self.eval_copy.net

    def settle(self, task: Task) -> None:
        """Make ready to predict after a task; training is the same whether it happens or not.

        With `evaluation.batchnorm = "recalibrated"` BatchNorm's statistics are averages over images
        of every class seen, as many of each as an old class has in the memory, augmented as in
        training. Averaged weights always get theirs this way.
        """
        if self.eval_copy is not None:
            with self.randomness.keyed("statistics", task.index, device=self.device):
                self.eval_copy.settle(self.net, self._recalibrating(task))
        context = self.context(task, self.eval_net)
        if self.previous_eval_net is not None:
            context = replace(context, before=partial(self.evaluate, net=self.previous_eval_net))
        self.predictor.fit(context, self.memory.images())

    def _recalibrating(self, task: Task) -> Iterator[Tensor]:
        """Batches to estimate BatchNorm's statistics on: balanced rows, mixed and augmented."""
        rng = self.randomness.at("balanced rows", task.index)
        rows = balanced(self.memory.images(), task, rng)
        for time in range(max(1, min(TIMES, ENOUGH // len(rows)))):
            rng = self.randomness.at("statistics/order", task.index, time)
            mixed = rows.take(torch.from_numpy(rng.permutation(len(rows))))
            for number, part in enumerate(mixed.chunks(self.evaluation.chunk, fewest=AT_ONCE)):
                yield self.batch(part, "statistics/augment", Cursor(task.index, 0, time, number)).x

    # --- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            "net": self.net.state_dict(),
            "previous_net": _state(self.previous_net),
            "eval_copy": _state(self.eval_copy),
            "previous_eval_net": _state(self._own_previous_eval_net),
            "terms": {name: term.state_dict() for name, term in self.terms.items()},
            "predictor": self.predictor.state_dict(),
            "memory": self.memory.state_dict(),
            "seen": self.seen,
            "optimizers": self.optimizers.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.net.load_state_dict(state["net"])
        if self.previous_net is not None:
            self.previous_net.load_state_dict(state["previous_net"])
        for name, term in self.terms.items():
            term.load_state_dict(state["terms"][name])
        if self.eval_copy is not None:
            self.eval_copy.load_state_dict(state["eval_copy"])
        if self._own_previous_eval_net is not None:  # between tasks it is the one that predicts
            past = state.get("previous_eval_net") or self.eval_net.state_dict()
            self._own_previous_eval_net.load_state_dict(past)
        self.predictor.load_state_dict(state["predictor"])
        self.memory.load_state_dict(state["memory"])
        self.seen.copy_(state["seen"])
        if "optimizers" in state:  # between tasks they hold nothing: each task resets them
            self.optimizers.load_state_dict(state["optimizers"])

    # --- the inside ------------------------------------------------------------------------------

    def context(self, task: Task, net: Net | None = None) -> TaskContext:
        evaluate, terms = partial(self.evaluate, net=net), tuple(self.terms.values())
        return TaskContext(task, net or self.net, evaluate, self.inputs, terms=terms)

    @property
    def _own_previous_eval_net(self) -> Net | None:
        """The previous network that is kept for the predictor alone."""
        return None if self.previous_eval_net is self.previous_net else self.previous_eval_net

    @cached_property
    def optimizers(self) -> Optimizers:
        """Built when first needed: predictions do not use them."""
        stages = {
            stage.name: stage.descent.build(self.net.parts(stage.trains), self.training)
            for stage in self.method.stages
        }
        terms = {name: term.optimizer() for name, term in self.terms.items()}
        return Optimizers(stages, {name: own for name, own in terms.items() if own is not None})

    def choosing(self, task: Task) -> Callable[[], np.random.Generator]:
        """The generator that rows of a task are chosen with, by its stages and by the memory."""
        return lambda: self.randomness.at("task rows", task.index)

    def _consolidate(self, task: Task) -> None:
        inputs = self.inputs if self.memory.normalised else self.unnormalised
        self.memory.consolidate(task, partial(self.evaluate, inputs=inputs), self.choosing(task))

    def _renew(self, task: Task) -> None:
        """The net as it would be if it were made anew; its optimisers were cleared already."""
        with self.randomness.keyed("backbone", task.index):
            body = self._backbone()
        with self.randomness.keyed("head", task.index):
            head = self.method.head(self.spec.features, self.spec.classes)
        self.net.load_state_dict(Net(body, head).state_dict())
        if self.eval_copy is not None:
            self.eval_copy.restart()

    def _replay(self, name: str, cursor: Cursor) -> Batch:
        rng = self.randomness.at(f"{name}/rows", *cursor)
        rows = self.memory.sample(self.replay_batch_size, rng)
        batch = self.batch(self.memory.at(rows), f"{name}/augment", cursor)
        beside = {name: column.to(self.device) for name, column in self.memory.beside(rows).items()}
        return Batch(*batch[:3], rows, beside.get("logits"), beside.get("features"))

    def _losses(
        self, at: BoundStage, names: Sequence[str], stream: Pass, replay: Mapping[str, Batch]
    ) -> dict[str, Tensor]:
        """The terms' losses, once their replay batches passed the net; some may have none."""
        losses = {}
        with self._precision():
            replayed = self._replayed(at, names, replay)
            for name in names:
                p = replayed.get(at.replay_names.get(name, ""))
                loss = at.terms[name](Step(at.task, self.net, stream, p))
                if loss is not None:
                    losses[name] = loss
        return losses

    def _replayed(
        self, at: BoundStage, names: Sequence[str], replay: Mapping[str, Batch]
    ) -> dict[str, Pass]:
        """The terms' replay batches through the net, each once, in the terms' order."""
        wanted = dict.fromkeys(at.replay_names[name] for name in names if name in at.replay_names)
        quiet = untracked(self.net) if self.training.bn_updates == "stream" else nullcontext()
        with quiet:
            passes = {name: self._pass(at.task, replay[name]) for name in wanted if name in replay}
        for p in passes.values():
            if p.batch.stored is not None:
                self.memory.replayed(p.batch.stored, p.out.logits)
        return passes

    def _pass(self, task: Task, batch: Batch) -> Pass:
        return Pass(batch, self.net, self.previous_net if task.earlier else None)

    def _clear_gradients(self) -> None:
        self.net.zero_grad()
        for term in self.terms.values():
            term.zero_grad()


def _state(net: nn.Module | None) -> dict[str, Any] | None:
    return None if net is None else net.state_dict()
