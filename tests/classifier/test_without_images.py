"""A classifier with memory 0 keeps no image, predicts all classes and learns on after loading."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from linsep import IncrementalClassifier, SavedClassifier
from linsep.errors import ConfigError

SIDE, EACH = 12, 30
PIECE = 24  # bytes of an image that would not be in a file by chance


def photographs(classes: list[int], seed: int = 0) -> tuple[NDArray[np.uint8], list[str]]:
    """Noise around a pattern of each class, so that no two images share a piece of pixels."""
    rng = np.random.default_rng(seed)
    images, labels = [], []
    for c in classes:
        pattern = np.random.default_rng(100 + c).integers(40, 216, (SIDE, SIDE))
        noise = rng.integers(-40, 40, (EACH, SIDE, SIDE))
        images.append(np.clip(pattern + noise, 0, 255).astype(np.uint8))
        labels += [f"class {c}"] * EACH
    return np.concatenate(images), labels


def taught(**more: Any) -> IncrementalClassifier:
    made = IncrementalClassifier(net="cnn", memory=0, epochs=3, random_state=0, **more)
    for classes in ([0, 1], [2, 3], [4]):
        made.partial_fit(*photographs(classes))
    return made


@pytest.fixture(scope="module")
def private() -> IncrementalClassifier:
    return taught()


def test_carried_statistics_predict_all_classes(private: IncrementalClassifier) -> None:
    assert private.course_.config.method == "ft+fd+transport"
    x, y = photographs([0, 1, 2, 3, 4], seed=1)
    assert private.score(x, y) > 0.8
    tuned = taught(method="ft")
    assert tuned.score(x, y) < 0.5


def test_no_file_of_the_model_holds_an_image(
    private: IncrementalClassifier, tmp_path: Path
) -> None:
    """No piece of any row of any image that was learned or held out; a memory of one would show."""
    private.save(tmp_path / "none")
    kept = IncrementalClassifier(method="er", net="cnn", memory=10, epochs=1)
    kept.partial_fit(*photographs([0, 1])).save(tmp_path / "ten")
    rows = np.concatenate([photographs(c)[0] for c in ([0, 1], [2, 3], [4])])
    pieces = [image.tobytes()[i : i + PIECE] for image in rows for i in (0, 60, 120)]

    def found(folder: Path) -> int:
        content = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        return sum(piece in content for piece in pieces)

    assert found(tmp_path / "none") == 0
    assert found(tmp_path / "ten") > 0


def test_the_report_knows_the_newest_classes(private: IncrementalClassifier) -> None:
    *earlier, newest = private.report_["groups"]
    assert all(group["before"] is None and group["after"] is None for group in earlier)
    assert newest["after"] is not None
    assert private.report_["forgotten"] is None
    assert json.dumps(private.report_)


def test_a_loaded_one_predicts_and_learns_with_the_same_bits(
    private: IncrementalClassifier, tmp_path: Path
) -> None:
    private.save(tmp_path / "model")
    again, straight = IncrementalClassifier.load(tmp_path / "model"), copy.deepcopy(private)
    x, _ = photographs([0, 1, 2, 3, 4], seed=1)
    assert (again.predict_proba(x) == private.predict_proba(x)).all()
    deployed = SavedClassifier.load(tmp_path / "model")
    assert (deployed.predict_proba(x) == private.predict_proba(x)).all()
    for one in (again, straight):
        one.partial_fit(*photographs([5, 6]))
    assert (again.predict_proba(x) == straight.predict_proba(x)).all()


def test_exported_it_gives_the_same_probabilities(
    private: IncrementalClassifier, tmp_path: Path
) -> None:
    runtime: Any = pytest.importorskip("onnxruntime")
    x, _ = photographs([0, 1, 2, 3, 4], seed=1)
    for made in (private, taught(settings={"transport": {"covariance": "class"}})):
        made.export(tmp_path / "model.onnx")
        session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
        found = session.run(None, {"images": x[..., None]})[0]
        np.testing.assert_allclose(found, made.predict_proba(x), atol=1e-4)


def test_novelty_needs_no_image(private: IncrementalClassifier) -> None:
    known, _ = photographs([0, 1, 2, 3, 4], seed=1)
    strange, _ = photographs([7, 8, 9], seed=1)
    assert np.median(private.novelty(strange)) > np.median(private.novelty(known))
    assert (private.novelty(known) == private.novelty(known, by="distance")).all()


def test_a_frozen_backbone_is_streaming_discriminant_analysis() -> None:
    """The order of the lessons does not matter, to rounding."""
    x, _ = photographs([0, 1, 2, 3], seed=1)
    answers = []
    for lessons in ([[0, 1], [2, 3]], [[0, 1], [3], [2]]):
        made = IncrementalClassifier(net="cnn", memory=0, epochs=1, train="head", test_share=0)
        for classes in lessons:
            made.partial_fit(*photographs(classes))
        assert made.course_.config.method == "ft+transport"
        answers.append(made.predict_proba(x))
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-3)


def test_a_method_that_replays_is_refused_without_a_memory() -> None:
    with pytest.raises(ConfigError, match="memory"):
        IncrementalClassifier(method="derpp", memory=0).fit(*photographs([0, 1]))
