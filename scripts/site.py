"""What the site adds to the pages in docs/, as hooks of MkDocs.

- `api.md`, with every public name of the package, and `commands.md`, with every command;
- the pages that lie beside docs/, the notebooks with their outputs, and the sources that pages link
  to, so that no link leads out;
- formulas in MathML, which browsers show without any script;
- a description of each page, and labels for the cells of tables, which phones show.
"""

import functools
import inspect
import re
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer import Context
from typer.cli import get_docs_for_click
from typer.core import TyperGroup
from typer.main import get_command

import linsep
import notebooks
from linsep.cli.commands import app

ROOT = Path(__file__).parent.parent
# Files beside docs/ that have a page of the site.
BESIDE = {
    "README.md": "docs/index.md",
    "CHANGELOG.md": "docs/changelog.md",
    "CONTRIBUTING.md": "docs/contributing.md",
    "SECURITY.md": "docs/security.md",
    "CODE_OF_CONDUCT.md": "docs/code-of-conduct.md",
    "benchmarks/README.md": "docs/benchmarks.md",
}
WIDE = ("docs/frontier.md",)  # tables that need the room of the table of contents
WITH_PAGES = BESIDE | notebooks.PAGES
LINK = re.compile(r"(!?\[[^\]]*\]\()(?!https?:|#|mailto:)([^)#\s]+)((?:#[^)]*)?\))")
BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)
TABLE = re.compile(r"<table(?=[ >]).*?</table>", re.DOTALL)
ROW = re.compile(r"<tr(?=[ >]).*?</tr>", re.DOTALL)
CELL = re.compile(r"<(t[dh])(?=[ >])([^>]*)>(.*?)(?=</t[dh]>)", re.DOTALL)
SOURCE = '<details class="mkdocstrings-source"'
LANGUAGES = {".py": "python", ".toml": "toml", ".md": "markdown", ".yml": "yaml"}
# The public names by what one wants of them; a name that is missing here fails the build.
GROUPS = {
    "Train and look at runs": "train load runs Config SavedRun Runs Compared",
    "A classifier that keeps learning": "IncrementalClassifier SavedClassifier",
    "BFP in a loop of your own": "BackwardProjection",
    "Step by step": "build Run StepEnd EpochEnd TaskEnd metrics",
    "Your own images": "Dataset from_arrays from_torch from_huggingface",
    "Write a method": "testing",
    "Errors": "LinsepError",
}
SHOWN = {"linsep.testing": "check_"}  # how the functions of a module begin that users call
ATTRIBUTES = (property, functools.cached_property)


# --- hooks ---------------------------------------------------------------------------------------


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    pages: dict[str, str | bytes] = {"docs/api.md": reference(), "docs/commands.md": commands()}
    pages |= notebooks.pages(lambda text, *at: relinked(text, *map(PurePosixPath, at)))
    for source, page in BESIDE.items():
        if not (ROOT / page).exists():
            text = (ROOT / source).read_text("utf-8")
            pages[page] = relinked(text, PurePosixPath(source), PurePosixPath(page))
    for file in files.documentation_pages():
        at = PurePosixPath("docs", file.src_uri)
        for path in sources(file.content_string, at):
            pages[shown_at(path).as_posix()] = listing(path)
    for page, content in pages.items():
        uri = PurePosixPath(page).relative_to("docs").as_posix()
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Links lead to pages, search engines get a description, and wide tables get room."""
    at = PurePosixPath("docs", page.file.src_uri)
    page.meta.setdefault("description", described(markdown))
    if at.as_posix() in WIDE:
        page.meta["hide"] = ["toc"]
    return relinked(markdown, at, at)


def on_page_content(html: str, page: Page, **_: object) -> str:
    shown = FORMULA.sub(lambda found: mathml(found[2], block=found[1] == "div"), html)
    shown = shown.replace(SOURCE, f"{SOURCE} data-search-exclude")
    name = PurePosixPath(page.file.src_uri).stem  # for site.css, as are the labels of cells
    return f'<div class="page-{name}">{TABLE.sub(labelled, shown)}</div>'


def labelled(table: re.Match[str]) -> str:
    """A table whose cells name their columns, which are those of the first row."""
    first = ROW.search(table[0])
    heads = [] if first is None else [_plain(head) for _, _, head in CELL.findall(first[0])]

    def row(found: re.Match[str]) -> str:
        columns = iter(heads)
        return CELL.sub(lambda cell: _labelled(cell, next(columns, "")), found[0])

    return ROW.sub(row, table[0])


def _labelled(cell: re.Match[str], column: str) -> str:
    label = f' data-label="{column}"' if cell[1] == "td" else ""
    return f"<{cell[1]}{label}{cell[2]}>{cell[3]}"


def _plain(html: str) -> str:
    return escape(unescape(re.sub(r"<[^>]*>", "", html)).strip())


def described(text: str) -> str:
    """The first paragraph as plain text."""
    first = next((p for p in text.split("\n\n") if p[:1].isalnum()), "")
    return re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", " ".join(first.split()))


# --- links ---------------------------------------------------------------------------------------


def target(link: str, at: PurePosixPath) -> PurePosixPath:
    """The file of the repository that a link on a page leads to."""
    return PurePosixPath(normpath((at.parent / link).as_posix()))


def sources(text: str, at: PurePosixPath) -> Iterator[PurePosixPath]:
    """The files and folders outside docs/ that a page links to, without those with a page."""
    for _, link, _ in LINK.findall(BLOCK.sub("", text)):
        path = target(link, at)
        if path.parts[0] != "docs" and path.as_posix() not in WITH_PAGES:
            yield path


def shown_at(path: PurePosixPath) -> PurePosixPath:
    """The page that shows a file of the repository."""
    if path.parts[0] == "docs":
        return path
    return PurePosixPath(WITH_PAGES.get(path.as_posix(), f"docs/source/{path}.md"))


def relinked(text: str, written_at: PurePosixPath, shown: PurePosixPath) -> str:
    """A page's text with links that lead to pages of the site."""

    def there(found: re.Match[str]) -> str:
        page = shown_at(target(found[2], written_at))
        return f"{found[1]}{relpath(page.as_posix(), shown.parent.as_posix())}{found[3]}"

    blocks = BLOCK.findall(text)
    parts = [LINK.sub(there, part) for part in BLOCK.split(text)]
    return "".join(a + b for a, b in zip(parts, [*blocks, ""], strict=True))


