"""Changes of mind: what is forgotten leaves no trace, or it is said which."""

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from linsep import IncrementalClassifier, LinsepError
from linsep.classifier import changes, saved
from linsep.errors import ConfigError, StateError
from linsep.methods import METHODS
from linsep.storage import manifest
from linsep.storage.lease import release_dead
from tests.helpers.combinations import LEARNING, STILL
from tests.helpers.command import command
from tests.helpers.deaths import deaths, sigkills

from .test_estimator import QUICK
from .test_without_images import EACH, photographs

PIECE = 24  # bytes of an image that would not be in a file by chance


def taught(
    lessons: list[list[int]], method: str | None = None, **more: Any
) -> IncrementalClassifier:
    base = (method or "").partition("+")[0]
    how: dict[str, Any] = {"net": "cnn", "epochs": 1, "memory": 20, "settings": {}} | more
    how["settings"] = {base: QUICK[base]} | how["settings"] if base in QUICK else how["settings"]
    made = IncrementalClassifier(method, **how)
    for classes in lessons:
        made.partial_fit(*photographs(classes))
    return made


def streaming(lessons: list[list[int]], **more: Any) -> IncrementalClassifier:
    return taught(lessons, memory=0, train="head", **more)


NEW = photographs([0, 1, 2, 3], seed=1)[0]


# --- forgetting is exact for statistics -----------------------------------------------------------


def test_to_learn_and_forget_is_never_to_have_learned() -> None:
    """With a frozen backbone and class statistics, to rounding: A and B without B is A."""
    both, one = streaming([[0, 1], [2, 3]]), streaming([[0, 1]])
    assert both.forget(["class 2", "class 3"]) == []
    assert both.classes_.tolist() == one.classes_.tolist()
    np.testing.assert_allclose(both.predict_proba(NEW), one.predict_proba(NEW), atol=1e-9)
    np.testing.assert_allclose(both.novelty(NEW), one.novelty(NEW), rtol=1e-9)
    assert both.report_ == one.report_
    for classifier in (both, one):
        classifier.partial_fit(*photographs([5]))
    np.testing.assert_allclose(both.predict_proba(NEW), one.predict_proba(NEW), atol=1e-9)


def test_a_class_of_a_lesson_is_forgotten_without_the_others() -> None:
    some = streaming([[0, 1], [2, 3], [4]], test_share=0)
    one = streaming([[0, 1], [2], [4]], test_share=0)
    assert some.forget(["class 3"]) == []
    np.testing.assert_allclose(some.predict_proba(NEW), one.predict_proba(NEW), atol=1e-6)


def test_what_is_not_exact_is_said() -> None:
    shared = streaming([[0, 1], [2]], settings={"transport": {"covariance": "shared"}})
    (note,) = shared.forget(["class 2"])
    assert "still are" in note
    trained = taught([[0, 1], [2]])
    assert "weights were trained" in trained.forget(["class 2"])[0]
    assert "normalised as the first lesson" in trained.forget(["class 1"])[1]


@pytest.mark.parametrize("method", [*LEARNING, "derpp+bfp+refit", "er+wa", "ewc+bfp"])
def test_every_method_forgets_a_class_and_learns_on(method: str) -> None:
    classifier = taught([[0, 1], [2, 3]], method)
    classifier.forget(["class 1"])
    assert classifier.classes_.tolist() == ["class 0", "class 2", "class 3"]
    assert np.isfinite(classifier.predict_proba(NEW)).all()
    kept = classifier.course_.learner
    assert kept is not None
    assert set(kept.memory.images().y.tolist()) <= {0, 1, 2}
    classifier.partial_fit(*photographs([1, 4]))
    assert len(classifier.classes_) == 5
    assert np.isfinite(classifier.predict_proba(NEW)).all()


