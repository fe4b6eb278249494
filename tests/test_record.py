"""What tiny runs of every method gave is what they give: accuracies, keys, losses and weights.

The record is in tests/record: results.json is written by scripts/record_results.py, and runs/ holds
folders of linsep 0.1.0 before its modules became packages, one of them stopped half-way.
"""

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command import command
from tests.helpers.recorded import CASES, calibration, observed, prepared

RECORDED = Path(__file__).parent / "record"
RECORD: dict[str, Any] = json.loads((RECORDED / "results.json").read_text(encoding="utf-8"))
needs_same_rounding = pytest.mark.skipif(
    calibration() != RECORD["calibration"],
    reason="this CPU or torch rounds differently from where the record was made",
)
FAST = {"ft", "er", "derpp", "derpp+bfp", "derpp+fd", "derpp+bfp2", "er_ace", "agem", "icarl+bfp"}


def cases() -> list[Any]:
    fast = {f"{method}/0" for method in FAST}
    return [pytest.param(name, marks=() if name in fast else pytest.mark.slow) for name in CASES]


def test_every_case_is_on_record() -> None:
    assert set(RECORD["runs"]) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_keys_are_those_on_record(name: str) -> None:
    assert prepared(name).name == RECORD["runs"][name]["name"]


@needs_same_rounding
@pytest.mark.parametrize("name", cases())
def test_numbers_are_those_on_record(name: str) -> None:
    assert observed(name) == RECORD["runs"][name]


# --- folders that an earlier version left behind --------------------------------------------------

OLD = RECORDED / "runs"
FINISHED = sorted(path.parent.name for path in OLD.glob("*/results.json"))
HALF = "fashion-mini-derpp+bfp-m20-s2-f0882f3a4c"
HALF_WEIGHTS = "c72d572fb79c03fdca5489fbc2690d4dda527ff7ed6dc0e26906ca53000b2213"
TINY_FLAGS = (
    "--set", "scenario.per_class=8", "--set", "scenario.test_per_class=4", "--set", "memory=20",
    "--set", "net=cnn", "--set", "net.width=8", "--set", "training.epochs=2",
    "--set", "training.batch_size=8", "--set", "compute.device=cpu", "--set", "compute.threads=1",
)  # fmt: skip


def results(folder: Path) -> Any:
    """As they read: an earlier version wrote every number of a matrix on a line of its own."""
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    shutil.copytree(OLD, tmp_path / "runs")
    return tmp_path


@needs_same_rounding
def test_a_grid_gives_the_folders_on_record(tmp_path: Path) -> None:
    over = ("--over", "method=er,derpp+bfp", "--over", "seed=0,1")
    assert command("grid", *over, *TINY_FLAGS, "-q", cwd=tmp_path).returncode == 0
    made = tmp_path / "runs"
    assert sorted(path.parent.name for path in made.glob("*/results.json")) == FINISHED
    for name in FINISHED:
        assert results(made / name) == results(OLD / name)
        for file in ("config.toml", "model.safetensors"):
            assert (made / name / file).read_bytes() == (OLD / name / file).read_bytes(), file


@needs_same_rounding
def test_a_half_finished_run_of_an_earlier_version_resumes_bit_for_bit(old: Path) -> None:
    said = command("run", "--method", "derpp+bfp", "--seed", "2", *TINY_FLAGS, cwd=old)
    assert said.returncode == 0, said.stderr
    ended = old / "runs" / HALF
    expected = (RECORDED / "half_finished.results.json").read_text(encoding="utf-8")
    assert results(ended) == json.loads(expected)
    assert sha256((ended / "model.safetensors").read_bytes()).hexdigest() == HALF_WEIGHTS


def test_runs_of_an_earlier_version_are_listed(old: Path) -> None:
    listed = json.loads(command("runs", "--format", "json", cwd=old).stdout)
    assert {row["name"] for row in listed} == {*FINISHED, HALF}


def test_runs_of_an_earlier_version_compare_as_they_did(old: Path) -> None:
    rows = json.loads(command("compare", "--format", "json", cwd=old).stdout)["rows"]
    expected = json.loads((RECORDED / "compare.json").read_text(encoding="utf-8"))
    assert len(rows) == len(expected)
    for row, known in zip(rows, expected, strict=True):
        for field, value in known.items():
            close = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            assert row[field] == close, (row, field)


def test_runs_of_an_earlier_version_make_a_report(old: Path) -> None:
    pytest.importorskip("matplotlib")
    said = command("report", "-o", "report.html", cwd=old)
    assert said.returncode == 0, said.stderr
    text = (old / "report.html").read_text(encoding="utf-8")
    for number in ("17.50", "85.00", "84.38", "95.00", "80.00"):  # FAA, ALA, FF; Task-IL FAA
        assert number in text, number
