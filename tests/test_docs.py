"""The docs hold together, and what they show works.

Links lead to pages and headings, differences are linked to definitions, and every code block is
run, planned, or marked as output: `tests/helpers/snippets.py` has the convention, which is checked
here for every page. A command that would train for long is planned: parsed by the real parser, its
settings resolved, its data opened, its net built.
"""

import csv
import importlib
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from linsep.custom import Group
from linsep.methods import ADDONS, METHODS
from linsep.optional import EXTRAS
from linsep.paper.reproduction import scaled
from linsep.paper.tables import Place, scale
from linsep.settings.config import Config
from tests.helpers import docs_stage
from tests.helpers.command import command
from tests.helpers.docs_stage import Planned
from tests.helpers.snippets import KINDS, Block, Command, blocks, commands

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BESIDE = [ROOT / "benchmarks" / "README.md", ROOT / "results" / "README.md"]
PAGES = sorted([*ROOT.glob("*.md"), *BESIDE, *DOCS.rglob("*.md")])
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
WITH_BLOCKS = [page for page in PAGES if blocks(page)]
LINK = re.compile(r"\[[^\]]*\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OTHERS = ("curl", "pip", "python", "python3", ".", "tensorboard")  # programs beside linsep and make
ELSEWHERE = {  # pages that a test of their own runs: files of the package, numbers to compare
    "extending-analyses.md": "tests/analysis/test_extending.py",
    "keep-learning.md": "tests/classifier/test_docs.py",
    "production.md": "tests/serving/test_production.py",
}
SLOW = ("fidelity.md", "python.md", "your-method.md")  # laws of a method, reports, hundreds of runs


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


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_files_of_the_repository_that_a_page_names_are_there(page: Path) -> None:
    """And what "`NAME` in `FILE`" says is in them."""
    text = page.read_text("utf-8")
    if page.name != "extending-analyses.md":  # which has its reader write two
        missing = [path for path in NAMED.findall(text) if not (ROOT / path).exists()]
        assert not missing
    for name, path in re.findall(r"`([A-Z_]+)` in\s`([\w./]+)`", text):
        assert re.search(rf"^{name}\b.* = ", (ROOT / path).read_text("utf-8"), re.MULTILINE), name


NAMED = re.compile(r"`((?:src|tests|docs|scripts|benchmarks|studies|examples|notebooks)/[\w./]*)`")


def _anchors(page: Path) -> set[str]:
    """What can follow # in a link: explicit anchors, and headings as GitHub writes them."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


def test_pages_agree_on_the_numbers_of_make_run() -> None:
    """What commands print on pages is what results/make-run.csv, and so docs/results.md, has."""
    with (ROOT / "results" / "make-run.csv").open(encoding="utf-8", newline="") as file:
        made = {row["method"]: row for row in csv.DictReader(file)}
    row = re.compile(r"^Class-IL  (\S.*?) {2,}3  (\S+) ± (\S+)  \S+ to ", re.MULTILINE)
    shown = row.findall((DOCS / "compare.md").read_text("utf-8"))
    assert shown
    for method, *spread in shown[:2]:  # of the first table; the next has differences
        both = made[method]["Class-IL FAA"], made[method]["Class-IL FAA std"]
        assert spread == [f"{float(value):.2f}" for value in both], method
    for method, ours in made.items():
        faa = f"{float(ours['Class-IL FAA']):.2f} ± {float(ours['Class-IL FAA std']):.2f}"
        assert faa in (DOCS / "cost.md").read_text("utf-8"), method


def test_the_scales_of_the_paper_are_those_of_the_code() -> None:
    text = (DOCS / "fidelity.md").read_text("utf-8")
    rows = [re.split(r" *\| *", line)[1:4] for line in text.splitlines() if line.startswith("|")]
    page = {name: cells for name, *cells in rows}
    assert page["`--scale`"] == [f"`{name}`" for name in SCALES]
    for i, size in enumerate(map(scale, SCALES)):
        net = size.settings["net"]
        assert page["network"][i].replace("-", "").lower() == f"{net['name']}, width {net['width']}"
        places = [Place(name, memory, "er") for name, memory in SIZES.items()]
        epochs = [scaled(place, size)["training"]["epochs"] for place in places]
        assert page["epochs a task"][i] == ", ".join(map(str, epochs))


SCALES = ("full", "small")
SIZES = {"split-cifar10": 200, "split-cifar100": 500, "split-tinyimagenet": 4000}
OLD_WORDS = re.compile(
    r"\b(a draw|the stream|stored rows|summands?|the frozen net\w*|old net\w*|"
    r"teacher|fitted anew|After this page)\b"
)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_pages_use_the_fields_words(page: Path) -> None:
    """Replay batch, current task, stored samples, configuration, previous network, re-trained."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    found = OLD_WORDS.findall(text)
    assert not found, found


# --- code blocks ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stage")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LINSEP_CACHE", str(folder / "cache"))
        docs_stage.with_noise(patch)
        docs_stage.build_stage(folder)
    return folder


@pytest.fixture
def here(stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copied = shutil.copytree(stage, tmp_path / "here", symlinks=True, copy_function=_copied)
    folder = Path(copied)
    monkeypatch.setenv("LINSEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(folder)
    return folder


def _copied(source: str, to: str) -> None:
    """A copy, or a link to the weights that pages only read: 43 MB for each page."""
    if Path(source).name == docs_stage.WEIGHTS:
        Path(to).hardlink_to(source)
    else:
        shutil.copy2(source, to)


RUN = [
    pytest.param(page, id=page.name, marks=[pytest.mark.slow] * (page.name in SLOW))
    for page in WITH_BLOCKS
]


@pytest.mark.parametrize("page", RUN)
def test_every_block_works_as_it_is_written(page: Path, here: Path) -> None:
    if page.name in ELSEWHERE:
        assert page.name in (ROOT / ELSEWHERE[page.name]).read_text("utf-8")
        for block in blocks(page):
            _check_kind(block)
    else:
        _check_page(page, here)


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("```\nafter task 5: Class-IL 61.50 %\n```", "'after' is no command"),
        ("```bash\nlinsep list\n```", "'bash' is none of"),
        ("```console\nlinsep list\n```", "a session without a line that starts with"),
        ("```text\nlinsep export RUN --to tensorboard\n```", "that no test runs"),
        ("```text\nfrom linsep import metrics\n```", "that no test runs"),
        ("```\nlinsep learn shop photos --nett cnn\n```", "No such option"),
        ("```\nlinsep run --methd er\n```", "No such option"),
        ("```\npip install 'linsep[tea]'\n```", "line 4"),
        ("```python\nimport linsep\nassert linsep.runs().fast\n```", "no attribute 'fast'"),
        ("```toml\n[trainig]\nepochs = 1\n```", "line 4"),
    ],
)
def test_a_block_that_does_not_work_fails(block: str, problem: str, here: Path) -> None:
    page = here / "page.md"
    page.write_text(f"# Page\n\n{block}\n")
    with pytest.raises((AssertionError, AttributeError), match=problem):
        _check_page(page, here)


def _check_page(page: Path, here: Path) -> None:
    space: dict[str, object] = {"__name__": "example"}
    for block in blocks(page):
        _check_kind(block)
        if named := re.match(r"# (\S+\.(?:py|toml))\n", block.text):
            (here / named[1]).write_text(block.text)
        if block.kind == "python" and "linsep.avalanche" not in block.text:
            with pytest.MonkeyPatch.context() as patch:
                docs_stage.with_noise(patch)
                code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
                exec(code, space)
        elif block.kind == "toml":
            _check_settings(block)
        elif block.kind not in ("text", "python"):  # tests/test_avalanche.py has the rest
            for typed in commands(block):
                _check_command(typed, here)


def _check_kind(block: Block) -> None:
    kinds = ", ".join(kind or "nothing, for commands" for kind in KINDS)
    assert block.kind in KINDS, f"{block.place}: {block.kind!r} is none of {kinds}"
    ours = r"^(\$ )?linsep \w|^(from|import) linsep"
    hidden = block.kind == "text" and re.search(ours, block.text, re.MULTILINE)
    assert not hidden, f"{block.place}: a command or a use of linsep that no test runs"


def _check_settings(block: Block) -> None:
    settings = tomllib.loads(block.text)
    if settings.keys() == {"project"}:  # of a package that offers parts
        offered = {f"linsep.{group}" for group in get_args(Group)}
        assert set(settings["project"]["entry-points"]) <= offered
        return
    known = {*Config.model_fields, *METHODS, *ADDONS, "over", "parts", "search"}
    assert set(settings) <= known, block.place


def _check_command(typed: Command, here: Path) -> None:
    program, *words = typed.words
    assert program in ("linsep", "make", *OTHERS), f"{typed.place}: {program!r} is no command"
    if program == "make":
        makefile = (ROOT / "Makefile").read_text("utf-8")
        assert all(re.search(rf"^{word}:", makefile, re.MULTILINE) for word in words), typed.place
    if program == "pip":
        asked = re.findall(r"\[([\w,]+)\]", " ".join(words))
        extras = {extra for several in asked for extra in several.split(",")}
        assert extras <= set(PROJECT["optional-dependencies"]), typed.place
    if program == "python" and words[0] == "-m":  # in a clone: benchmarks, studies
        app = importlib.import_module(f"{words[1]}.__main__").app
        assert words[2] in {command.name for command in app.registered_commands}, typed.place
    if program == "linsep":
        _check_linsep(typed, words, here)


def _check_linsep(typed: Command, words: list[str], here: Path) -> None:
    if words[0] in ("learn", "predict", "serve", "model"):  # parsed; other tests have a model
        words = [*words, "--help"]
    names = sorted(path.parent.name for path in (here / "runs").glob("*/results.json"))
    stand_ins = {"RUN": names[0], "RUN1": names[0], "RUN2": names[1]}
    words = [stand_ins.get(word, word) for word in words]
    if "--runs" in words:  # where an earlier command of the page would have made them
        place = here / words[words.index("--runs") + 1]
        if here in place.parents and not place.exists():
            place.symlink_to(here / "runs")
    try:
        with pytest.MonkeyPatch.context() as patch:
            docs_stage.without_training(patch)
            code, _, stderr = command(*words, cwd=here)
    except Planned:
        return
    if code and any(extra in stderr for extra in _absent()):
        return  # it got as far as the package that is not installed here
    if shown := re.search(r"^error: .*", typed.shown, re.MULTILINE):
        assert code == 2
        assert stderr.strip().endswith(shown[0].removesuffix("...")) or shown[0] in stderr
        return
    assert code == 0, f"{typed.place}: {' '.join(typed.words)}\n{stderr}"


def _absent() -> Iterator[str]:
    """How an error names an extra that this environment lacks."""
    for package, extra in EXTRAS.items():
        try:
            importlib.import_module(package)
        except (ImportError, RuntimeError):
            yield f"pip install 'linsep[{extra}]'"
            yield f"pip install {package}"