def test_the_other_classes_have_the_scores_they_had() -> None:
    classifier = taught([[0, 1], [2, 3]], "er")
    before = classifier.decision_function(NEW)
    classifier.forget(["class 1"])
    np.testing.assert_allclose(classifier.decision_function(NEW), before[:, [0, 2, 3]], atol=1e-6)


# --- no byte is left ------------------------------------------------------------------------------


def pieces(images: Any) -> list[bytes]:
    return [image.tobytes()[i : i + PIECE] for image in images for i in (0, 60, 120)]


def found(folder: Path, images: Any) -> int:
    """How many pieces of images the files of a folder, and of those in it, have."""
    content = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    return sum(piece in content for piece in pieces(images))


@pytest.mark.parametrize("folder_stays", [True, False])
@pytest.mark.parametrize("way", ["class", "images"])
def test_no_file_of_the_model_has_a_byte_of_what_was_forgotten(
    way: str, folder_stays: bool, tmp_path: Path
) -> None:
    """In the folder, or in Python between loading and saving."""
    gone, _ = photographs([2])
    classifier = taught([[0, 1], [2, 3]], memory=120)
    for _ in range(2):
        classifier.save(tmp_path / "shop")
        classifier.partial_fit(*photographs([4], seed=2))
    classifier.save(tmp_path / "shop")
    assert len(manifest.previous(tmp_path / "shop")) == 2
    assert found(tmp_path / "shop", gone) > EACH / 2

    def act(course: Any) -> Any:
        if way == "class":
            return changes.forget(course, ["class 2"])[0]
        return changes.forget_images(course, classifier._as_learned(gone))[0]

    if folder_stays:
        saved.change(tmp_path / "shop", act)
    else:
        loaded = IncrementalClassifier.load(tmp_path / "shop")
        loaded.forget(["class 2"]) if way == "class" else loaded.forget(images=gone)
        loaded.save(tmp_path / "shop")
    assert found(tmp_path / "shop", gone) == 0
    assert found(tmp_path / "shop", photographs([0])[0]) > 0
    assert not (tmp_path / "shop" / "previous").exists()
    told = json.loads((tmp_path / "shop" / "manifest.json").read_text())["classifier"]["changes"]
    assert [set(change) for change in told] == [{"when", "kind", "what", "images"}]
    assert len(told[0]["images"]) == (0 if way == "class" else EACH)
    again = IncrementalClassifier.load(tmp_path / "shop").partial_fit(*photographs([5]))
    assert ("class 2" in again.classes_) == (way == "images")


def test_images_are_found_by_their_features_too() -> None:
    classifier = taught([[0, 1]], "er", train="head", memory=60, test_share=0.2)
    gone, _ = photographs([0, 1])
    first, _ = classifier.forget(images=gone[:30])
    removed = [int(word) for word in first.split() if word.isdigit()]
    assert sum(removed) == 30
    assert classifier.forget(images=gone[:30])[0].startswith("Removed 0 stored samples and 0 ")


def test_a_head_is_fitted_to_what_is_left() -> None:
    classifier = taught([[0, 1], [2, 3]], memory=60)
    other = copy.deepcopy(classifier)
    classifier.forget(["class 3"], retrain_head=True)
    other.forget(["class 3"])
    assert not np.array_equal(classifier.predict_proba(NEW), other.predict_proba(NEW))
    with pytest.raises(StateError, match=r"no head that is fitted"):
        taught([[0, 1], [2]], "er").forget(["class 2"], retrain_head=True)


# --- names ----------------------------------------------------------------------------------------


def test_a_renamed_class_is_another_word_for_the_same() -> None:
    classifier = taught([[0, 1], [2]])
    before = classifier.predict_proba(NEW)
    classifier.rename("class 1", "zebra")
    assert classifier.classes_.tolist() == ["class 0", "class 2", "zebra"]
    assert np.array_equal(classifier.predict_proba(NEW), before[:, [0, 2, 1]])
    assert classifier.report_["groups"][0]["classes"] == ["class 0", "zebra"]
    assert classifier.undo().classes_.tolist() == ["class 0", "class 1", "class 2"]


