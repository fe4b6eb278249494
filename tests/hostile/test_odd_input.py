"""Input that no one means: pipes and devices, folders as files, numbers out of their range."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linsep import IncrementalClassifier
from linsep.errors import ConfigError, DataError, StateError
from linsep.learning import metrics
from linsep.settings.layers import read
from linsep.storage.bundle import _checked, _comment
from linsep.storage.files import digest
from tests.helpers.command import command
from tests.helpers.made_reports import make_full_run
from tests.helpers.undrawn import undrawn


def test_a_huge_config_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.toml"
    with path.open("wb") as file:
        file.truncate(10**9)  # of which the disk has nothing
    with pytest.raises(ConfigError, match="1000000000 bytes are too many"):
        read(path)


def test_a_damaged_stream_in_a_sealed_bundle_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b"{}" + b" " * 3000)
        archive.comment = _comment("0" * 32)
    whole = bytearray(path.read_bytes())
    start = whole.index(b"manifest.json") + len("manifest.json")
    for flipped in range(start, start + 12):
        content = bytearray(whole)
        content[flipped] ^= 0xFF
        sealed = bytes(content[: -len(_comment("0" * 32))])
        with pytest.raises(StateError) as error:
            _checked(sealed + _comment(digest(sealed)), path)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("matrix", [[], [[0.5, 0.5]], [[[0.5]]], [0.5]])
def test_a_matrix_that_is_none_has_no_metrics(matrix: Any) -> None:
    for metric in metrics.METRICS.values():
        with pytest.raises(DataError, match="a row and a column for each task"):
            metric.of(matrix)


def test_escapes_in_a_path_are_not_printed(tmp_path: Path) -> None:
    make_full_run(tmp_path / "runs", "er", 0, tasks=2, classes=4, parts=())
    evil = "\x1b[31mred"
    for words in (
        ("report", "-o", evil), ("report", "--format", "svg", "--figures", f"{evil}-figures"),
        ("compare", "--format", "csv", "-o", f"{evil}.csv"), ("runs", "--runs", evil),
        ("data", "draw", "blobs", "-o", f"{evil}.png"), ("list", "settings", evil),
    ):  # fmt: skip
        with undrawn():
            said = command(*words, cwd=tmp_path)
        assert "\x1b" not in said.stdout + said.stderr, words
        assert "[31mred" in said.stdout + said.stderr, words


def test_parameters_out_of_their_range_are_one_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (12, 8, 8), dtype=np.uint8), ["a", "b"] * 6
    with pytest.raises(ConfigError, match="random_state: should be"):
        IncrementalClassifier(net="mlp", random_state=-1).fit(x, y)
    made = IncrementalClassifier(method="ft", net="mlp", epochs=1).fit(x, y)
    with pytest.raises(ConfigError, match="unknown_below: should be from 0 to 1, not 2"):
        made.predict(x, unknown_below=2)
    with pytest.raises(ConfigError, match="path: name a folder"):
        made.save("")
    made.save(tmp_path / "model")
    told = json.loads((tmp_path / "model" / "manifest.json").read_text())
    entry = told["classifier"]["history"][0]
    for history in ([], [entry | {"groups": []}]):
        changed = told | {"classifier": told["classifier"] | {"history": history}}
        (tmp_path / "model" / "manifest.json").write_text(json.dumps(changed))
        said = command("model", "model", cwd=tmp_path)
        assert said.returncode == 2
        assert "history: should have each lesson" in said.stderr
        assert "Traceback" not in said.stderr
