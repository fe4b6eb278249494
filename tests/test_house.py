"""The house: imports point one way, every module imports, links lead somewhere."""

import ast
import importlib
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import linsep

ROOT = Path(__file__).parent.parent
HOUSE = ROOT / "src" / "linsep"

# A package, or a module beside the packages, may import only what stands before it.
ORDER = (
    "errors", "optional", "custom", "randomness", "settings", "data", "nets", "learning", "methods",
    "testing", "resolve", "prepare", "storage", "classifier", "serving", "grids", "compare",
    "analysis", "paper", "report", "cli", "notebook", "avalanche",
)  # fmt: skip

MODULES = sorted(
    path.relative_to(HOUSE).with_suffix("").as_posix().removesuffix("/__init__").replace("/", ".")
    for path in HOUSE.rglob("*.py")
    if path != HOUSE / "__init__.py"
)


@cache
def imported(module: str) -> set[str]:
    """The modules of linsep that a module imports, wherever in it."""
    path = HOUSE / (module.replace(".", "/") + ".py")
    path = path if path.exists() else path.with_suffix("") / "__init__.py"
    here = ["linsep", *module.split(".")]
    if path.name != "__init__.py":
        here.pop()
    named = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            start = here[: len(here) - node.level + 1] if node.level else []
            base = ".".join([*start, *(node.module.split(".") if node.module else [])])
            named |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
    return {name.removeprefix("linsep.") for name in named} & set(MODULES) - {module}


def test_the_version_is_stated_once_and_heads_the_changelog() -> None:
    newest = re.findall(r"^## \[([^\]]+)\] - ", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)[0]
    assert newest == linsep.__version__
    for name in ("pyproject.toml", "CITATION.cff", "Dockerfile", "mkdocs.yml"):
        assert linsep.__version__ not in (ROOT / name).read_text("utf-8"), name


def test_every_room_has_a_place_in_the_order() -> None:
    assert {module.split(".")[0] for module in MODULES} == set(ORDER)
    assert len(list(HOUSE.glob("*.py"))) <= 9


def test_a_package_imports_only_those_before_it() -> None:
    place = {room: number for number, room in enumerate(ORDER)}
    for module in MODULES:
        for name in imported(module):
            mine, theirs = (place[m.split(".")[0]] for m in (module, name))
            assert theirs <= mine, f"{module} imports {name}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    # A package's __init__ that imports its modules late, to choose among them, is not counted.
    graph = {m: {n for n in imported(m) if not m.startswith(f"{n}.")} for m in MODULES}
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


def test_every_module_imports_and_says_what_is_in_it() -> None:
    for module in MODULES:
        if not module.startswith("avalanche"):  # which needs a package that may be missing
            assert importlib.import_module(f"linsep.{module}").__doc__, f"{module}: no docstring"


def test_files_and_functions_are_short() -> None:
    for path in HOUSE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= 350, f"{path} has more than 350 lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                assert lines <= 50, f"{path}:{node.lineno} {node.name} has {lines} lines"


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
