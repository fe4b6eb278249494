"""Exported files: the same probabilities as the classifier's, in another program."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn
from torch.torch_version import TorchVersion

from linsep import IncrementalClassifier
from linsep.classifier.export import ONNX_FROM, square
from linsep.data import decoding

from .test_estimator import QUICK, images

WITHIN = 1e-4
OWN = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1))


def taught(method: str = "derpp+bfp", net: Any = "cnn", **more: Any) -> IncrementalClassifier:
    """Two lessons; classes not in the order of their columns."""
    settings: dict[str, Any] = (
        {"net": {"options": {"width": 8}}} if net in ("cnn", "resnet18", "mlp") else {}
    )
    settings["options"] = {method: QUICK[method]} if method in QUICK else {}
    chosen: dict[str, Any] = {"memory": 12, "epochs": 1, "settings": settings} | more
    clf = IncrementalClassifier(method, net, **chosen)
    clf.fit(images(20), ["m", "z"] * 10)
    return clf.partial_fit(images(20, 1), ["b", "n"] * 10)


def can_export() -> None:
    pytest.importorskip("onnxscript")
    if TorchVersion(torch.__version__) < ONNX_FROM:
        pytest.skip(f"torch {torch.__version__} cannot export to ONNX")


def run_onnx(path: Path, x: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    onnxruntime = pytest.importorskip("onnxruntime")
    p, strange = onnxruntime.InferenceSession(path).run(None, {"images": x})
    return p, strange


def assert_equal_everywhere(clf: IncrementalClassifier, path: Path) -> None:
    clf.export(path)
    wide = np.random.default_rng(5).integers(0, 256, (3, 19, 30, 3), dtype=np.uint8)
    for x in (images(7, 2), images(1, 3), wide):
        found, strange = run_onnx(path, x)
        assert found.shape == (len(x), 4)
        assert np.abs(found - clf.predict_proba(x)).max() < WITHIN
        assert strange == pytest.approx(clf.novelty(x), rel=WITHIN)


def test_onnx_equals_the_classifier_and_needs_no_torch(tmp_path: Path) -> None:
    """The file tells its classes and predicts in a process that cannot import torch or linsep."""
    can_export()
    clf, x = taught(), images(3, 2)
    assert_equal_everywhere(clf, tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", x)
    script = """
import sys
sys.modules["torch"] = sys.modules["linsep"] = None  # importing them fails from here on
import json, numpy, onnxruntime
session = onnxruntime.InferenceSession("model.onnx")
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
p = session.run(None, {session.get_inputs()[0].name: numpy.load("x.npy")})[0]
print(json.dumps([classes[i] for i in p.argmax(1)]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == clf.predict(x).tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    "chosen",
    [
        {"method": "icarl"},  # the nearest mean
        {"method": "lucir"},  # cosines
        {"method": "bic"},  # a corrected head
        {"net": OWN},
        {"train": "head", "method": "icarl"},
        {"image_size": 9},
        {"method": "ft+transport", "memory": 0},  # carried statistics tell novelty
        {"method": "ft", "test_share": 0.0},  # no image is kept: novelty is energy
        {"settings": {"net": {"options": {"width": 8, "norm": "continual"}}}},
    ],
    ids=str,
)
def test_onnx_equals_every_kind_of_classifier(chosen: dict[str, Any], tmp_path: Path) -> None:
    can_export()
    assert_equal_everywhere(taught(**chosen), tmp_path / "model.onnx")


def test_torch_export_equals_the_classifier(tmp_path: Path) -> None:
    clf, path = taught("icarl"), tmp_path / "model.pt2"
    clf.export(path)
    told = {"classes": ""}
    loaded = torch.export.load(path, extra_files=told).module()
    assert json.loads(told["classes"]) == ["b", "m", "n", "z"]
    for x in (images(5, 2), images(1, 2)):
        found, strange = (part.numpy() for part in loaded(torch.from_numpy(x)))
        assert np.abs(found - clf.predict_proba(x)).max() < WITHIN
        assert strange == pytest.approx(clf.novelty(x), rel=WITHIN)


@pytest.mark.slow
def test_a_table(tmp_path: Path) -> None:
    can_export()
    x = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    clf = IncrementalClassifier(epochs=1).fit(x, [0, 1, 2] * 10)
    clf.export(tmp_path / "model.onnx")
    found, _ = run_onnx(tmp_path / "model.onnx", x[:7])
    assert np.abs(found - clf.predict_proba(x[:7])).max() < WITHIN


@pytest.mark.parametrize("side", [8, 31])
@pytest.mark.parametrize("size", [(28, 28), (19, 30), (31, 100), (14, 9), (200, 150)])
def test_the_square_in_the_graph_is_that_of_the_decoder(size: tuple[int, int], side: int) -> None:
    x = np.random.default_rng(side).integers(0, 256, (*size, 3), dtype=np.uint8)
    wanted = decoding.pixels(decoding.square(Image.fromarray(x), side, "x"))
    found = square(torch.from_numpy(x).permute(2, 0, 1)[None], side)[0]
    assert np.array_equal(found.numpy(), wanted)
