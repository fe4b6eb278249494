"""Photographs are learned on a pretrained, frozen network, by sums: the default for them."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from linsep import IncrementalClassifier, SavedClassifier
from linsep.classifier import beginning
from linsep.classifier.beginning import PACKAGE, PretrainedWarning
from linsep.classifier.course import Course
from linsep.classifier.teaching import Teaching
from linsep.nets.frozen import FrozenBackbone
from linsep.storage.manifest import Params

pytestmark = pytest.mark.skipif(find_spec(PACKAGE) is None, reason="needs linsep[pretrained]")
SIDE, CLASSES, EACH = 64, 4, 12
NAMES = np.array(["ant", "bee", "cow", "dog"])


def photographs() -> tuple[Any, Any]:
    """Classes that differ in colour and in the frequency of their stripes."""
    rng = np.random.default_rng(0)
    y = np.arange(CLASSES).repeat(EACH)
    wave = np.sin(np.arange(SIDE)[None] * (0.1 + 0.3 * y[:, None]))  # (n, side)
    x = 128 + 50 * wave[:, None, :, None] + rng.normal(0, 25, (len(y), SIDE, SIDE, 3))
    x[..., 0] += 20 * y[:, None, None]
    return x.clip(0, 255).astype(np.uint8), NAMES[y]


X, Y = photographs()


def taught(*lessons: Any, **chosen: Any) -> IncrementalClassifier:
    clf = IncrementalClassifier(**chosen)
    for rows in lessons:
        clf.partial_fit(X[rows], Y[rows])
    return clf


def test_the_default_is_frozen_keeps_no_image_and_reads_its_own_size(tmp_path: Path) -> None:
    clf = taught(np.arange(len(X)))
    config, learner = clf.course_.config, clf.course_.learner
    assert (config.method, config.net.name, config.net.train) == (
        "slda", "efficientnet_lite0", ("head",),
    )  # fmt: skip
    assert config.scenario.augment is not None
    assert config.scenario.augment.size == 128
    assert learner is not None
    assert isinstance(learner.net.backbone, FrozenBackbone)
    assert clf.score(X, Y) > 0.95
    clf.save(tmp_path / "model")
    assert len(learner.memory) == sum(len(group.test) for group in clf.course_.groups) == 0
    for name in ("model.safetensors", "memory.safetensors"):
        content = (tmp_path / "model" / name).read_bytes()
        assert not any(image.tobytes() in content for image in X)
    again = IncrementalClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(X[::5]), clf.predict_proba(X[::5]))
    saved = SavedClassifier.load(tmp_path / "model")
    assert np.array_equal(saved.predict_proba(X[::5]), clf.predict_proba(X[::5]))


def test_any_cut_into_lessons_gives_the_same_answers() -> None:
    whole = taught(np.arange(len(X)))
    order = np.random.default_rng(1).permutation(len(X))
    for lessons in (np.array_split(np.arange(len(X))[::-1], 4), np.array_split(order, 3)):
        cut = taught(*lessons)
        assert np.allclose(cut.decision_function(X), whole.decision_function(X), atol=1e-2)
        assert np.array_equal(cut.predict(X), whole.predict(X))


@pytest.mark.parametrize(
    ("chosen", "method", "net"),
    [
        ({"net": "cnn", "epochs": 1}, "derpp+bfp+refit", "cnn"),
        ({"train": "all", "net": "mlp", "epochs": 1}, "derpp+bfp+refit", "mlp"),
        ({"method": "ncm"}, "ncm", "efficientnet_lite0"),
        ({"method": "er", "epochs": 1, "memory": 8}, "er", "efficientnet_lite0"),
        ({"net": "cnn", "train": "head"}, "slda", "cnn"),
    ],
)
def test_what_is_asked_for_comes_first(chosen: dict[str, Any], method: str, net: str) -> None:
    config = taught(np.arange(0, len(X), 3), **chosen).course_.config
    assert (config.method, config.net.name) == (method, net)


def test_small_images_and_tables_keep_their_default() -> None:
    few = np.arange(0, len(X), 4)
    small = IncrementalClassifier(epochs=1).fit(X[few][:, :32, :32], Y[few])
    table = IncrementalClassifier(epochs=1).fit(X[few].reshape(len(few), -1)[:, :9], Y[few])
    assert small.course_.config.net.name == "resnet18"
    assert table.course_.config.net.name == "mlp"
    assert {one.course_.config.method for one in (small, table)} == {"derpp+bfp+refit"}


def test_without_the_extra_one_line_says_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "find_spec", lambda name: None)
    few = np.arange(0, len(X), 4)
    settings = {"net": {"width": 4}}
    with pytest.warns(PretrainedWarning, match=r"pip install 'linsep\[pretrained\]'") as told:
        clf = IncrementalClassifier("ft", epochs=1).fit(X[few], Y[few])
    assert len(told) == 1
    assert "\n" not in str(told[0].message)
    assert clf.course_.config.net.name == "resnet18"
    IncrementalClassifier("ft", epochs=1, settings=settings).fit(X[few], Y[few])  # says nothing


def test_a_lesson_resumes_to_the_bit_and_computes_no_feature_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINSEP_CACHE", str(tmp_path / "cache"))
    first, second = np.flatnonzero(Y < "c"), np.flatnonzero(Y > "c")
    asked = []
    made = Course.as_learned

    def counted(*given: Any, **more: Any) -> Any:
        asked.append(len(given[1]))
        return made(*given, **more)

    monkeypatch.setattr(Course, "as_learned", counted)
    for folder, stops in ((tmp_path / "straight", 0), (tmp_path / "stopped", 2)):
        for rows in (first, second):
            for left in range(stops, -1, -1):
                with Teaching(folder, X[rows], Y[rows], new=Params(), save_every=0.0) as lesson:
                    for _ in lesson:
                        if left:
                            break
    models = [
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("straight", "stopped")
    ]
    assert models[0] == models[1]
    assert torch.tensor(asked).sum() > 2 * len(X)
    (table,) = (tmp_path / "cache" / "features").iterdir()
    assert (table / "vectors.f32").stat().st_size == len(X) * 1280 * 4


def test_the_whole_chain_is_exported(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    clf = taught(np.arange(len(X)), image_size=SIDE)
    clf.export(tmp_path / "shop.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(tmp_path / "shop.onnx", options)
    found = session.run(None, {"images": X[::7]})[0]
    assert np.abs(found - clf.predict_proba(X[::7])).max() < 1e-4
