"""Laws that every method and every net must keep: `check_method(er_kd)`, `check_net(make)`.

They are checked on a toy scenario and a toy net with BatchNorm, small enough to look at every step.
Each law is a function that raises AssertionError with what broke.

>>> from linsep.methods.replay import er
>>> from linsep.testing import check_method
>>> check_method(er())
"""

import copy
import io
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .data.augment import Augment
from .data.images import Batch, Dataset, Images
from .data.tasks import Scenario, split
from .errors import ConfigError
from .learning.learner import Learner
from .learning.method import AddOn, BoundStage, Method, Stage, WeightedTerm
from .learning.run import Run, StepEnd, TaskEnd
from .methods import ADDONS
from .methods.backward import bfp
from .methods.replay import er
from .nets.backbones import Wrapped
from .nets.net import Backbone, Blocks, Shape
from .randomness import Cursor, Randomness
from .settings import sections

RAW: Shape = (1, 8, 8)
SIZE = (6, 6)  # what the net reads
CLASSES, PER_TASK = 6, 2
PER_CLASS = 6  # training images: with a batch of 8, two steps an epoch, the second one short
STAGE_EPOCHS = 1  # at most, where a stage has its own
BACKWARD = ("bfp", "bfp2", "fd")  # checked with every method one by one; other additions together
APART = (*BACKWARD, "fsa")  # under FSA little would be left to check in later tasks


