"""A network that was trained elsewhere becomes a model that keeps learning."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from linsep import IncrementalClassifier
from linsep.classifier.teaching import Teaching
from linsep.errors import LinsepError
from linsep.storage.manifest import Params
from tests.helpers.command import command

from .test_without_images import EACH, photographs

NAMES = ["class 2", "class 0", "class 1"]  # in the order of the file's outputs
NEW, TRUTH = photographs([0, 1, 2], seed=1)
HOW: dict[str, Any] = {"net": "cnn", "epochs": 3, "like": None, "test_share": 0.2}


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, IncrementalClassifier]:
    """Weights as torch saves them, and what predicts by them; its outputs have another order."""
    trained = IncrementalClassifier("ft", **HOW | {"epochs": 12}).fit(*photographs([0, 1, 2]))
    learner = trained.course_.learner
    assert learner is not None
    state = {f"module.{k}": v for k, v in learner.net.backbone.state_dict().items()}
    order = [trained.columns_.index(name) for name in NAMES]
    state |= {f"module.fc.{k}": v[order] for k, v in learner.net.head.state_dict().items()}
    path = tmp_path_factory.mktemp("elsewhere") / "weights.pt"
    torch.save(state, path)
    return path, trained


@pytest.mark.parametrize("method", [None, "derpp", "icarl", "er+ema", "ewc"])
def test_it_predicts_as_the_network_did_and_learns_on(
    method: str | None, elsewhere: tuple[Path, IncrementalClassifier]
) -> None:
    path, trained = elsewhere
    classifier = IncrementalClassifier(method, memory=40, **HOW)
    classifier.fit(*photographs([0, 1, 2]), classes=NAMES, start_from=path)
    if method not in ("icarl", "er+ema"):  # which predict by rules of their own
        mine, theirs = (c.decision_function(NEW) for c in (classifier, trained))
        np.testing.assert_allclose(mine, theirs, atol=1e-4)
    assert classifier.score(NEW, TRUTH) > 0.9
    assert classifier.columns_ == NAMES
    assert classifier.course_.learner is not None
    assert len(classifier.course_.learner.memory) >= (0 if method == "ewc" else 39)
    classifier.partial_fit(*photographs([3]))
    assert classifier.classes_.tolist() == [*sorted(NAMES), "class 3"]


def test_an_interrupted_start_resumes(
    elsewhere: tuple[Path, IncrementalClassifier], tmp_path: Path
) -> None:
    x, y = photographs([0, 1, 2])
    told: dict[str, Any] = {"new": Params(net="cnn", epochs=1), "classes": NAMES,
                            "start_from": str(elsewhere[0]), "save_every": 0.0}  # fmt: skip
    with Teaching(tmp_path / "shop", x, y, **told) as lesson:
        next(iter(lesson))
    for folder in ("shop", "straight"):
        with Teaching(tmp_path / folder, x, y, **told) as lesson:
            assert lesson.resumed == (folder == "shop")
            list(lesson)
    ends = [IncrementalClassifier.load(tmp_path / name) for name in ("shop", "straight")]
    assert np.array_equal(ends[0].predict_proba(NEW), ends[1].predict_proba(NEW))


def test_what_does_not_fit_is_one_line(elsewhere: tuple[Path, IncrementalClassifier]) -> None:
    x, y = photographs([0, 1, 2])
    for classes, more, expected in (
        (None, {}, "needs classes"),
        (NAMES, {"train": "head"}, "net.weights"),
        (NAMES[:2], {}, "'class 1' is none of the classes"),
        ([*NAMES, "class 9"], {}, "'class 9' is a class without an image"),
        (NAMES, {"net": "mlp"}, "does not fit the net"),
        (NAMES, {"method": "lucir", "memory": 40}, "is not a linear layer"),
    ):
        classifier = IncrementalClassifier(**HOW | more)
        with pytest.raises(LinsepError, match=expected) as caught:
            classifier.fit(x, y, classes=classes, start_from=elsewhere[0])
        assert "\n" not in str(caught.value)
    two = [label if label != "class 2" else "class 0" for label in y]
    with pytest.raises(LinsepError, match=r"has no head of 2x.*a row for each class; found"):
        IncrementalClassifier(**HOW).fit(
            x, two, classes=["class 0", "class 1"], start_from=elsewhere[0]
        )


def test_the_command(elsewhere: tuple[Path, IncrementalClassifier], tmp_path: Path) -> None:
    x, y = photographs([0, 1, 2])
    for i, (image, label) in enumerate(zip(x, y, strict=True)):
        (tmp_path / "photos" / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / "photos" / label / f"{i % EACH:02}.png")
    words = ("learn", "shop", "photos", "--net", "cnn", "--epochs", "1", "-q", "--start-from")
    said = command(*words, str(elsewhere[0]), cwd=tmp_path)
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
    assert "--classes" in said.stderr
    grey = IncrementalClassifier("ft", **HOW).fit(tmp_path / "photos")
    assert grey.course_.learner is not None
    torch.save(grey.course_.learner.net.state_dict(), tmp_path / "w.pt")
    whole = (*words, "w.pt", "--classes", "class 0,class 1,class 2")
    said = command(*whole, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "shop knows 3 classes" in said.stdout
    assert "has learned something" in command(*whole, cwd=tmp_path).stderr
