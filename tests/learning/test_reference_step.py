"""DER++ + BFP in the second task, against a reference of some thirty lines that uses only torch.

The reference has its own net, takes its own frozen copy of it, keeps its own momentum, and is told
nothing but the initial numbers of net and projector and the batches of each step.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from linsep.data.images import Batch, Images
from linsep.learning.method import BoundStage
from linsep.learning.run import Run, StepEnd
from linsep.prepare import build
from linsep.settings.config import from_settings

CLASSES = 4
LR, MOMENTUM, DECAY = 0.03, 0.9, 0.001
LOGITS, CE, GAMMA = 0.3, 0.5, 1.5  # weights of the terms
STEPS = 4  # of the second task
RTOL, ATOL = 1e-5, 1e-6


def learning(method: str, options: dict[str, Any], training: dict[str, Any], rows: int = 12) -> Run:
    """Two tasks of two classes, 8x8, and a net with three BatchNorms."""
    settings = {
        "method": method,
        "options": options,
        "scenario": {"name": "blobs", "classes": CLASSES, "train": 20, "test": 4},
        "net": {"name": "cnn", "width": 2},
        "training": {"epochs": 2, "batch_size": 8, "lr": LR} | training,
        "memory": {"size": rows, "replay_batch_size": 6},
        "compute": {"device": "cpu"},
    }
    return build(from_settings(settings))


class Reference:
    """The step as FIDELITY.md tells it, on a convolutional net of width 2."""

    def __init__(self, net: Mapping[str, Tensor], projector: list[Tensor]) -> None:
        layers: list[nn.Module] = []
        for i, o in ((1, 2), (2, 4), (4, 8)):
            layers += [nn.Conv2d(i, o, 3, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
        self.body, self.head = nn.Sequential(*layers), nn.Linear(8, CLASSES)
        self.net = nn.ModuleList([self.body, self.head])
        self.net.load_state_dict(dict(zip(self.net.state_dict(), net.values(), strict=True)))
        self.old = copy.deepcopy(self.net).eval()
        self.a, self.b = (p.clone().requires_grad_() for p in projector)
        self.parameters = [*self.net.parameters(), self.a, self.b]
        self.velocity = [torch.zeros_like(p) for p in self.parameters]

    def see(self, net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        body, head = net.children()
        z = body(x).mean((2, 3))
        return z, head(z)

    def step(self, batch: Batch, draws: Mapping[str, Batch], target: str) -> dict[str, Tensor]:
        logit, label = draws["replay_logits"], draws["replay_ce"]
        z, stream = self.see(self.net, batch.x)  # four passes: four BatchNorm updates
        _, distilled = self.see(self.net, logit.x)
        _, replayed = self.see(self.net, label.x)
        with torch.no_grad():
            past = self.see(self.old, logit.x)[1] if target == "previous_net" else logit.logits
        assert past is not None
        losses = {
            "ce": -stream.log_softmax(1)[torch.arange(len(batch.y)), batch.y].mean(),
            "replay_logits": ((distilled - past) ** 2).mean(),
            "replay_ce": -replayed.log_softmax(1)[torch.arange(len(label.y)), label.y].mean(),
        }
        if "bfp" in draws:
            losses["bfp"] = self.backward(batch, z, draws["bfp"])
        weights = {"ce": 1.0, "replay_logits": LOGITS, "replay_ce": CE, "bfp": GAMMA}
        total = torch.stack([weights[name] * loss for name, loss in losses.items()]).sum()
        self.descend(torch.autograd.grad(total, self.parameters, allow_unused=True))
        return losses

    def backward(self, batch: Batch, z: Tensor, draw: Batch) -> Tensor:
        z_draw, _ = self.see(self.net, draw.x)
        with torch.no_grad():
            z_old = torch.cat([self.see(self.old, b.x)[0] for b in (batch, draw)])
        residual = torch.cat([z, z_draw]) @ self.a.T + self.b - z_old
        return (residual**2).sum(1).sqrt().mean() / 8**0.5

    @torch.no_grad()
    def descend(self, gradients: tuple[Tensor | None, ...]) -> None:
        last = len(self.parameters) - 2
        for k, (p, g) in enumerate(zip(self.parameters, gradients, strict=True)):
            if g is None:  # a projector that has nothing to do keeps still, momentum and all
                continue
            lr, momentum, decay = (LR, MOMENTUM, DECAY) if k < last else (0.1, 0.9, 0.0)
            self.velocity[k] = momentum * self.velocity[k] + g + decay * p
            p -= lr * self.velocity[k]


class StoredPast(Reference):
    """Old features are those of plain images, of rows that are older than the task."""

    def __init__(
        self,
        net: Mapping[str, Tensor],
        projector: list[Tensor],
        plain: Callable[[Images], Tensor],
        on: str,
    ) -> None:
        super().__init__(net, projector)
        self.plain, self.on = plain, on

    def backward(self, batch: Batch, z: Tensor, draw: Batch) -> Tensor:
        z_draw, _ = self.see(self.net, draw.x)
        old = draw.y < 2  # classes 2 and 3 are the second task's
        assert int(old.sum()) > 0
        with torch.no_grad():
            past = self.see(self.old, self.plain(draw.images))[0][old]
            new = self.see(self.old, batch.x)[0]
        if self.on == "replay":
            residual = z_draw[old] @ self.a.T + self.b - past
        else:
            residual = torch.cat([z, z_draw[old]]) @ self.a.T + self.b - torch.cat([new, past])
        return (residual**2).sum(1).sqrt().mean() / 8**0.5


@pytest.mark.parametrize("target", ["previous_net", "stored"])
def test_steps_equal_the_reference(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert follow(target, {}, monkeypatch) == [True] * STEPS


@pytest.mark.parametrize("on", ["both", "replay"])
def test_stored_old_features_equal_the_reference(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert follow("stored", {"target": "stored", "on": on}, monkeypatch) == [True] * STEPS


def test_every_second_step_equals_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    assert follow("stored", {"every": 2}, monkeypatch) == [True, False, True, False]


def follow(target: str, bfp: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Compare the second task's first steps with the reference; whether BFP spoke in each."""
    options = {
        "derpp": {"target": target, "replay_logits": LOGITS, "replay_ce": CE},
        "bfp": {"weight": GAMMA} | bfp,
    }
    training = {"momentum": MOMENTUM, "weight_decay": DECAY, "bn_updates": "all"}
    run = learning("derpp+bfp", options, training)
    fed: list[tuple[Batch, dict[str, Batch]]] = []
    start: list[Reference] = []
    original = run.learner.step

    def spy(at: BoundStage, batch: Batch, draws: Mapping[str, Batch], epoch: int) -> Any:
        if run.cursor.task == 1 and not start:
            state = copy.deepcopy(run.learner.state_dict())
            known = state["net"], list(state["terms"]["bfp"].values())
            stored = "target" in bfp
            plain, on = run.learner.inputs, bfp.get("on", "")
            start.append(StoredPast(*known, plain, on) if stored else Reference(*known))
        fed.append((batch, dict(draws)))
        return original(at, batch, draws, epoch)

    monkeypatch.setattr(run.learner, "step", spy)
    spoken: list[bool] = []
    for event in run:
        if not isinstance(event, StepEnd) or event.cursor.task != 1 or len(spoken) == STEPS:
            continue
        reference = start[0]
        batch, draws = fed[-1]
        losses = reference.step(batch, draws, target)
        assert losses.keys() == event.losses.keys()
        for name, loss in losses.items():
            assert_close(event.losses[name], loss.detach(), rtol=RTOL, atol=ATOL)
        state = run.learner.state_dict()
        pairs = zip(state["net"].items(), reference.net.state_dict().values(), strict=True)
        for (name, mine), other in pairs:
            assert_close(mine, other, rtol=RTOL, atol=ATOL, msg=name)
        for mine, other in zip(
            state["terms"]["bfp"].values(), (reference.a, reference.b), strict=True
        ):
            assert_close(mine, other.detach(), rtol=RTOL, atol=ATOL)
        spoken.append("bfp" in losses)
    return spoken


