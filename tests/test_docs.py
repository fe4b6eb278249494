"""The docs hold together: one entrance, one title per page, D-numbers linked to definitions."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")]
)
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
LINK = re.compile(r"\[[^\]]*\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")


def test_every_page_is_one_click_from_the_entrance() -> None:
    index = DOCS / "index.md"
    reached = {(DOCS / target).resolve() for target, _ in LINK.findall(index.read_text("utf-8"))}
    missing = [page.relative_to(ROOT) for page in PAGES if page not in {*reached, index}]
    assert not missing, f"docs/index.md does not link to {missing}"


def test_titles_are_distinct() -> None:
    titles = [page.read_text("utf-8").splitlines()[0] for page in PAGES]
    assert all(title.startswith("# ") for title in titles)
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_within_pages_lead_to_a_heading_or_an_anchor(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        if anchor:
            there = (page.parent / target) if target else page
            assert anchor in _anchors(there), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_cited_difference_is_linked_to_its_definition(page: Path) -> None:
    """[D4](fidelity.md#d4): nobody should have to look for what D4 means."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    if page.name == "fidelity.md":
        assert [f"d{n}" for n in range(1, 22)] == re.findall(r'<a id="(d\d+)">', text)
        return
    bare = re.findall(r"(?<!\[)\bD\d+\b", text.replace("D1 to D21", ""))
    assert not bare, f"{page.name} cites {bare} without a link"


def _anchors(page: Path) -> set[str]:
    """What can follow # in a link: explicit anchors, and headings as GitHub writes them."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))
