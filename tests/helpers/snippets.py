"""The code blocks of the documentation, and the commands in them.

By what follows the three backticks:

    python    run: the blocks of a page in order, in one namespace and one folder
    console   a session: commands after "$ ", and between them what they printed
    toml      settings
    text      output, listings, formulas: not run
    nothing   commands, a line each, of which a backslash joins two; so are indented blocks

A block that starts with "# mine.py" or "# blobs.toml" is also a file that later commands find.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

KINDS = ("python", "console", "toml", "text", "")
PROMPT = re.compile(r"\w*\$ ")  # also of a named machine: node1$


@dataclass(frozen=True)
class Block:
    page: Path
    line: int  # of its first line of content, from 1
    kind: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.name}, line {self.line}"


@dataclass(frozen=True)
class Command:
    """A command as it is typed, and what the page shows below it."""

    place: str
    words: tuple[str, ...]
    shown: str


def blocks(page: Path) -> list[Block]:
    found = []
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block") and token.map is not None:
            first = token.map[0] + (2 if token.type == "fence" else 1)
            found.append(Block(page, first, token.info.strip(), token.content))
    return found


def commands(block: Block) -> Iterator[Command]:
    """Every command of a block, which must hold commands alone unless it is a session."""
    session = block.kind == "console"
    lines = block.text.splitlines()
    starts = [i for i, line in enumerate(lines) if PROMPT.match(line) or not session]
    assert starts, f"{block.place}: a session without a line that starts with '$ '"
    i = 0
    while i < len(lines):
        typed, at = lines[i], i
        while typed.endswith("\\"):
            i += 1
            typed = typed[:-1] + lines[i]
        i += 1
        end = next((s for s in starts if s >= i), len(lines))
        shown = "\n".join(lines[i:end]) if session else ""
        i = end if session else i
        words = shlex.split(PROMPT.sub("", typed, count=1) if session else typed, comments=True)
        if words:
            yield Command(f"{block.page.name}, line {block.line + at}", tuple(words), shown)
