"""`linsep model report`: the page says what the classifier's own accuracies are."""

import re
from pathlib import Path

import numpy as np
import pytest

from linsep import IncrementalClassifier
from tests.helpers.command import command
from tests.helpers.made_data import noise


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise is confused and forgotten; a class has a name that is markup."""
    pytest.importorskip("jinja2")
    place = tmp_path_factory.mktemp("reported")
    settings = {"net": {"options": {"width": 8}}}
    clf = IncrementalClassifier(
        "ft", "cnn", epochs=2, test_share=0.25, memory=12, settings=settings
    )
    clf.fit(noise(0, 60, 12, 12, 3), ["ant", "<script>bee"] * 30)
    clf.partial_fit(noise(1, 60, 12, 12, 3), ["cow", "dog"] * 30).save(place / "shop")
    return place


def page(folder: Path) -> str:
    said = command("model", "report", "shop", "-o", "page.html", cwd=folder)
    assert said.returncode == 0, said.stderr
    return (folder / "page.html").read_text()


def test_its_numbers_are_those_of_predictions(folder: Path) -> None:
    clf = IncrementalClassifier.load(folder / "shop")
    tests = [group.test for group in clf.course_.groups]
    x = np.concatenate([part.pixels().numpy() for part in tests])
    truth = np.asarray(clf.columns_)[np.concatenate([part.y.numpy() for part in tests])]
    right = 100 * (clf.predict(x) == truth).mean()
    text = page(folder)
    assert f"<span>Accuracy</span><b>{right:.1f} %</b>" in text
    assert f"on {len(truth)} images" in text
    dog = 100 * (clf.predict(x)[truth == "dog"] == "dog").mean()
    (row,) = re.findall(r"<tr><td>dog</td>.*?</tr>", text.partition("<h2>Classes")[2], re.DOTALL)[
        :1
    ]
    assert f'data-value="{float(dog)!r}"' in row
    history = clf.history_[-1]["groups"]
    lost = 100 * (clf.history_[0]["groups"][0]["after"] - history[0]["after"])
    assert f"{lost:.1f} points" in text


def test_it_advises_with_reasons(folder: Path) -> None:
    """Fine-tuning forgets its first classes: that lesson was costly, and they are confused."""
    advice = page(folder).partition('id="advice"')[2].partition("</section>")[0]
    forgotten = IncrementalClassifier.load(folder / "shop").history_[-1]["forgotten"]
    assert ("Lesson 2" in advice) == (forgotten > 0.05)
    assert "is taken for" in advice
    assert "fewer than 10 are kept" in advice


def test_names_are_text_and_nothing_is_loaded(folder: Path) -> None:
    text = page(folder)
    assert "&lt;script&gt;bee" in text
    assert "<script" not in text
    assert "http" not in re.sub(r"http-equiv", "", text)


def test_a_model_without_held_out_images_has_a_page_too(folder: Path) -> None:
    clf = IncrementalClassifier.load(folder / "shop")
    clf.save(folder / "bare", memory=False)
    said = command("model", "report", "bare", "-o", "bare.html", cwd=folder)
    assert said.returncode == 0, said.stderr
    assert "Confusion" not in (folder / "bare.html").read_text()