def test_merged_classes_are_one_that_had_all_their_images() -> None:
    """To rounding: 0, 1 and 2 with 2 merged into 0 is 0 and 1, where 2's images are called 0."""
    merged = streaming([[0, 1], [2]], test_share=0).merge("class 2", "class 0")
    x, y = photographs([2])
    named = streaming([[0, 1]], test_share=0).partial_fit(x, ["class 0"] * len(y))
    np.testing.assert_allclose(merged.predict_proba(NEW), named.predict_proba(NEW), atol=1e-6)
    assert merged.report_["groups"] == named.report_["groups"]
    ridge = {"memory": 0, "train": "head", "test_share": 0}
    merged = taught([[0, 1], [2]], "ft+acil", **ridge).merge("class 2", "class 0")
    named = taught([[0, 1]], "ft+acil", **ridge).partial_fit(x, ["class 0"] * len(y))
    np.testing.assert_allclose(merged.predict_proba(NEW), named.predict_proba(NEW), atol=1e-4)


@pytest.mark.parametrize("method", ["derpp+bfp+refit", "icarl"])
def test_stored_samples_of_merged_classes_are_of_one(method: str) -> None:
    classifier = taught([[0, 1], [2, 3]], method, memory=40).merge("class 3", "class 0")
    assert classifier.classes_.tolist() == ["class 0", "class 1", "class 2"]
    assert np.isfinite(classifier.partial_fit(*photographs([4])).predict_proba(NEW)).all()
    with pytest.raises(StateError, match="tells the two classes apart"):
        taught([[0, 1]], "er").merge("class 1", "class 0")


def test_wrong_labels_are_corrected_where_images_are_stored() -> None:
    x, y = photographs([0, 1, 2])
    wrong = [label.replace("1", "2") if i % 3 == 0 else label for i, label in enumerate(y)]
    chosen: dict[str, Any] = {"net": "cnn", "epochs": 1, "memory": 90, "test_share": 0.2}
    classifier = IncrementalClassifier("derpp+bfp+refit", **chosen).fit(x, wrong)
    (note,) = classifier.relabel(x, y)
    assert note == "90 of 90 images are stored, and have their new labels."
    learner = classifier.course_.learner
    assert learner is not None
    names = dict(zip(map(bytes, x.reshape(len(x), -1)), y, strict=True))
    for images in (learner.memory.images(), *(g.test for g in classifier.course_.groups)):
        for row, label in zip(images.pixels().numpy(), images.y.tolist(), strict=True):
            assert names[bytes(row.reshape(-1))] == classifier.columns_[label]
    with pytest.raises(StateError, match="none of these images is stored"):
        classifier.relabel(*photographs([0], seed=9))
    with pytest.raises(StateError, match="sums over images"):
        streaming([[0, 1]]).relabel(*photographs([0]))


# --- refused --------------------------------------------------------------------------------------


def test_what_cannot_be_changed_is_one_line_and_changes_nothing() -> None:
    classifier = taught([[0, 1], [2]], "er")
    before = classifier.predict_proba(NEW)
    for act, expected in (
        (lambda: classifier.forget(["class 7"]), "unknown class 'class 7'"),
        (lambda: classifier.forget([]), "name classes or images"),
        (lambda: classifier.forget(["class 0", "class 1", "class 2"]), "delete the model"),
        (lambda: classifier.rename("class 0", "class 1"), "merge them"),
        (lambda: classifier.merge("class 0", "class 0"), "with itself"),
    ):
        with pytest.raises(LinsepError, match=expected) as caught:
            act()
        assert "\n" not in str(caught.value)
        assert np.array_equal(classifier.predict_proba(NEW), before)
    numbers = IncrementalClassifier("ft", epochs=1, memory=0).fit(np.eye(8), [0, 1] * 4)
    assert changes.label_of(numbers.course_, "1") == 1
    with pytest.raises(ConfigError, match="are numbers"):
        changes.label_of(numbers.course_, "one")


