"""The usual case: a net of timm with weights of a file, its backbone frozen."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.operators import OPERATORS

SCRIPT = (
    OPERATORS
    + """
import numpy as np, onnxruntime, timm
from linsep import IncrementalClassifier, SavedClassifier
rng = np.random.default_rng(0)
x = rng.integers(0, 256, (24, 40, 40, 3), dtype=np.uint8)
y = np.array(["ant", "bee"] * 6 + ["cow", "ant"] * 6)
torch.manual_seed(1)
start = timm.create_model("resnet10t", num_classes=0)
torch.save(start.state_dict(), "start.pt")
clf = IncrementalClassifier(
    "icarl", "timm/resnet10t", settings={"net": {"weights": "start.pt"}},
    memory=8, epochs=1, train="head", image_size=32,
)
clf.fit(x[:12], y[:12]).save("model")
again = IncrementalClassifier.load("model")
for one in (clf, again):
    one.partial_fit(x[12:], y[12:])
assert np.array_equal(again.predict_proba(x), clf.predict_proba(x))
again.save("model")
saved = SavedClassifier.load("model")
assert np.array_equal(saved.predict_proba(x), clf.predict_proba(x))
saved.export("model.onnx")
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
p = onnxruntime.InferenceSession("model.onnx", options).run(None, {"images": x})[0]
assert np.abs(p - clf.predict_proba(x)).max() < 1e-4
kept = clf.course_.learner.net.backbone.module.module.state_dict()
assert all(torch.equal(value, kept[name]) for name, value in start.state_dict().items())
"""
)


@pytest.mark.slow
def test_frozen_saved_loaded_taught_and_exported(tmp_path: Path) -> None:
    for package in ("timm", "onnxscript", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