def test_the_reference_notices_a_difference() -> None:
    """Tolerances are tight enough: every parameter and statistic moves by more in one step."""
    run = learning("derpp+bfp", {"bfp": {"weight": GAMMA}}, {})
    while run.cursor.task == 0:
        next(iter(run))
    before = copy.deepcopy(run.learner.state_dict())
    next(iter(run))
    after = run.learner.state_dict()
    for name, value in after["net"].items():
        assert not torch.allclose(
            value.float(), before["net"][name].float(), rtol=RTOL, atol=ATOL
        ), name
    for name, value in after["terms"]["bfp"].items():
        assert not torch.allclose(value, before["terms"]["bfp"][name], rtol=RTOL, atol=ATOL), name


def test_the_memory_is_offered_plain_images_and_the_logits_of_this_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With room for all, rows are stored in the order of the stream, before augmentation."""
    run = learning("derpp", {"derpp": {"target": "stored"}}, {}, rows=200)
    expected: list[Tensor] = []
    fed: list[Batch] = []
    original = run.learner.step

    def spy(at: BoundStage, batch: Batch, draws: Mapping[str, Batch], epoch: int) -> Any:
        before = copy.deepcopy(run.learner.net).train()
        with torch.no_grad():
            expected.append(before(batch.x).logits)
        fed.append(batch)
        return original(at, batch, draws, epoch)

    monkeypatch.setattr(run.learner, "step", spy)
    while len(expected) < 7:
        next(iter(run))
    memory, rows = run.learner.memory, sum(map(len, (b.y for b in fed)))
    assert len(memory) == rows
    assert torch.equal(memory.images().pixels(), torch.cat([b.images.pixels() for b in fed]))
    assert torch.equal(memory.y[:rows], torch.cat([b.y for b in fed]))
    assert memory.logits is not None
    assert_close(memory.logits[:rows], torch.cat(expected), rtol=RTOL, atol=ATOL)
    plain = run.learner.inputs(fed[0].images)
    assert not torch.allclose(fed[0].x, plain)  # the net saw them cut and flipped
