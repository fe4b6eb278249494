"""The classifier as scikit-learn expects one, and what becomes of unusual lessons."""

import copy
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.utils.estimator_checks import check_estimator

from linsep import IncrementalClassifier, LinsepError
from linsep.data.standard import fashion_mini
from linsep.learning.run import Run
from tests.helpers.combinations import LEARNING

EXPECTED_FAILURES = {
    "check_methods_subset_invariance": "float32 products round differently for other batch sizes",
}
QUICK = {"gdumb": {"epochs": 2}, "bic": {"bias_epochs": 2}, "lucir": {"fitting_epochs": 1}}


def small(method: str = "derpp+bfp", **more: Any) -> IncrementalClassifier:
    base = method.partition("+")[0]
    settings = {"net": {"options": {"width": 4}}, "options": {base: QUICK.get(base, {})}}
    chosen: dict[str, Any] = {"net": "cnn", "memory": 12, "epochs": 1, "settings": settings} | more
    return IncrementalClassifier(method, **chosen)


def images(n: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (n, 12, 12, 3), dtype=np.uint8)


def table(n: int = 20) -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(n, 3))


def fashion(classes: tuple[int, ...], n: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    found = fashion_mini().train.select(classes)
    rows = [found.take((found.y == c).nonzero()[:n, 0]) for c in classes]
    return np.concatenate([r.pixels().numpy() for r in rows]), np.repeat(classes, n)


# --- scikit-learn's conventions ------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.EstimatorCheckFailedWarning")
def test_check_estimator() -> None:
    found = check_estimator(
        IncrementalClassifier(epochs=3), expected_failed_checks=EXPECTED_FAILURES, on_fail=None
    )
    failed = [r["check_name"] for r in found if r["status"] == "failed"]
    assert not failed
    counts = Counter(r["status"] for r in found)
    assert counts["passed"] + counts["xfail"] >= 53
    assert counts["xfail"] <= len(EXPECTED_FAILURES)
    # Two checks need pandas or an environment variable.
    assert counts["skipped"] <= 2


# --- labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["long name", "b"]),
        np.array(["b", "a"], object),
        [True, False],
        [1.0, 2.0],
        [2**40, -5],
        torch.tensor([1, 0]),
    ],
    ids=repr,
)
def test_labels_come_back_as_they_were(labels: Any) -> None:
    y = np.asarray(list(labels) * 10)
    clf = IncrementalClassifier(epochs=1).fit(table(), y)
    assert clf.classes_.tolist() == sorted(set(y.tolist()))
    found = clf.predict(table()).tolist()
    assert {type(label) for label in found} == {type(y.tolist()[0])}
    assert set(found) <= set(y.tolist())


def test_below_the_limit_nothing_is_predicted() -> None:
    clf = small().fit(images(20), ["a", "b"] * 10)
    sure = clf.predict_proba(images(9)).max(1)
    found = clf.predict(images(9), unknown_below=float(np.median(sure)))
    assert [label is None for label in found] == (sure < np.median(sure)).tolist()


# --- unusual lessons -----------------------------------------------------------------------------

TWO = ["a", "b"] * 10
UNUSUAL = {
    "more of a known class": ["a"] * 10,
    "known and new together": ["a", "c"] * 5,
    "a single new class": ["d"] * 10,
    "one image of a class among others": ["e"] + ["f"] * 9,
    "one image of a class among known ones": ["g"] + ["a"] * 9,
    "one image of each class": ["h", "i"],
    "a class that returns": ["b", "j"] * 5,
}


@pytest.mark.parametrize("method", [*LEARNING, "derpp+bfp"])
def test_unusual_lessons(method: str) -> None:
    """Each after all before it."""
    clf = small(method).fit(images(20), TWO)
    known = set(TWO)
    for seed, (called, labels) in enumerate(UNUSUAL.items()):
        clf.partial_fit(images(len(labels), seed + 1), labels)
        known |= set(labels)
        assert clf.classes_.tolist() == sorted(known), called
        assert np.isfinite(clf.predict_proba(images(4))).all(), called
        assert len(clf.report_["groups"]) == 2 + seed


