"""The configs that come with linsep: in the package, known by name, and never hidden by a file."""

import csv
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from linsep.errors import ConfigError
from linsep.grids.plan import expand, in_parts
from linsep.resolve import resolve
from linsep.settings.catalogue import METHODS
from linsep.settings.config import from_settings
from linsep.settings.layers import flat, read_config, shipped
from tests.helpers.combinations import STILL
from tests.helpers.command import command

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", shipped())
def test_each_is_a_run_or_a_grid_and_says_what_it_is(name: str) -> None:
    line = shipped()[name]
    assert line.endswith(".")
    assert len(line) < 95
    every = [one for part in in_parts(read_config(name)) for one in expand(part)]
    for combination in every:
        resolve(from_settings(combination), lenient=True, here=False)


def test_a_name_is_a_config_of_linsep_and_a_path_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("example", "example.toml", "mine"):
        Path(file).write_text("seed = 7\n", encoding="utf-8")
    assert read_config("example")["seed"] == 0
    assert read_config("./example") == read_config("example.toml") == {"seed": 7}
    with pytest.raises(ConfigError, match=r"write \./mine for the file here"):
        read_config("mine")
    with pytest.raises(ConfigError, match=r"Did you mean 'example'\?.*needs a slash or ends"):
        read_config("exampel")
    with pytest.raises(ConfigError, match=r"No such file.*; linsep's own is called fashion-mini"):
        read_config("configs/fashion-mini.toml")


def test_every_config_that_a_page_or_a_help_names_comes_with_linsep() -> None:
    pages = [ROOT / "README.md", ROOT / "Makefile", *(ROOT / "docs").rglob("*.md")]
    pages += (ROOT / "src/linsep/cli").glob("*.py")
    words = r"(?:linsep (?:run|grid|search)|--grid) +([\w./-]+)"
    named = {
        name
        for page in pages
        for name in re.findall(words, page.read_text(encoding="utf-8"))
        if not name.startswith("-") and not name.endswith(".toml")
    }
    assert {"fashion-mini", "example"} <= named
    assert named <= set(shipped()) | {"or"}, named - set(shipped())


def test_they_are_listed_and_run_by_name(tmp_path: Path) -> None:
    assert "fashion-mini " in command("list", "configs", cwd=tmp_path).stdout
    said = command("grid", "fashion-mini", "--dry-run", cwd=tmp_path)
    assert said.stdout.startswith("15 runs: 15 new")
    one = command("run", "fashion-mini", "--method", "er", "--seed", "0", "--dry-run", cwd=tmp_path)
    assert one.stdout.splitlines()[-1].startswith("new            fashion-mini-er-m100-s0-")
    several = command("run", "fashion-mini", "--seed", "0", cwd=tmp_path)
    assert "has a list for method" in several.stderr


# --- what all-fashion-mini says of each method is what the recorded search found best ------------

RECORD = ROOT / "results" / "tuning" / "fashion-mini.csv"
NAMES = {entry.title: method for method, entry in METHODS.items()}
Tried = tuple[float, float, str, float]  # FAA on held-out images, rate, weight's name and value


def recorded() -> Iterator[tuple[str, Tried]]:
    with RECORD.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            title, _, option = row["method"].partition(", ")
            name, _, value = option.partition("=")
            rate = float(row["setting"].removeprefix("lr="))
            yield NAMES[title], (round(float(row["FAA"]), 2), rate, name, float(value or 0))


def parts() -> dict[str, dict[str, Any]]:
    """The settings of each method in the grid, with its first seed."""
    return {
        runs[0]["method"]: runs[0]
        for runs in map(expand, in_parts(read_config("all-fashion-mini")))
    }


def test_every_method_has_the_values_that_did_best() -> None:
    tried: dict[str, list[Tried]] = {}
    for method, one in recorded():
        tried.setdefault(method, []).append(one)
    assert tried.keys() == parts().keys() == set(METHODS) - set(STILL)
    for method, settings in parts().items():
        # the best; of equals the one with the smallest rate, and then the smallest weight
        _, rate, name, value = min(tried[method], key=lambda one: (-one[0], one[1], one[3]))
        assert settings["training"]["lr"] == rate, method
        own = flat(settings.get("options", {}))
        assert own == ({f"{method}.{name}": value} if name else {}), method


def test_the_record_has_everything_that_was_tried() -> None:
    """But for what diverged: DER with the largest rate and the largest weight."""
    wanted = set()
    for grid in in_parts(read_config("tuning-fashion-mini")):
        for settings in expand(grid):
            own = flat(settings.get("options", {}))
            method, rate = settings["method"], settings["training"]["lr"]
            wanted.add((method, rate, next(iter(own.values()), 0.0)))
    found = {(method, rate, value) for method, (_, rate, _, value) in recorded()}
    assert wanted - found == {("der", 1.0, 3.0)}
    assert found <= wanted


def test_the_search_was_the_same_for_all_and_saw_no_test_image() -> None:
    grids = [list(expand(grid)) for grid in in_parts(read_config("tuning-fashion-mini"))]
    every = [settings for grid in grids for settings in grid]
    assert {settings["scenario"]["validation"] for settings in every} == {0.1}
    tuned = {settings["seed"] for settings in every}
    shown = {s["seed"] for grid in in_parts(read_config("all-fashion-mini")) for s in expand(grid)}
    assert not tuned & shown
    assert tuned == {100, 101}
    for settings, seed in product(every, tuned):
        assert {**settings, "seed": seed} in every