def listing(path: PurePosixPath) -> str:
    """A page with a file of the repository, or with the files of a folder."""
    here = ROOT / path
    title = f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n"
    if here.is_dir():
        names = sorted(child.name for child in here.iterdir() if not child.name.startswith("_"))
        return title + "\n".join(f"- `{name}`" for name in names)
    return f"{title}``` {LANGUAGES.get(path.suffix, 'text')}\n{here.read_text('utf-8')}\n```\n"


# --- what the pages hold -------------------------------------------------------------------------


def reference() -> str:
    """The page of all public names."""
    named = [name for names in GROUPS.values() for name in names.split()]
    if sorted(named) != linsep.__all__:
        odd = ", ".join(sorted({*named} ^ {*linsep.__all__}))
        raise SystemExit(f"scripts/site.py: GROUPS and linsep.__all__ differ in {odd}")
    parts = ["# Python reference", "Every public name; import them from `linsep` itself."]
    for title, names in GROUPS.items():
        parts.append(f"## {title}")
        for name in names.split():
            parts += in_reference(name)
    parts.append("## With Avalanche")
    parts.append(
        "Import these from `linsep.avalanche`; [how to use them](coming-from.md#from-avalanche)."
    )
    for name in ("BFPPlugin", "from_benchmark"):
        parts.append(f"::: linsep.avalanche.{name}\n    options: {{heading_level: 3}}")
    return "\n\n".join(parts)


def in_reference(name: str) -> Iterator[str]:
    """A public name; of a class or a module also its attributes, in a table, and its functions."""
    found = getattr(linsep, name)
    yield f"::: linsep.{name}\n    options: {{heading_level: 3, members: false}}"
    members = dict(sorted(_members(found).items()))
    attributes = {k: v for k, v in members.items() if isinstance(v, ATTRIBUTES)}
    if attributes:
        lines = ["| attribute | |", "|---|---|"]
        lines += [f"| `{k}` | {_first_line(v)} |" for k, v in attributes.items()]
        yield "\n".join(lines)
    for function in [k for k in members if k not in attributes]:
        yield f"::: linsep.{name}.{function}\n    options: {{heading_level: 4}}"


def _members(found: object) -> dict[str, object]:
    """The public members of a class, linsep's inherited ones included, or of a module."""
    if inspect.ismodule(found):
        return {
            name: value
            for name, value in inspect.getmembers(found, inspect.isfunction)
            if value.__module__ == found.__name__
            and name[0] != "_"
            and name.startswith(SHOWN.get(found.__name__, ""))
        }
    own = [base for base in getattr(found, "__mro__", ()) if base.__module__.startswith("linsep")]
    return {
        name: getattr(found, name) if isinstance(value, classmethod) else value
        for base in reversed(own)
        for name, value in vars(base).items()
        if not name.startswith(("_", "model_"))  # pydantic's
        and (inspect.isfunction(value) or isinstance(value, (*ATTRIBUTES, classmethod)))
    }


def _first_line(documented: object) -> str:
    return (inspect.getdoc(documented) or "").partition("\n")[0].replace("|", "\\|")


def commands() -> str:
    """The page of all commands."""
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    for group in (root, *root.commands.values()):
        if isinstance(group, TyperGroup):
            group.commands = {k: v for k, v in group.commands.items() if not v.hidden}
    text = get_docs_for_click(obj=root, ctx=Context(root, info_name="linsep"), name="linsep")
    text = text[text.index("\n## ") :]  # without what holds for all of them
    text = re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+|\* `--help`: .*\n", "", text)
    text = re.sub(r"\[/?bold\]", "**", text)
    text = re.sub(r"^  linsep ", "    linsep ", text, flags=re.MULTILINE)  # an example
    start = "Every command with its arguments and flags, as `linsep COMMAND --help` prints them."
    return f"# Commands\n\n{start}\n{text}"


def mathml(text: str, *, block: bool) -> str:
    formula = unescape(text).strip()[2:-2]  # without \( and \)
    return convert(formula.strip(), display="block" if block else "inline")