def test_more_of_a_known_class_is_learned() -> None:
    """Rows of a class that differ from those before it are recognised after they were shown."""
    x, y = fashion((0, 1, 8), 60)
    clf = IncrementalClassifier("er", "mlp", memory=60, epochs=8, test_share=0.0)
    clf.fit(x[:120], y[:120])
    bags = x[120:]  # called 1 from now on
    before = float(np.mean(clf.predict(bags) == 1))
    clf.partial_fit(bags, np.ones(60, np.int64))
    assert clf.classes_.tolist() == [0, 1]
    assert np.mean(clf.predict(bags) == 1) > max(0.8, before)
    assert clf.score(x[:120], y[:120]) > 0.8


# --- refused calls -------------------------------------------------------------------------------


class Stopped(KeyboardInterrupt):
    pass


REFUSED: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "another number of labels": (images(4), ["a"] * 3, {}),
    "labels of another kind": (images(4), [1, 2, 1, 2], {}),
    "no labels": (images(4), None, {}),
    "a table": (np.ones((4, 3)), TWO[:4], {}),
    "grey images for colour": (np.zeros((4, 5, 3), np.uint8), TWO[:4], {}),
    "one image": (images(1), ["c"], {}),
    "classes announced late": (images(4), TWO[:4], {"classes": ["a", "b", "c"]}),
    "more classes than memory": (images(26), [*"cdefghijklmno"] * 2, {}),
}


@pytest.mark.parametrize("method", ["derpp+bfp", "icarl", "bic"])
def test_refused_calls_lose_nothing(method: str) -> None:
    clf = small(method).fit(images(20), TWO)
    other = copy.deepcopy(clf)
    for called, (x, y, more) in REFUSED.items():
        with pytest.raises((ValueError, LinsepError)) as caught:
            clf.partial_fit(x, y, **more)
        assert "\n" not in str(caught.value)
        assert np.array_equal(clf.predict_proba(images(9)), other.predict_proba(images(9))), called
        assert clf.report_ == other.report_, called
    # ... and what follows is as if they had never been made.
    for one in (clf, other):
        one.partial_fit(images(10, 5), ["a", "c"] * 5)
    assert np.array_equal(clf.predict_proba(images(9)), other.predict_proba(images(9)))


def test_an_interrupted_lesson_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clf = small().fit(images(20), TWO)
    before = clf.predict_proba(images(9))
    step, done = Run._step, []

    def interrupted(self: Any, *given: Any, whole: bool) -> Any:
        done.append(1)
        if len(done) > 1:
            raise Stopped
        return step(self, *given, whole=whole)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_step", interrupted)
        with pytest.raises(Stopped):
            clf.partial_fit(images(60, 3), ["a", "c"] * 30)
    assert np.array_equal(clf.predict_proba(images(9)), before)


# --- what it reports -----------------------------------------------------------------------------


def test_the_report() -> None:
    x, y = fashion((0, 1, 8, 9), 60)
    clf = small("er", memory=40, epochs=4, test_share=0.2)
    clf.fit(x[:120], y[:120])
    first = clf.report_["groups"][0]["after"]
    clf.partial_fit(x[120:], y[120:])
    report = clf.report_
    assert report["new"] == [8, 9]
    assert [g["classes"] for g in report["groups"]] == [[0, 1], [8, 9]]
    assert report["groups"][0]["before"] == first
    assert report["groups"][1]["before"] is None
    assert report["forgotten"] == pytest.approx(first - report["groups"][0]["after"])
    assert report["images"] == 120
    assert f"<td>0, 1</td><td>{first:.1%}</td>" in report._repr_html_()
    assert "<td>8, 9</td><td>-</td>" in report._repr_html_()
    # Independent of the report: accuracy on the held-out rows of the course.
    test = clf.course_.groups[0].test
    right = np.mean(clf.predict(test.pixels().numpy()) == np.array(clf.columns_)[test.y])
    assert report["groups"][0]["after"] == pytest.approx(right)
