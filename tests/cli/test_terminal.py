"""What appears on a terminal: a spinner, tables that fit, and texts as they are meant."""

import io
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from rich.markup import render
from typer.testing import CliRunner

from linsep.cli import reference, terminal
from linsep.cli.commands import app
from linsep.cli.flags import unwrapped
from linsep.cli.terminal import Spinner
from linsep.storage.store import open_record
from tests.helpers.command import command
from tests.helpers.made_runs import make_run

ROOT = Path(__file__).parents[2]
WIDTHS = (80, 100, 160)
AT_80 = {"COLUMNS": "80"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


# --- the spinner ---------------------------------------------------------------------------------


def test_a_spinner_turns_until_something_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    with Spinner("starting"):
        until = time.monotonic() + 5
        while "starting" not in screen.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
        assert screen.getvalue().startswith("\r")
        Console().print("the first line")
        assert screen.getvalue().endswith("\r\x1b[Kthe first line\n")
        time.sleep(0.25)
    assert screen.getvalue().endswith("the first line\n")  # it has not turned since
    assert (sys.stdout, sys.stderr) == (screen, screen)


def test_a_spinner_is_soon_there_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from linsep.cli import terminal

    assert terminal.SHOWN_AFTER < 0.3
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(KeyboardInterrupt), Spinner("starting"):
        raise KeyboardInterrupt
    assert screen.getvalue() == "\r\x1b[K"


# --- tables --------------------------------------------------------------------------------------


@pytest.fixture
def screen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[int, Terminal]:
    """A terminal of some width, to which commands print their tables."""
    width, shown = request.param, Terminal()
    console = Console(file=shown, width=width, color_system=None, force_terminal=True)
    monkeypatch.setattr(terminal, "wide_console", lambda: console)
    monkeypatch.setattr(reference, "open_console", lambda: console)
    return width, shown


@pytest.mark.parametrize("screen", [60, *WIDTHS], indirect=True)
@pytest.mark.parametrize("finished", [True, False])
def test_a_list_of_runs_fits_and_can_be_copied(
    finished: bool, screen: tuple[int, Terminal], tmp_path: Path
) -> None:
    width, shown = screen
    methods = ("er", "derpp+bfp", "er_ace+bfp2")
    names = [
        make_run(tmp_path / "runs", method, seed, 61.25, label=f"-{i:05x}{seed:05x}").name
        for i, method in enumerate(methods)
        for seed in (0, 10)
    ]
    if not finished:
        names.append(make_run(tmp_path / "runs", "ft", label="-fffff00000").name)
    assert command("runs", cwd=tmp_path).returncode == 0
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in shown.getvalue()
    if width >= 80:
        rows = [line.split() for line in lines if any(f" {m} " in line for m in (*methods, "ft"))]
        assert {open_record(row[0], tmp_path / "runs").name for row in rows} == set(names)
        assert sum("61.25" in row for row in rows) == len(methods) * 2
    for name in names:
        assert sum(name in line for line in lines) == (width == 160)
    assert ("Left out to fit" in shown.getvalue()) == (width < 160)


# --- texts ---------------------------------------------------------------------------------------


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for inner, found in getattr(command, "commands", {}).items():
        yield from _commands(found, f"{name} {inner}")


COMMANDS = dict(_commands(typer.main.get_command(app), "linsep"))


def test_markup_takes_nothing_from_a_help_text() -> None:
    """'linsep[timm]' would be printed as 'linsep'."""
    for found in COMMANDS.values():
        for text in (found.help or "", *(p.help or "" for p in found.params)):
            plain = re.sub(r"\[/?bold\]", "", text).replace("\\[", "[")
            assert render(text).plain == plain


def test_help_is_wrapped_once_at_80_columns() -> None:
    """A summary has a line of the list of commands, a paragraph no breaks, an example its line."""
    for name, found in COMMANDS.items():
        paragraphs = unwrapped(found.help or "").split("\n\n")
        assert len(paragraphs[0]) <= 66, name
        for paragraph in paragraphs:
            head, *examples = paragraph.splitlines()
            assert all(line.startswith("  ") and len(line) <= 78 for line in examples), name
            assert not examples or head in ("Example:", "Examples:"), name


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_flag_takes_two_lines_at_80_columns(name: str) -> None:
    """Its default or `[required]` may stand on a third."""
    said = CliRunner().invoke(app, [*name.split()[1:], "--help"], env=AT_80)
    assert said.exit_code == 0, said.output
    panels = re.findall(r"^│(.*)│$", said.output, re.MULTILINE)
    more = [text.startswith(" " * 12) and "[" not in text for text in panels]
    thrice = [panels[i] for i in range(1, len(panels)) if more[i - 1] and more[i]]
    assert not thrice, f"{name}: {thrice}"
