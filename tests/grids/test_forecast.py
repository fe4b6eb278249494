"""What a plan says that runs will take: by hand, against a run, and with a measured pace."""

import json
from pathlib import Path
from typing import Any

import pytest

from linsep.grids import forecast
from linsep.grids.forecast import described, forecasts, relative_compute
from linsep.learning.cost import TRAINED
from linsep.prepare import Prepared, prepare
from linsep.settings.config import from_settings
from linsep.storage.session import Session
from tests.helpers.command import TINY, command
from tests.helpers.own_parts import write

SETTINGS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 4, "train": 20, "test": 5},
    "memory": 8,
    "training": {"epochs": 3, "batch_size": 10},
}


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LINSEP_CACHE", str(tmp_path / "cache"))


def prepared(**more: Any) -> Prepared:
    return prepare(from_settings(SETTINGS | {"method": "derpp+bfp"} | more))


def test_images_compute_and_hours_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepared()
    (unknown,) = forecasts([made])
    assert (unknown.trained, unknown.tested) == (3 * 4 * 20, 2 * 5 + 4 * 5)
    assert unknown.compute == pytest.approx(3.0 + 1.34)
    assert unknown.seconds is None
    assert relative_compute("ft") == 1.0
    monkeypatch.setattr(forecast, "_paces", lambda: {forecast._key(made): 0.5})
    (known,) = forecasts([made])
    assert known.seconds == pytest.approx(0.5 * (TRAINED * 240 * 4.34 + 30))
    hour = known._replace(seconds=3600.0, size=3_000_000)
    assert described([hour] * 6, at_once=2) == (
        "Relative compute 4.34; 1440 images to train on and 180 to test; about 18.0 MB on disk; "
        "about 3.0 hours."
    )
    assert "about 1.0 hours" in described([hour], at_once=8), "one run is not divided"


@pytest.mark.parametrize("more", [{}, {"net": "mlp"}, {"training": {"momentum": 0.9}}])
def test_a_run_needs_about_the_room_that_was_said(more: Any, tmp_path: Path) -> None:
    made = prepared(**more)
    (expected,) = forecasts([made])
    with Session(made, tmp_path / "runs") as session:
        for _ in session:
            session.save()
    tensors = (p for p in session.folder.rglob("*.safetensors*") if p.name != "memory.safetensors")
    room = sum(path.stat().st_size for path in tensors)
    assert expected.size * 0.6 < room < expected.size * 1.2


def test_a_pace_is_measured_once_for_a_net_and_a_machine(tmp_path: Path) -> None:
    for words in (TINY, ("grid", *TINY[1:], "--over", "seed=0,1")):
        assert "hours unknown: --measure" in command(*words, "--dry-run", cwd=tmp_path).stdout
    said = command(*TINY, "--dry-run", "--measure", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    for words in (TINY, ("grid", *TINY[1:], "--over", "seed=0,1")):
        assert " minutes." in command(*words, "--dry-run", cwd=tmp_path).stdout
    assert "unknown" in command(*TINY, "--net", "mlp", "--dry-run", cwd=tmp_path).stdout
    (pace,) = json.loads((tmp_path / "cache" / "paces.json").read_bytes()).values()
    assert 0 < pace < 1
    assert not (tmp_path / "runs").exists()
    for damage in ("[]", "{", '{"a": "b"}'):
        (tmp_path / "cache" / "paces.json").write_text(damage)
        assert "hours unknown" in command(*TINY, "--dry-run", cwd=tmp_path).stdout
    said = command(*TINY, "--measure", cwd=tmp_path)
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
    assert "add --dry-run" in said.stderr


def test_what_a_users_method_computes_is_not_guessed(tmp_path: Path) -> None:
    made = prepared(method=f"{write(tmp_path)}:er_kd+bfp")
    line = described(forecasts([prepared(), made]))
    assert line.startswith("Relative compute 4.34; 480 images")
    assert line.endswith("hours unknown, because a method or an add-on is your own.")
