"""The configs that come with linsep: in the package, known by name, and never hidden by a file."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from linsep.errors import ConfigError
from linsep.grids.plan import expand, in_parts
from linsep.resolve import resolve
from linsep.settings.config import from_settings
from linsep.settings.layers import read_config, shipped
from tests.helpers.command import command

ROOT = Path(__file__).parents[2]


def test_the_package_holds_them() -> None:
    packed = {file.name for file in (files("linsep") / "configs").iterdir()}
    assert packed == {f"{name}.toml" for name in shipped()}
    assert {"example", "fashion-mini", "table1-cifar10"} <= set(shipped())


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
