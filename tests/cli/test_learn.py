"""`linsep learn`, `predict` and `model`: what a user types, and what comes of it."""

import json
import multiprocessing
import random
import re
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from linsep.classifier.estimator import IncrementalClassifier
from linsep.cli.progress import Watcher
from linsep.storage import manifest
from tests.helpers.command import Said, command
from tests.helpers.made_data import write_image
from tests.helpers.real_runs import model_contents

KILLS = 20
MONTHS = {"january": ("ant", "bee"), "february": ("cow", "dog"), "march": ("elk", "ant")}
MAKING = "--net cnn --epochs 3 --batch-size 8 --memory 15 --set net.width=8".split()  # noqa: SIM905
MOMENTUM = ("--set", "training.momentum=0.9")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for m, (month, classes) in enumerate(MONTHS.items()):
        for c, name in enumerate(classes):
            for i in range(20):
                write_image(folder / month / name / f"{i}.png", 100 * m + 50 * c + i)
    return folder


def learn(folder: Path, photos: Path, month: str, *more: str) -> Said:
    making = (*MAKING, *MOMENTUM)
    return command("learn", str(folder), str(photos / month), *making, *more, cwd=photos)


@pytest.fixture(scope="module")
def january(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned January; not to be changed."""
    model = tmp_path_factory.mktemp("january") / "model"
    assert learn(model, photos, "january").returncode == 0
    return model


def test_month_by_month(photos: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    for month in MONTHS:
        said = learn(model, photos, month)
        assert said.returncode == 0, said.stderr
    assert "new: elk" in said.stdout
    assert "knows 5 classes" in said.stdout
    assert re.search(r"ant, bee .*cow, dog", said.stdout, re.DOTALL)
    shown = command("model", str(model), cwd=tmp_path)
    assert "Classes: 5: ant, bee, cow, dog, elk" in shown.stdout
    found = command("predict", str(model), str(photos / "march"), "--format", "json", cwd=tmp_path)
    rows = json.loads(found.stdout)["rows"]
    loaded = IncrementalClassifier.load(model)
    paths = [Path(row["file"]) for row in rows]
    assert len(paths) == 40
    assert [row["class"] for row in rows] == loaded.predict(paths).tolist()
    best = loaded.predict_proba(paths).max(axis=1)
    assert [row["probability"] for row in rows] == pytest.approx(best.tolist(), abs=1e-12)


def test_the_commands_learn_what_python_does(january: Path, photos: Path, tmp_path: Path) -> None:
    settings = {"net": {"width": 8}, "training": {"momentum": 0.9}}
    known = IncrementalClassifier(
        net="cnn", epochs=3, batch_size=8, memory=15, settings=settings
    ).fit(photos / "january")
    known.save(tmp_path / "python")
    a, b = model_contents(january), model_contents(tmp_path / "python")
    assert a["model.safetensors"] == b["model.safetensors"]
    assert a["memory.safetensors"] == b["memory.safetensors"]


def test_names_that_are_not_utf_8(photos: Path, tmp_path: Path) -> None:
    odd = tmp_path / "fotos \udce4\n"
    odd.symlink_to(photos / "january")
    said = command("learn", "m\udcff", str(odd), *MAKING, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    said = command("predict", "m\udcff", str(odd / "ant" / "1.png"), cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert r"\udce4\n" in said.stdout


def test_a_model_is_shown_without_torch(january: Path) -> None:
    code = (
        "import sys; from linsep.cli.commands import app;"
        f"app(['model', {str(january)!r}], standalone_mode=False);"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def _work(folder: Path, photos: Path, month: str) -> None:
    learn(folder, photos, month, "--save-every", "0", "-q")  # so that many kills fall into a save


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_lesson_is_saved_and_resumes(
    number: signal.Signals,
    january: Path,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, seen = Watcher.see, []

    def see(self: Watcher, event: Any) -> None:
        seen.append(event)
        if len(seen) == 4:
            signal.raise_signal(number)
        real(self, event)

    monkeypatch.setattr(Watcher, "see", see)
    said = learn(tmp_path / "model", photos, "january")
    assert said.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert "Repeat the command to resume" in said.stdout
    assert "holds no model yet" in command("model", str(tmp_path / "model"), cwd=tmp_path).stderr
    said = learn(tmp_path / "model", photos, "january")
    assert "resuming from step 4 of" in said.stdout
    assert model_contents(tmp_path / "model") == model_contents(january)


@pytest.mark.slow
def test_sigkill_at_20_random_moments_of_learn(photos: Path, tmp_path: Path) -> None:
    fork, moments, kills = multiprocessing.get_context("fork"), random.Random(0), 0
    began = time.monotonic()
    for month in MONTHS:
        _work(tmp_path / "straight", photos, month)
    duration = (time.monotonic() - began) / 3
    straight = model_contents(tmp_path / "straight")
    for number in count():  # of a model, for in some passes nobody is killed
        if kills >= KILLS:
            break
        folder = tmp_path / f"model {number}"
        for month in MONTHS:
            process = None
            while process is None or process.exitcode != 0:  # the command is repeated to its end
                process = fork.Process(target=_work, args=(folder, photos, month))
                process.start()
                process.join(moments.uniform(0.05, 0.6) * duration)
                kills += process.exitcode is None
                process.kill()
                process.join()
                if manifest.read(folder).classifier:
                    IncrementalClassifier.load(folder)  # a whole one, at every moment
        assert model_contents(folder) == straight
