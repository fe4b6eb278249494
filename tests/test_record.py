"""What tiny runs of every method gave is what they give: accuracies, losses and weights.

The record, tests/record/results.json, is written by scripts/record_results.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command import command
from tests.helpers.recorded import CASES, calibration, observed

RECORDED = Path(__file__).parent / "record"
RECORD: dict[str, Any] = json.loads((RECORDED / "results.json").read_text(encoding="utf-8"))
needs_same_rounding = pytest.mark.skipif(
    calibration() != RECORD["calibration"],
    reason="this CPU or torch rounds differently from where the record was made",
)
FAST = {"ft", "er", "derpp", "derpp+bfp", "derpp+fd", "derpp+bfp2", "er_ace", "agem", "icarl+fd"}


def cases() -> list[Any]:
    fast = {f"{method}/0" for method in FAST}
    return [pytest.param(name, marks=() if name in fast else pytest.mark.slow) for name in CASES]


def test_every_case_is_on_record() -> None:
    assert set(RECORD["runs"]) == set(CASES)


@needs_same_rounding
@pytest.mark.parametrize("name", cases())
def test_numbers_are_those_on_record(name: str) -> None:
    assert observed(name) == RECORD["runs"][name]


TINY_FLAGS = (
    "--set", "scenario.per_class=8", "--set", "scenario.test_per_class=4", "--set", "memory=20",
    "--set", "net=cnn", "--set", "net.width=8", "--set", "training.epochs=2",
    "--set", "training.batch_size=8", "--set", "compute.device=cpu", "--set", "compute.threads=1",
)  # fmt: skip


@needs_same_rounding
def test_a_grid_gives_the_numbers_on_record(tmp_path: Path) -> None:
    over = ("--over", "method=er,derpp+bfp", "--over", "seed=0,1")
    assert command("grid", *over, *TINY_FLAGS, "-q", cwd=tmp_path).returncode == 0
    for method in ("er", "derpp+bfp"):
        for seed in (0, 1):
            (found,) = tmp_path.glob(f"runs/fashion-mini-{method}-m20-s{seed}-*/results.json")
            matrix = json.loads(found.read_text(encoding="utf-8"))["matrices"]["class_il"]
            seen = [[value for value in row if value is not None] for row in matrix]
            assert seen == RECORD["runs"][f"{method}/{seed}"]["class_il"]
