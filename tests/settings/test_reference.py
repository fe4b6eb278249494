"""The reference of settings is complete, true, and the page in docs/."""

import json
import re
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from linsep.data.registry import SOURCES
from linsep.errors import ConfigError
from linsep.methods import ADDONS, METHODS
from linsep.resolve import resolve
from linsep.settings.catalogue import PRESETS
from linsep.settings.config import all_settings, from_settings
from linsep.settings.layers import flat, full_name, nested
from tests.helpers.command import command

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
Some = Annotated[float, Field(ge=0, lt=1, description="A share.")]
AGAIN = "linsep list settings --format markdown -o docs/settings.md"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    where = tmp_path_factory.mktemp("listed")
    said = command("list", "settings", "--format", "json", cwd=where)
    return {row["setting"]: row for row in json.loads(said.stdout)["rows"]}


def test_the_page_is_what_the_code_says(tmp_path: Path) -> None:
    said = command("list", "settings", "--format", "markdown", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    same = PAGE.read_text(encoding="utf-8") == said.stdout
    assert same, f"docs/settings.md is out of date; write it again: {AGAIN}"


def test_every_setting_is_described() -> None:
    bare = [setting.name for setting in all_settings() if not setting.line.endswith(".")]
    assert not bare, f"put a sentence below these fields of settings/sections.py: {bare}"


def test_every_option_is_described(rows: dict[str, dict[str, str]]) -> None:
    bare = [name for name, row in rows.items() if not row["what it does"].endswith(".")]
    assert not bare, f"describe these in src/linsep/settings/catalogue.toml: {bare}"


def test_every_field_of_a_resolved_run_is_listed(rows: dict[str, dict[str, str]]) -> None:
    """Whatever `linsep show` prints of a run has a line, options included."""
    for method in [*METHODS, *(f"er+{term}" for term in ADDONS)]:
        config = resolve(from_settings({"method": method, "scenario": "blobs"}))
        for name in map(full_name, flat(config.model_dump())):
            inside = any(row.startswith(f"{name}.") for row in rows)  # a section left out
            assert name in rows or inside, name


@pytest.mark.parametrize("setting", all_settings(), ids=lambda setting: setting.name)
def test_the_listed_range_is_the_one_that_is_checked(setting: object) -> None:
    """Just inside a bound is accepted, just outside is refused."""
    name, kind = setting.name, setting.type  # type: ignore[attr-defined]
    if " in " not in kind or "list" in kind or " or " in kind:
        return
    low, high = kind.partition(" in ")[2].strip("[]()").split(", ")
    number = int if kind.startswith("integer") else float
    ends = [number(float(end)) if end != "2^63" else 2**63 for end in (low, high)]
    inside = [kind.partition(" in ")[2][0] == "[", kind.endswith("]")]
    step = 1 if number is int else 0.01
    for end, closed, outwards in zip(ends, inside, (-step, step), strict=True):
        at_the_end = nested(name, end)
        beyond = nested(name, end + outwards if abs(end) < 1e20 else end * 10)
        if closed:
            from_settings(at_the_end)
        else:
            with pytest.raises(ConfigError, match=name):
                from_settings(at_the_end)
        with pytest.raises(ConfigError, match=name):
            from_settings(beyond)


def test_who_sets_a_setting_is_named(rows: dict[str, dict[str, str]]) -> None:
    for name, source in SOURCES.items():
        for field, value in flat(source.suggests).items():
            shown = json.dumps(list(value) if isinstance(value, tuple) else value)
            assert rows[field]["default"] == shown or name in rows[field]["set by"], (name, field)
    for preset, content in PRESETS.items():
        parts = flat(content["options"])
        for field, value in parts.items():
            same = rows[field]["default"] == json.dumps(value)
            assert same or preset in rows[field]["set by"], (preset, field)
    assert "0.1 (ft, jt, er" in rows["training.lr"]["set by"]


def test_the_page_on_the_paper_has_what_its_presets_change(rows: dict[str, dict[str, str]]) -> None:
    """docs/fidelity.md: the default, `paper` and `authors`; in a row of several, one for each."""
    text = (PAGE.parent / "fidelity.md").read_text("utf-8")
    shown = {}
    for line in re.findall(r"^\| \[.*\]\(.*\) \| `.*` \|$", text, re.MULTILINE):
        names, *values = (re.findall(r"`([^`]*)`", cell) for cell in line.split("|")[2:-1])
        for i, name in enumerate(names):
            shown[name] = [cell[i if len(cell) > 1 else 0] for cell in values]
    presets = [flat(PRESETS[preset]) for preset in ("paper", "authors")]
    for field in presets[0] | presets[1]:
        name = field.removeprefix("options.")
        default = json.loads(rows[name]["default"])
        values = [default, *(preset.get(field, default) for preset in presets)]
        if not name.startswith(("bfp2.", "fd.")):  # as bfp
            told = shown.pop(name, None)
            assert (told is None) == (len(set(values)) == 1 and name != "bfp.on"), name
            assert told is None or list(map(_bare, told)) == values, name
    assert not shown


def _bare(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def test_a_part_of_the_list_can_be_asked_for(tmp_path: Path) -> None:
    said = command("list", "settings", "bfp.weight", cwd=tmp_path).stdout
    assert "bfp.weight" in said
    assert "training.lr" not in said
    wrong = command("list", "settings", "momentun", cwd=tmp_path)
    assert "Did you mean 'training.momentum'?" in wrong.stderr
