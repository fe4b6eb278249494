"""The pages of the methods say what the code does: options and names."""

import importlib
import json
import re
from pathlib import Path

import pytest

from linsep.methods import ADDONS, METHODS
from linsep.settings.signature import options_of

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", METHODS)
def test_a_methods_page_lists_its_options(name: str) -> None:
    page = METHODS[name].page
    listed = _options(DOCS / "methods" / f"{page or name}.md")
    assert _written(name).items() <= listed.items()
    assert page or _written(name) == listed


@pytest.mark.parametrize("name", ADDONS)
def test_a_terms_page_lists_its_options(name: str) -> None:
    page = ADDONS[name].page
    listed = _options(DOCS / "methods" / f"{page or name}.md")
    assert _written(name).items() <= listed.items()
    assert page or _written(name) == listed


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
    for page in {about.page or name for name, about in (METHODS | ADDONS).items()}:
        assert f"({page}.md)" in index


def test_figures_and_verdicts_are_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """python scripts/renew_docs.py"""
    monkeypatch.syspath_prepend(str(DOCS.parent / "scripts"))
    pages = importlib.import_module("renew_docs")
    stale = [path.name for path, content in pages.renewed() if path.read_text("utf-8") != content]
    assert not stale


def _options(page: Path) -> dict[str, str]:
    text = page.read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", text, re.MULTILINE))


def _written(name: str) -> dict[str, str]:
    found = options_of((METHODS | ADDONS)[name].recipe)
    return {option: json.dumps(default) for option, default in found.items()}