def test_methods_that_were_tried_are_all() -> None:
    assert set(METHODS) - {"jt", *STILL} <= {method.partition("+")[0] for method in LEARNING}


ACTS: dict[str, Any] = {
    "forget": lambda course: changes.forget(course, ["class 1"])[0],
    "rename": lambda course: changes.rename(course, "class 1", "zebra")[0],
    "merge": lambda course: changes.merge(course, "class 1", "class 0")[0],
}


@pytest.mark.parametrize("kind", [deaths, sigkills])
@pytest.mark.parametrize(
    "what",
    ["forget", *(pytest.param(what, marks=pytest.mark.slow) for what in ("merge", "rename"))],
)
def test_a_process_that_dies_leaves_the_model_before_or_after(
    what: str, kind: Any, tmp_path: Path
) -> None:
    taught([[0, 1], [2]]).save(tmp_path / "shop")
    seen = set()
    for folder in kind(
        lambda folder: saved.change(folder, ACTS[what]),
        lambda name: Path(shutil.copytree(tmp_path / "shop", tmp_path / name)),
    ):
        seen.add(tuple(IncrementalClassifier.load(folder).classes_.tolist()))
        assert release_dead(folder)
        saved.settle(folder)
        IncrementalClassifier.load(folder)
        assert len(manifest.previous(folder)) <= 1
    assert len(seen) == 2


def test_the_commands(tmp_path: Path) -> None:
    x, y = photographs([0, 1, 2])
    for i, (image, label) in enumerate(zip(x, y, strict=True)):
        (tmp_path / "photos" / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).convert("RGB").save(tmp_path / "photos" / label / f"{i:02}.png")

    def run(*words: str) -> str:
        said = command(*words, cwd=tmp_path)
        assert said.returncode == 0, said.stderr
        return said.stdout

    run("learn", "shop", "photos", "--net", "cnn", "--epochs", "1", "--memory", "60", "-q")
    run("model", "rename", "shop", "class 0", "zebra")
    lines = [f"photos/class 1/{i}.png,zebra" for i in range(30, 35)]
    (tmp_path / "wrong.csv").write_text("\n".join(["file,label", *lines]))
    assert "images are stored" in run("model", "relabel", "shop", "wrong.csv")
    said = run("model", "forget", "shop", "--images", "photos/class 1/31.png", "--retrain-head")
    assert "Removed" in said
    run("model", "merge", "shop", "class 2", "zebra")
    assert "Classes: 2: class 1, zebra" in run("model", "shop")
    said = run("model", "forget", "shop", "--class", "class 1")
    assert "The weights were trained on these classes" in said
    assert "forgot 1 class" in run("model", "history", "shop")
    for words, expected in (
        (("undo", "shop"), "nothing to undo"),
        (("forget", "shop"), "--class or --images"),
        (("forget", "shop", "--class", "x"), "unknown class 'x'"),
        (("rename", "shop", "zebra", "\udcff"), "not UTF-8"),
        (("relabel", "shop", "photos"), "wrong.csv"[5:]),
    ):
        refused = command("model", *words, cwd=tmp_path)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused
        assert expected in refused.stderr


def test_a_saved_change_is_read_again(tmp_path: Path) -> None:
    classifier = taught([[0, 1], [2, 3]])
    classifier.forget(["class 1"])
    classifier.rename("class 0", "zebra")
    classifier.merge("class 3", "class 2")
    classifier.save(tmp_path / "shop")
    again = IncrementalClassifier.load(tmp_path / "shop")
    assert np.array_equal(again.predict_proba(NEW), classifier.predict_proba(NEW))
    shutil.rmtree(tmp_path / "shop")
