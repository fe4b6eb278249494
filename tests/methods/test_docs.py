"""The pages of the methods say what the code does: options, names, and an example that runs."""

import importlib
import json
import re
from pathlib import Path

import pytest

from linsep.methods import METHODS, TERMS, recipe
from linsep.settings.signature import options_of

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", METHODS)
def test_a_methods_page_lists_its_options(name: str) -> None:
    assert _options(DOCS / "methods" / f"{name}.md") == _written(name)


def test_the_backward_page_lists_the_options_of_all_three() -> None:
    listed = _options(DOCS / "methods" / "bfp.md")
    for name in TERMS:
        assert _written(name).items() <= listed.items()
    assert _written("bfp") == listed


@pytest.mark.parametrize("page", sorted((DOCS / "methods").glob("*.md")), ids=lambda p: p.stem)
def test_code_that_a_page_names_is_there(page: Path) -> None:
    """[`losses.less_forget`](../../src/linsep/learning/losses.py)"""
    links = re.findall(
        r"\[`([\w., ]+)`\]\([./]*src/([\w/]+)\.py\)", page.read_text(encoding="utf-8")
    )
    assert links or page.stem == "README"
    for names, path in links:
        module = importlib.import_module(path.replace("/", "."))
        for name in names.split(","):
            found: object = module
            for attribute in name.strip().removeprefix("methods.").split(".")[1:]:
                found = getattr(found, attribute)


def test_every_method_has_a_page_and_the_index_knows_it() -> None:
    index = (DOCS / "methods" / "README.md").read_text(encoding="utf-8")
    for name in METHODS:
        assert f"({name}.md)" in index


def test_your_own_method_runs_and_keeps_the_laws() -> None:
    text = (DOCS / "your-method.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    space: dict[str, object] = {"__name__": "example"}
    for block in blocks:
        exec(compile(block, "your-method.md", "exec"), space)
    lines = [line for line in blocks[0].splitlines() if line.strip()]
    assert len(lines) <= 30


def _options(page: Path) -> dict[str, str]:
    text = page.read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", text, re.MULTILINE))


def _written(name: str) -> dict[str, str]:
    return {option: json.dumps(default) for option, default in options_of(recipe(name)).items()}