def toy_scenario(shape: Shape = RAW) -> Scenario:
    """Six classes of noisy images, 8x8 unless told otherwise, in three tasks."""
    g = torch.Generator().manual_seed(0)
    centres = torch.rand(CLASSES, *shape, generator=g)

    def make(n: int) -> Images:
        y = torch.arange(CLASSES).repeat_interleave(n)
        x = (centres[y] + 0.1 * torch.randn(len(y), *shape, generator=g)).clamp(0, 1)
        return Images.of((x * 255).to(torch.uint8), y)

    names = tuple(f"class {c}" for c in range(CLASSES))
    data = Dataset(make(PER_CLASS), make(4), names)
    return split("toy", data, [PER_TASK] * (CLASSES // PER_TASK))


def toy_run(
    method: Method,
    seed: int = 0,
    *,
    training: dict[str, Any] | None = None,
    memory: dict[str, Any] | None = None,
    evaluation: dict[str, Any] | None = None,
    scenario: Scenario | None = None,
    net: Callable[[], Backbone] | None = None,
    train: Collection[str] | None = None,
) -> Run:
    """A run on the toy scenario; stages with epochs of their own are cut short.

    A net of yours reads the scenario's images whole.
    """
    method = replace(method, stages=tuple(map(_short, method.stages)))
    scenario = method.curriculum(scenario or toy_scenario())
    chosen = {"epochs": 2, "batch_size": 8, "lr": 0.03, "momentum": 0.9} | (training or {})
    policy = method.memories[0] if method.memories else "balanced"
    kept = {"size": 12 if method.memories else 0, "replay_batch_size": 6, "policy": policy} | (
        memory or {}
    )
    channels, *whole = scenario.shape
    size = SIZE if net is None else (whole[0], whole[1])
    augment = Augment(size, pad=0, flip=True, mean=(0.5,) * channels, std=(0.25,) * channels)
    learner = Learner(
        method, net or toy_backbone, scenario, Randomness(seed), augment,
        sections.Training.model_validate(chosen), sections.Memory.model_validate(kept),
        sections.Evaluation.model_validate(evaluation or {}), sections.Compute(device="cpu"), train,
    )  # fmt: skip
    return Run(scenario, learner)


def toy_backbone() -> Backbone:
    """Two convolutions, the first with BatchNorm."""
    first = nn.Sequential(nn.Conv2d(RAW[0], 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())
    second = nn.Sequential(nn.Conv2d(4, 6, 3), nn.ReLU())
    return Blocks({"block1": first, "block2": second}, (4, 6))


Toy = Callable[..., Run]  # (method, seed, *, training) -> a run, as `toy_run` makes it


def _short(stage: Stage) -> Stage:
    return replace(stage, epochs=None if stage.epochs is None else min(stage.epochs, STAGE_EPOCHS))


def same(a: Any, b: Any) -> bool:
    """Return whether nested containers are equal bit for bit; nan equals nan."""
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and _bytes(a) == _bytes(b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def _bytes(t: Tensor) -> bytes:
    return t.detach().cpu().contiguous().numpy().tobytes()


# --- the laws ------------------------------------------------------------------------------------


def is_deterministic(method: Method, toy: Toy = toy_run) -> None:
    """Two runs of a seed are equal; another seed is not; torch's global generator is not used."""
    untouched = torch.get_rng_state()
    a, b, c = toy(method), toy(method), toy(method, seed=1)
    events = list(a)
    assert torch.equal(torch.get_rng_state(), untouched), "the global generator was moved"
    with torch.random.fork_rng():
        torch.manual_seed(2)
        again = list(b)
    assert same(_plain(events), _plain(again)), "two runs of one seed differ"
    assert same(a.state_dict(), b.state_dict()), "two runs of one seed end in different states"
    if method.trains:
        assert not same(_plain([next(iter(c))]), _plain(events[:1])), "two seeds give the same step"


def resumes_exactly(method: Method, toy: Toy = toy_run) -> None:
    """A run that dies after any event and is built anew resumes bit for bit."""
    straight = toy(method)
    saved = copy.deepcopy(straight.state_dict())
    for event in straight:
        fresh = toy(method)
        fresh.load_state_dict(saved)
        assert same(_plain([next(iter(fresh))]), _plain([event])), f"another event than {event}"
        saved = copy.deepcopy(straight.state_dict())
        assert same(fresh.state_dict(), saved), f"another state after {event}"
    file, finished = io.BytesIO(), toy(method)
    torch.save(saved, file)
    file.seek(0)
    finished.load_state_dict(torch.load(file, weights_only=True))  # as data, not as code
    assert not list(finished), "a finished run trains further"


def ignores_a_term_of_weight_zero(method: Method, extra: WeightedTerm, toy: Toy = toy_run) -> None:
    """With bn_updates = "stream", net, memory and predictor are the same after every event.

    The memory may have a column more, which only the term looks at.
    """
    training = {"bn_updates": "stream"}
    plain = toy(method, training=training)
    added = toy(method + replace(extra, weight=0.0), training=training)
    for _, event in zip(plain, added, strict=True):
        a, b = plain.learner.state_dict(), added.learner.state_dict()
        b["memory"] = {name: b["memory"].get(name) for name in a["memory"]}
        for part in ("net", "memory", "predictor"):
            assert same(a[part], b[part]), f"{part} changed at {event}"


def is_silent_in_the_first_task(method: Method, extra: WeightedTerm, toy: Toy = toy_run) -> None:
    """A backward term has no loss in the first task, and one in every later task."""
    spoken: dict[int, set[bool]] = {}
    for event in toy(method + extra):
        if isinstance(event, StepEnd) and event.cursor.stage == 0:
            spoken.setdefault(event.cursor.task, set()).add(extra.name in event.losses)
    expected = {task: {task > 0} for task in spoken}
    assert spoken == expected, f"{extra.name} spoke in {spoken}"


def predicts_seen_classes_only(method: Method, toy: Toy = toy_run) -> None:
    """Unseen classes are never predicted, and Task-IL accuracy is never below Class-IL."""
    run = toy(method)
    for event in run:
        if isinstance(event, TaskEnd):
            scores = run.learner.predict(run.scenario.groups[0].test)
            seen = {c for g in run.scenario.groups[: event.group + 1] for c in g.classes}
            assert set(scores.argmax(1).tolist()) <= seen, "an unseen class was predicted"
            pairs = zip(event.task_il, event.class_il, strict=True)
            assert all(t >= c for t, c in pairs), "Task-IL is below Class-IL"


def steps_purely(method: Method, toy: Toy = toy_run) -> None:
    """A step is a function of its inputs and the learner's state, and leaves the past alone."""
    run = toy(method)
    while run.cursor.task == 0 and len(run.scenario.tasks) > 1:
        next(iter(run))
    next(iter(run))
    task, stage, cursor = run.scenario.tasks[-1], run.learner.method.stages[0], run.cursor
    batch = run.learner.batch(task.train.take(torch.arange(8)), "augment", cursor)
    replay = run.learner.replay_batches(run.learner.bind(task, stage), cursor)
    twin = copy.deepcopy(run.learner)
    past = None if twin.previous_net is None else copy.deepcopy(twin.previous_net.state_dict())
    here, there = (
        _step(learner, learner.bind(task, stage), batch, replay, cursor)
        for learner in (run.learner, twin)
    )
    assert same(list(here), list(there)), "the same step gives another loss"
    assert same(run.learner.state_dict(), twin.state_dict()), "the same step gives another state"
    if twin.previous_net is not None:
        assert same(dict(past or {}), dict(twin.previous_net.state_dict())), "the past has changed"


def _step(
    learner: Learner, at: BoundStage, batch: Batch, replay: Mapping[str, Batch], cursor: Cursor
) -> tuple[dict[str, Tensor], Tensor]:
    """A step as a run makes it."""
    with learner.randomness.keyed("step", *cursor):
        return learner.step(at, batch, replay, 0)


LAWS: tuple[Callable[..., None], ...] = (
    is_deterministic, resumes_exactly, predicts_seen_classes_only, steps_purely,
)  # fmt: skip
BACKWARD_LAWS: tuple[Callable[..., None], ...] = (
    ignores_a_term_of_weight_zero,
    is_silent_in_the_first_task,
)


def check_method(method: Method | Callable[[], Method]) -> None:
    """Put a method, or its function, through every law.

    Plain, with each backward term, and with all other additions that it takes.
    """
    made = method if isinstance(method, Method) else method()
    extras = [ADDONS[name].recipe() for name in BACKWARD]
    for law in LAWS:
        for variant in (made, *(made + extra for extra in extras), with_others(made)):
            law(variant)
    for backward_law in BACKWARD_LAWS:
        for extra in extras:
            backward_law(made, extra)


def with_others(method: Method) -> Method:
    """The method with every addition that it takes, but for the backward terms and FSA."""
    for name, about in ADDONS.items():
        method = method if name in APART else _with(method, about.recipe())
    return method


def _with(method: Method, extra: AddOn) -> Method:
    try:
        return method + extra
    except ConfigError:
        return method


def check_net(net: nn.Module | Callable[..., nn.Module], shape: Shape = (3, 32, 32)) -> None:
    """Put a net, or the function that makes it from the images' shape, through every law."""
    if isinstance(net, nn.Module):
        make: Callable[[], nn.Module] = partial(copy.deepcopy, net)
    else:
        make = partial(net, shape)

    def backbone() -> Backbone:
        made = make()
        return made if isinstance(made, Backbone) else Wrapped(made, shape)

    toy: Toy = partial(toy_run, scenario=toy_scenario(shape), net=backbone)
    method, extra = er(), bfp()
    for law in LAWS:
        law(method + extra, toy)
    for backward_law in BACKWARD_LAWS:
        backward_law(method, extra, toy)


def _plain(events: list[Any]) -> list[Any]:
    """Events as containers, so that `same` sees their tensors."""
    return [[type(e).__name__, *(getattr(e, f) for f in e.__dataclass_fields__)] for e in events]
