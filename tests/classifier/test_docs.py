"""What docs/keep-learning.md shows, run; and the numbers that it prints."""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from linsep import IncrementalClassifier
from tests.helpers.command import command
from tests.helpers.snippets import blocks, commands

PAGE = Path(__file__).parents[2] / "docs" / "keep-learning.md"
TEXT = PAGE.read_text("utf-8")


@pytest.mark.slow
def test_the_page_runs_and_its_numbers_are_those(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    known: dict[str, Any] = {}
    for block in blocks(PAGE):
        if block.kind == "python":
            exec(compile(block.text, str(PAGE), "exec"), known)
    _write_photos(known)
    for block in blocks(PAGE):
        for typed in commands(block) if block.kind in ("", "console") else ():
            _run(typed.words, tmp_path)
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


def _write_photos(known: dict[str, Any]) -> None:
    """The page's images in folders, a month and a class each."""
    for month in known["months"]:
        for i, (image, label) in enumerate(zip(*known["delivered"](month), strict=True)):
            folder = Path("photos") / month / label.replace("/", " or ")
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image[0]).save(folder / f"{i}.png")
    Path("photos/customer-17").mkdir()
    shutil.copy(next(Path("photos/january/Dress").iterdir()), "photos/customer-17/one.png")
    dresses = [f"{path},Dress" for path in Path("photos/january/Dress").iterdir()]
    Path("corrected.csv").write_text("\n".join(["file,label", *dresses]))


def _run(words: tuple[str, ...], folder: Path) -> None:
    """A command of the page; those for photographs at 224x224 are only parsed."""
    program, *rest = words
    if program != "linsep":
        return
    if "catalogue" in rest or "--start-from" in rest:
        rest = [*rest, "--help"]
    if "cnn" in rest:
        rest = [*rest, "--epochs", "2", "--quiet"]
    said = command(*rest, cwd=folder)
    assert said.returncode == 0, said.stderr
