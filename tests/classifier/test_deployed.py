"""A saved classifier that only predicts: the same answers, without what learning needs."""

import multiprocessing
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from linsep import IncrementalClassifier, SavedClassifier
from linsep.storage.manifest import Params
from tests.helpers.made_data import noise

X = noise(0, 40, 12, 12, 3)
Y = ["ant", "bee", "cow", "dog"] * 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("deployed")
    settings = {"net": {"width": 8}}
    clf = IncrementalClassifier("derpp+bfp", "cnn", memory=12, epochs=1, settings=settings)
    clf.fit(X, Y).save(found / "model")
    clf.save(found / "without", memory=False)
    Image.fromarray(X[0]).save(found / "one.png")
    return found


@pytest.mark.parametrize("name", ["model", "without"])
def test_it_answers_as_the_classifier_does(name: str, folder: Path) -> None:
    whole, saved = (c.load(folder / name) for c in (IncrementalClassifier, SavedClassifier))
    wide = noise(1, 3, 19, 30, 3)
    for x in (X, wide, [folder / "one.png"]):
        assert np.array_equal(saved.predict_proba(x), whole.predict_proba(x))
        assert np.array_equal(saved.novelty(x), whole.novelty(x))
        assert np.array_equal(saved.predict(x, 0.3), whole.predict(x, 0.3))
        assert np.array_equal(saved.decision_function(x), whole.decision_function(x))


def test_a_forked_process_predicts_too(folder: Path) -> None:
    """Torch's threads are gone in it, and waiting for them would last for ever."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        saved = SavedClassifier.load(folder / "model")
        saved.predict(X)
        torch.randn(600, 600) @ torch.randn(600, 600)  # certainly on both
        child = multiprocessing.get_context("fork").Process(target=saved.predict, args=(X,))
        child.start()
        child.join(120)
        ended = child.exitcode
        child.kill()
    finally:
        torch.set_num_threads(before)
    assert ended == 0


def test_predicting_imports_neither_scikit_learn_nor_scipy(folder: Path) -> None:
    """They take as long to import as half of torch."""
    script = """
import sys
from linsep.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code
loaded = {name.partition(".")[0] for name in sys.modules}
assert "torch" in loaded
print(*sorted(loaded & {"sklearn", "scipy", "joblib", "pandas", "matplotlib"}))
print(*sorted({"torch._dynamo", "torch._inductor"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, "predict", "model", "one.png"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "one.png" in done.stdout
    assert done.stdout.splitlines()[-2:] == ["", ""]


def test_a_manifest_knows_the_parameters_of_a_classifier() -> None:
    """Their names and their defaults."""
    assert Params().model_dump() == IncrementalClassifier().get_params(deep=False)


def test_threads_get_the_answers_that_one_gets(folder: Path) -> None:
    """Eight threads at once, each with other images; what is measured once is measured once."""
    saved = SavedClassifier.load(folder / "model")
    images = [noise(seed, 9, 12, 12, 3) for seed in range(8)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda x: (saved.predict_proba(x), saved.novelty(x)), images * 4))
    alone = SavedClassifier.load(folder / "model")
    for (p, strange), x in zip(found, images * 4, strict=True):
        assert np.array_equal(p, alone.predict_proba(x))
        assert np.array_equal(strange, alone.novelty(x))


def test_a_process_forked_while_threads_predict_predicts_too(folder: Path) -> None:
    saved = SavedClassifier.load(folder / "model")
    wanted, ended = saved.predict_proba(X), threading.Event()

    def predict() -> None:
        while not ended.is_set():
            saved.predict_proba(X)

    def check() -> None:
        assert np.array_equal(saved.predict_proba(X), wanted)

    threads = [threading.Thread(target=predict) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        children = [multiprocessing.get_context("fork").Process(target=check) for _ in range(3)]
        for child in children:
            child.start()
            child.join(60)
        codes = [child.exitcode for child in children]
        for child in children:
            child.kill()
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert codes == [0, 0, 0]
