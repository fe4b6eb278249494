"""`+ema`: averaged weights predict, and training does not notice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from linsep import IncrementalClassifier, testing
from linsep.learning.model import EvalNet
from linsep.learning.run import StepEnd, TaskEnd
from linsep.methods import assemble
from linsep.nets.heads import LinearHead
from linsep.nets.net import Net, mlp
from linsep.prepare import prepare
from linsep.settings.config import Config
from linsep.storage import snapshots
from linsep.storage.session import Session

TRAINING = ("net", "previous_net", "terms", "memory", "seen", "optimizers")


def weights(net: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()]).clone()


def walk(net: Net, steps: int) -> Iterator[Tensor]:
    """Weights that move at random."""
    g = torch.Generator().manual_seed(0)
    for _ in range(steps):
        with torch.no_grad():
            for p in net.parameters():
                p.add_(torch.randn(p.shape, generator=g))
        yield weights(net)


def test_the_average_is_the_mean_of_the_first_steps_and_then_decays() -> None:
    """decay 0.75: from the fourth step on, the newest has a share of one quarter."""
    net = Net(mlp((1, 2, 2), width=3), LinearHead(3, 2))
    mean, seen = EvalNet(net, 0.75), list[Tensor]()
    for step, now in enumerate(walk(net, 9), start=1):
        mean.follow(net)
        seen.append(now)
        found = weights(mean.net)
        if step <= 4:
            torch.testing.assert_close(found, torch.stack(seen).mean(0))
        else:
            late = sum(0.25 * 0.75 ** (step - k) * seen[k - 1] for k in range(5, step + 1))
            early = 0.75 ** (step - 4) * torch.stack(seen[:4]).mean(0)
            torch.testing.assert_close(found, late + early)
    mean.restart()
    mean.follow(net)
    assert torch.equal(weights(mean.net), weights(net))


def test_the_average_of_a_run_is_that_of_its_steps() -> None:
    """Written out as one weighted sum; the stages of all tasks count."""
    run = testing.toy_run(assemble("er+ema", {"ema": {"decay": 0.5}}))
    expected = torch.zeros(0)
    for event in run:
        if isinstance(event, StepEnd):
            now, first = weights(run.learner.net), event.cursor == (0, 0, 0, 0)
            expected = now if first else 0.5 * expected + 0.5 * now
            torch.testing.assert_close(weights(run.learner.eval_net), expected)


def test_what_is_kept_of_a_run_predicts_as_it_was_tested(tmp_path: Path) -> None:
    config = Config(
        scenario={"name": "blobs", "classes": 4, "train": 20, "test": 6}, method="er+ema",
        net={"name": "cnn", "width": 2}, training={"epochs": 2, "batch_size": 8}, memory=8,
    )  # fmt: skip
    ready = prepare(config)
    with Session(ready, tmp_path, keep="epochs") as session:
        assert session.run is not None
        for event in session:
            if isinstance(event, TaskEnd):
                shown = weights(session.run.learner.eval_net)
    test = session.run.scenario.groups[0].test
    found = snapshots.found(session.folder)
    again = prepare(config).build().learner
    snapshots.restore(found[-1], again)
    assert torch.equal(weights(again.eval_net), shown)
    assert torch.equal(again.predict(test), session.run.learner.predict(test))
    last_epoch = next(s for s in reversed(found) if not s.ends_task)
    snapshots.restore(last_epoch, again)  # within a task, the net that learns
    assert torch.equal(weights(again.eval_net), weights(session.run.learner.net))


def lessons(method: str) -> tuple[IncrementalClassifier, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (24, 12, 12, 3), dtype=np.uint8)
    settings = {"net": {"options": {"width": 8}}}
    clf = IncrementalClassifier(method, "cnn", memory=12, epochs=2, settings=settings)
    clf.fit(x[:12], ["a", "b"] * 6)
    return clf.partial_fit(x[12:], ["c", "d"] * 6), x


def test_a_classifier_predicts_by_the_average_also_when_loaded_and_exported(tmp_path: Path) -> None:
    clf, x = lessons("derpp+ema")
    plain, _ = lessons("derpp")
    assert not np.allclose(clf.decision_function(x), plain.decision_function(x))
    clf.save(tmp_path / "model")
    again = IncrementalClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(x), clf.predict_proba(x))
    clf.export(tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    exported, _ = program(torch.from_numpy(x))
    assert np.allclose(exported.numpy(), clf.predict_proba(x), atol=1e-4)
    for one in (clf, again):  # learning on after loading gives the same bits
        one.partial_fit(x[:8], ["e", "f"] * 4)
    assert np.array_equal(again.predict_proba(x), clf.predict_proba(x))
