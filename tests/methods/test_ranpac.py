"""Heads from sums over features: RanPAC and ACIL against slow references, and their law."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from linsep import IncrementalClassifier
from linsep.data.images import Images, join
from linsep.errors import ConfigError
from linsep.learning.statistics import RIDGES, RandomRidge
from linsep.learning.transport import Transported
from linsep.methods import assemble
from linsep.nets.heads import LinearHead
from linsep.nets.net import Output, Spec
from linsep.testing import toy_run, toy_scenario

CLASSES, D, WIDTH = 4, 5, 12
SPEC = Spec((1, 1, 1), (1, 1, 1), CLASSES, {"features": D})
F64 = torch.float64


def rule(name: str, **options: Any) -> RandomRidge:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = assemble(f"ft+{name}", {name: {"width": WIDTH} | options}).predictor(SPEC)
    assert isinstance(made, RandomRidge)
    return made


def learn(made: RandomRidge, z: Tensor, y: Tensor) -> RandomRidge:
    """Teach a task whose images have these features."""
    train = Images.of(torch.zeros(len(y), 1, 1, 1, dtype=torch.uint8), y)
    context: Any = SimpleNamespace(
        task=SimpleNamespace(index=0, train=train),
        evaluate=lambda part: Output(z[part.rows], z[part.rows], {}),
    )
    made.fit(context, train)
    return made


def clouds() -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(1)
    y = torch.arange(CLASSES).repeat(20)
    centres = torch.randn(CLASSES, D, generator=g)
    return centres[y] + torch.randn(len(y), D, generator=g), y


def expanded(made: RandomRidge, z: Tensor) -> Tensor:
    return (z.double() @ made.projection.double()).clamp(min=0)


def scores(made: RandomRidge, z: Tensor) -> Tensor:
    return made(Output(z, z, {}))


def cuts(n: int) -> Sequence[Sequence[Tensor]]:
    """Orders and divisions into tasks: three, twenty, and one image at a time."""
    mixed = [torch.randperm(n, generator=torch.Generator().manual_seed(s)) for s in range(3)]
    return [list(order.chunk(k)) for order, k in zip(mixed, (3, 20, n), strict=True)]


def test_acil_is_the_recursion_of_its_paper() -> None:
    """R <- R - R H'(I + H R H')^-1 H R,  W <- W + R H'(Y - H W): Zhuang et al. (2022)."""
    z, y = clouds()
    made = rule("acil", ridge=0.3)
    r, w = torch.eye(WIDTH, dtype=F64) / 0.3, torch.zeros(WIDTH, CLASSES, dtype=F64)
    for rows in torch.arange(len(y)).chunk(5):
        learn(made, z[rows], y[rows])
        h, labels = expanded(made, z[rows]), torch.eye(CLASSES, dtype=F64)[y[rows]]
        inner = torch.linalg.inv(torch.eye(len(h), dtype=F64) + h @ r @ h.T)
        r = r - r @ h.T @ inner @ h @ r
        w = w + r @ h.T @ (labels - h @ w)
    assert_close(made.weight.double(), w.T, rtol=1e-4, atol=1e-5)


def test_neither_order_nor_tasks_matter() -> None:
    """ACIL's rule is one; so are RanPAC's sums, and its rule given the ridge that it chose."""
    z, y = clouds()
    whole, sums = learn(rule("acil"), z, y), learn(rule("ranpac"), z, y).products
    for tasks in cuts(len(y)):
        mine, other = rule("acil"), rule("ranpac")
        for rows in tasks:
            learn(mine, z[rows], y[rows])
            learn(other, z[rows], y[rows])
        assert_close(scores(mine, z), scores(whole, z), rtol=1e-4, atol=1e-5)
        for a, b in zip(other.products.buffers(), sums.buffers(), strict=True):
            assert_close(a, b, rtol=1e-10, atol=1e-9)


def test_ranpac_chooses_the_ridge_on_held_out_images() -> None:
    """Row by row: of the newest task every fifth image judges (McDonnell et al., 2023)."""
    z, y = (values[:30] for values in clouds())  # so few that a ridge helps
    made = rule("ranpac")
    learn(made, z[:10], y[:10])
    h, labels = expanded(made, z), torch.eye(CLASSES, dtype=F64)[y]
    held = torch.arange(14, 30, 5)
    known = torch.tensor([row for row in range(30) if row not in held.tolist()])
    learn(made, z[10:], y[10:])

    def solved(rows: Tensor, ridge: float) -> Tensor:
        a = torch.cat([h[rows], ridge**0.5 * torch.eye(WIDTH, dtype=F64)])
        b = torch.cat([labels[rows], torch.zeros(WIDTH, CLASSES, dtype=F64)])
        return torch.linalg.lstsq(a, b, driver="gelsd").solution

    errors = [float((labels[held] - h[held] @ solved(known, r)).square().sum()) for r in RIDGES]
    best = RIDGES[int(np.argmin(errors))]
    assert RIDGES[0] < best < RIDGES[-1]
    assert_close(made.weight.double(), solved(torch.arange(30), best).T, rtol=1e-4, atol=1e-5)


def test_unseen_classes_are_never_predicted_and_few_images_suffice() -> None:
    z, y = clouds()
    for name in ("ranpac", "acil"):
        made = learn(rule(name), z[y < 2][:3], y[y < 2][:3])
        assert set(scores(made, z).argmax(1).tolist()) <= {0, 1}
        with pytest.raises(ConfigError, match="analyses of linear rules need another"):
            made.as_linear(LinearHead(D, CLASSES))


@pytest.mark.parametrize("name", ["ft+transport", "slda", "ncm", "ft+acil", "acil"])
def test_with_a_frozen_backbone_a_run_gives_the_rule_of_all_images(name: str) -> None:
    """Three tasks or one: streaming LDA and the regression are exact."""
    options: Any = {"acil": {"width": WIDTH}}
    run, fresh = (toy_run(assemble(name, options), train=("head",)) for _ in range(2))
    for _ in run:
        pass
    data = join([task.train for task in toy_scenario().tasks])
    context: Any = SimpleNamespace(
        task=SimpleNamespace(index=0, train=data),
        evaluate=fresh.learner.evaluate, before=None, terms=(),
    )  # fmt: skip
    found, whole = run.learner.predictor, fresh.learner.predictor
    whole.fit(context, data)
    assert isinstance(found, (Transported, RandomRidge))
    assert isinstance(whole, (Transported, RandomRidge))
    assert_close(found.weight, whole.weight, rtol=1e-3, atol=1e-4)


def test_a_classifier_grows_saves_and_exports_the_rule(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (24, 12, 12, 3), dtype=np.uint8)
    settings = {"net": {"options": {"width": 8}}, "options": {"ranpac": {"width": 16}}}
    clf = IncrementalClassifier("er+ranpac", "cnn", memory=12, epochs=1, settings=settings)
    clf.fit(x[:12], ["a", "b"] * 6).partial_fit(x[12:], ["c", "d"] * 6)
    clf.save(tmp_path / "model")
    again = IncrementalClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(x), clf.predict_proba(x))
    clf.export(tmp_path / "model.onnx")
    session = pytest.importorskip("onnxruntime").InferenceSession(tmp_path / "model.onnx")
    assert np.allclose(session.run(None, {"images": x})[0], clf.predict_proba(x), atol=1e-4)
    for one in (clf, again):
        one.partial_fit(x[:8], ["e", "a"] * 4)
    assert np.array_equal(again.predict_proba(x), clf.predict_proba(x))
