"""What docs/production.md shows, run: a year of a shop, and its client against a server."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from linsep.data.standard import fashion_mini
from tests.classifier.test_export import can_export
from tests.helpers.command import command
from tests.helpers.served import serving
from tests.helpers.snippets import blocks, commands

PAGE = Path(__file__).parents[2] / "docs" / "production.md"
MONTHS = {"january": ("Dress", "Coat"), "february": ("Sandal",), "march": ("Bag",)}


@pytest.mark.slow
def test_the_page_runs_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    can_export()
    pytest.importorskip("uvicorn")
    monkeypatch.chdir(tmp_path)
    _write_photos(tmp_path / "photos")
    said = []
    for block in blocks(PAGE):
        for typed in commands(block) if block.kind == "" else ():
            program, *words = typed.words
            if program != "linsep" or words[0] == "serve":
                continue
            words += ["--epochs", "2"] if "cnn" in words else []
            found = command(*words, cwd=tmp_path)
            assert found.returncode == 0, f"{typed.place}: {found.stderr}"
            said.append(found.stdout)
    assert re.search(r"^novelty .* yes$", said[3], re.MULTILINE), said[3]
    assert "Bag" not in command("model", "shop/", cwd=tmp_path).stdout
    assert "Coat" not in command("model", "shop/", "--format", "csv", cwd=tmp_path).stdout
    assert (tmp_path / "shop.html").read_text().count("<section") > 3
    client: dict[str, Any] = {}
    (code,) = (block for block in blocks(PAGE) if block.kind == "python")
    exec(compile(code.text, str(PAGE), "exec"), client)
    with serving(tmp_path / "shop", log=tmp_path / "log") as server:
        address = f"http://127.0.0.1:{server.port}"
        sent = sorted((tmp_path / "photos" / "february" / "Sandal").glob("*.png"))[:3]
        answers = client["classify"](*sent, server=address)
    assert [one["file"] for one in answers] == [path.name for path in sent]
    assert {one["class"] for one in answers} <= {"Dress", "Sandal"}


def _write_photos(place: Path) -> None:
    data = fashion_mini()
    pixels, names = data.train.pixels().numpy()[:, 0], np.array(data.names)[data.train.y]
    for month, classes in MONTHS.items():
        for name in classes:
            folder = place / month / name
            folder.mkdir(parents=True)
            for i, image in enumerate(pixels[names == name][:200]):
                Image.fromarray(image).save(folder / f"{i}.png")
