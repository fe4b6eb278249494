"""What docs/keep-learning.md shows, run; and the numbers that it prints."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linsep import IncrementalClassifier
from tests.helpers.command import command

PAGE = Path(__file__).parents[2] / "docs" / "keep-learning.md"
TEXT = PAGE.read_text("utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.slow
def test_the_page_runs_and_its_numbers_are_those(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    known: dict[str, Any] = {}
    for kind, code in BLOCKS:
        if kind == "python":
            exec(compile(code, str(PAGE), "exec"), known)
        for line in code.splitlines() if not kind else ():
            said = command(*line.split()[1:], cwd=tmp_path)
            assert said.returncode == 0, said.stderr
    shop, new, truth = known["shop"], known["new"], known["truth"]
    (row,) = re.findall(r"^\| March.*", TEXT, re.MULTILINE)
    mine, tuned, anew = map(float, row.split("|")[2:5])
    assert 100 * shop.score(new, truth) == pytest.approx(mine, abs=1.5)
    how: dict[str, Any] = {"net": "cnn", "epochs": 5, "like": "fashion-mini"}
    everything = IncrementalClassifier("ft", **how).fit(known["images"], known["labels"])
    assert 100 * everything.score(new, truth) == pytest.approx(anew, abs=1.5)
    alone = IncrementalClassifier("ft", **how)
    for month in known["months"]:
        alone.partial_fit(*known["delivered"](month))
    assert 100 * alone.score(new, truth) == pytest.approx(tuned, abs=1.5)
    assert "Bag" not in command("model", "boutique", cwd=tmp_path).stdout
    assert len(Path("bags.csv").read_text().splitlines()) == 501
    sizes = {path.name: path.stat().st_size for path in Path("shop").iterdir()}
    assert 0.5e6 < sizes["memory.safetensors"] < 0.7e6
    assert sizes["model.safetensors"] < 0.15e6
    deployed = IncrementalClassifier.load("shop-deployed")
    assert np.array_equal(deployed.predict(new), shop.predict(new))
