"""`linsep predict --log` and `linsep model drift`: what changed is named, and nothing else."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from linsep import IncrementalClassifier
from linsep.classifier.drift import append, drift, logged
from linsep.data.standard import fashion_mini
from linsep.errors import LinsepError
from linsep.storage import manifest
from tests.helpers.command import command

NAMES = ["Trouser", "Bag", "Sandal"]
DATA = fashion_mini()
MIXED = np.random.default_rng(0).permutation(len(DATA.test))  # their order is that of classes
TEST = DATA.test.pixels().numpy()[MIXED, 0]
TRUTH = np.array(DATA.names)[DATA.test.y.numpy()[MIXED]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("watched")
    x, y = DATA.train.pixels().numpy(), np.array(DATA.names)[DATA.train.y]
    rows = np.isin(y, NAMES)
    clf = IncrementalClassifier("er", "cnn", memory=60, epochs=2, like="fashion-mini")
    clf.fit(x[rows], y[rows]).save(place / "shop")
    known, strange = np.isin(TRUTH, NAMES), np.isin(TRUTH, ["Coat", "Shirt"])
    for name, images in (("same", TEST[known][:90]), ("other", TEST[strange][:90])):
        (place / name).mkdir()
        for i, image in enumerate(images):
            Image.fromarray(image).save(place / name / f"{i}.png")
    return place


def changed(folder: Path, images: str) -> dict[str, str]:
    log = f"{images}.log"
    (folder / log).unlink(missing_ok=True)
    assert command("predict", "shop", images, "--log", log, cwd=folder).returncode == 0
    said = command("model", "drift", "shop", "--log", log, "--format", "json", cwd=folder)
    assert said.returncode == 0, said.stderr
    rows = json.loads(said.stdout)["rows"]
    return {row["what"]: row["changed"] for row in rows}


def test_new_images_of_the_learned_classes_raise_no_alarm(folder: Path) -> None:
    assert changed(folder, "same") == dict.fromkeys(("classes", "confidence", "novelty"), "no")


def test_images_of_other_classes_are_noticed(folder: Path) -> None:
    assert changed(folder, "other")["novelty"] == "yes"


def test_false_alarms_are_measured_and_rare(folder: Path) -> None:
    """The three tests share a level of 1 %; 200 trials measure it."""
    clf = IncrementalClassifier.load(folder / "shop")
    changed(folder, "same")
    found = drift(clf, logged(folder / "same.log", manifest.read(folder / "shop").version))
    assert 0 <= found.false_alarms < 0.05
    assert found.images == 90


def test_a_log_grows_and_only_this_models_lines_count(folder: Path, tmp_path: Path) -> None:
    log, rows = tmp_path / "log", [("x.png", "Bag", 0.5, 1.0)] * 15
    append(log, "one", rows)
    append(log, "two", rows)
    append(log, "one", rows)
    assert len(logged(log, "one")) == 30
    with pytest.raises(LinsepError, match="has 15 predictions of this model"):
        logged(log, "two")


@pytest.mark.parametrize("line", ["{", "[]", '{"when": "now"}', "\x00"])
def test_a_damaged_log_is_one_line(line: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f"{line}\n")
    with pytest.raises(LinsepError, match="log, line 1"):
        logged(tmp_path / "log", "one")


def test_a_log_that_is_not_there_is_one_line(folder: Path) -> None:
    said = command("model", "drift", "shop", "--log", "no.log", cwd=folder)
    assert said.returncode == 2
    assert "there is no log no.log; linsep predict --log no.log writes one" in said.stderr
