"""What pages say in passing is true: commands, flags and settings in a sentence, and counts.

tests/test_docs.py runs the blocks of code; here is what stands between them.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from linsep.cli.commands import app
from linsep.methods import ADDONS, METHODS

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("results/*.md")])
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
SPOKEN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
COUNTED = re.compile(r"(\w+) methods and (\w+) add-ons")
WORDS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty"
NUMBERS = {word: number for number, word in enumerate(WORDS.split(), 10)}
SECTIONS = ("training", "memory", "evaluation", "scenario", "net", "compute")
SETTING = re.compile(
    rf"(?:--set '?)?((?:{'|'.join([*SECTIONS, *METHODS, *ADDONS])})\.[a-z][a-z_.0-9]*)(?![A-Z])"
)
FILES = (".safetensors", ".py", ".json", ".md", ".csv", ".svg", ".toml")
# Flags of other programs: of Mammoth, of Ray's and Slurm's, and of this repository's own scripts.
OTHERS = {
    "--alpha", "--beta", "--buffer_size", "--lr", "--minibatch_size", "--n_epochs", "--optim_mom",
    "--kills", "--part",
}  # fmt: skip


def _commands() -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Every command with its flags; a group has its own beside its commands."""
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    yield (), _flags(root)
    for name, command in root.commands.items():
        yield (name,), _flags(command)
        if isinstance(command, TyperGroup):
            for inner, below in command.commands.items():
                yield (name, inner), _flags(below)


def _flags(command: object) -> set[str]:
    params = getattr(command, "params", [])
    return {opt for param in params for opt in param.opts if opt.startswith("-")} | {"--help"}


COMMANDS = dict(_commands())
EVERY_FLAG = set().union(*COMMANDS.values(), OTHERS)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_command_in_a_sentence_exists_and_has_its_flags(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for spoken in SPOKEN.findall(text):
        if re.match(r"linsep [a-z]", spoken):
            first, *several = spoken.split("|")
            for words in (first, *(" ".join([*first.split()[:2], one]) for one in several)):
                _check(shlex.split(words)[1:], f"{page.name}: `{spoken}`")
        elif re.match(r"--?[a-z]", spoken):
            flag = re.split(r"[ =]", spoken)[0]
            assert flag in EVERY_FLAG, f"{page.name}: `{spoken}`"


def _check(words: list[str], place: str) -> None:
    name = tuple(words[:2]) if tuple(words[:2]) in COMMANDS else tuple(words[:1])
    assert name in COMMANDS, place
    flags = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert flags <= COMMANDS[name], f"{place} has no {flags - COMMANDS[name]}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_setting_in_a_sentence_exists(page: Path) -> None:
    reference = (ROOT / "docs" / "settings.md").read_text("utf-8")  # itself tested
    known = re.findall(r"^\| `([\w.]+)`", reference, re.MULTILINE)
    for spoken in SPOKEN.findall(page.read_text("utf-8")):
        named = SETTING.match(spoken)
        if named and not named[1].endswith(FILES):
            assert any(f"{name}.".startswith(f"{named[1]}.") for name in known), spoken


def test_pages_count_methods_and_add_ons_alike() -> None:
    for page in (ROOT / "README.md", ROOT / "docs" / "methods" / "README.md"):
        counted = COUNTED.search(page.read_text("utf-8"))
        assert counted, page
        numbers = [int(NUMBERS.get(word, word)) for word in counted.groups()]
        assert numbers == [len(METHODS), len(ADDONS)], page
