"""The house: imports point one way, every module imports, the README's commands are real."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HOUSE = ROOT / "src" / "linsep"

# A module, or a folder of them, may import only what stands before it.
ORDER = (
    "errors", "settings", "options", "signature", "statistics", "tables", "paper", "streams",
    "augment", "data", "datasets", "heads", "nets", "losses", "memory", "exemplars", "rules",
    "terms", "projection", "predictors", "method", "methods", "presets", "optimizers", "learner",
    "metrics", "run", "testing", "backbones", "scenarios", "config", "files", "environment",
    "lease", "snapshots", "results", "where", "store", "loggers", "arms", "compare", "tradeoff",
    "reproduction", "worker", "engines", "plan", "grid", "search", "contents", "analysis",
    "features", "studies", "analyse", "findings", "report", "progress", "terminal", "cli_store",
    "bench", "cli_run", "cli_grid", "cli_search", "cli_look", "cli_analyse", "cli_report",
    "cli_paper", "cli_data", "cli_bench", "cli",
)  # fmt: skip

MODULES = sorted(
    path.relative_to(HOUSE).with_suffix("").as_posix().removesuffix("/__init__").replace("/", ".")
    for path in HOUSE.rglob("*.py")
    if path != HOUSE / "__init__.py"
)


def floor(module: str) -> int:
    return ORDER.index(module.split(".")[0])


def imported(path: Path, module: str) -> set[str]:
    """The modules of this package that a file imports, wherever in it."""
    package = ["linsep", *module.split(".")]
    if path.name != "__init__.py":
        package.pop()
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = [*start, *(node.module.split(".") if node.module else [])]
            if base == ["linsep"]:
                found |= {alias.name for alias in node.names}
            elif base[:1] == ["linsep"]:
                found.add(base[1])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("linsep.")}
    return found


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str) -> None:
    path = HOUSE / (module.replace(".", "/") + ".py")
    path = path if path.exists() else path.with_suffix("") / "__init__.py"
    for name in imported(path, module) & set(ORDER):
        own = module.split(".")[0] == name
        assert own or floor(name) < floor(module), f"{module} imports {name}, which stands above it"


@pytest.mark.parametrize("module", MODULES)
def test_every_module_imports_and_says_what_it_knows(module: str) -> None:
    found = importlib.import_module(f"linsep.{module}")
    assert found.__doc__, f"{module} has no docstring"


def test_the_readme_names_commands_that_exist() -> None:
    from typer.main import get_command

    from linsep.cli import app

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = set(get_command(app).commands)  # type: ignore[attr-defined]
    named = set(re.findall(r"^ *linsep (\w+)", readme, re.MULTILINE))
    assert named, "the README shows no command"
    assert named <= commands
    targets = set(re.findall(r"^ *make (\w+)", readme, re.MULTILINE))
    assert {"run", "test"} <= targets
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", ["README.md", "docs/your-net.md"])
def test_the_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {"__name__": "example"})


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
