"""Shell completion offers what exists, and does not load torch for it."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from linsep.cli import words
from linsep.cli.commands import app
from linsep.cli.words import WORDS
from linsep.grids.engines import ENGINES
from linsep.methods import ADDONS, METHODS
from linsep.settings.config import all_settings, from_settings
from linsep.settings.layers import SHORT, assignment
from linsep.settings.signature import options_of
from linsep.storage.loggers import LOGGERS
from tests.helpers.command import BUILT
from tests.helpers.made_runs import make_run


def offered(parameter: str, text: str, **given: Any) -> list[str]:
    context = {"ctx": SimpleNamespace(params=given)} if parameter == "run" else {}
    found = WORDS[parameter](**context, incomplete=text)
    return [word for word in map(words._word, found) if word.startswith(text)]


def test_words_are_those_of_what_is_imported() -> None:
    for name, entry in (METHODS | ADDONS).items():
        assert set(entry.options) == set(options_of(entry.recipe)), name
    assert offered("log", "") == offered("to", "") == list(LOGGERS)
    assert offered("on", "") == list(ENGINES)


def test_every_parameter_that_is_named_exists() -> None:
    commands, known = [BUILT(app)], set()
    while commands:
        command = commands.pop()
        commands += getattr(command, "commands", {}).values()
        known |= {parameter.name for parameter in command.params}
    assert set(WORDS) <= known


@pytest.mark.parametrize(
    ("parameter", "text", "expected"),
    [
        ("method", "derpp+b", ["derpp+bfp", "derpp+bfp2"]),
        ("method", "er+bfp+", [f"er+bfp+{term}" for term in ADDONS]),
        ("scenario", "split-cifar", ["split-cifar10", "split-cifar100"]),
        ("preset", "", ["paper", "authors", "fast"]),
        ("set_", "bfp.w", ["bfp.weight="]),
        ("set_", "memory.evict=", ["memory.evict=all_largest", "memory.evict=one_largest"]),
        ("set_", "compute.compile=t", ["compute.compile=true"]),
        ("over", "method=er,derpp+ran", ["method=er,derpp+ranpac"]),
        ("over", "seed=", []),
        ("over_range", "lr", ["lr="]),
        ("sort", "method,-fa", ["method,-faa"]),
        ("where", "scenario.na", ["scenario.name="]),
        ("formats", "p", ["pdf", "png"]),
        ("dataset", "blo", ["blobs"]),
    ],
)
def test_words(parameter: str, text: str, expected: list[str]) -> None:
    assert offered(parameter, text) == expected


def test_every_setting_that_is_offered_is_one() -> None:
    """Each is known to the config; that it may not be empty is another matter."""
    known = {protocol.name for protocol in all_settings()}
    recipes = METHODS | ADDONS
    for word in offered("set_", ""):
        name = word.removesuffix("=")
        part, _, option = name.partition(".")
        full = SHORT.get(name, name)
        is_option = part in recipes and option in recipes[part].options
        is_option |= full == "net.width"
        assert full in known or is_option, word
    for name in known:
        for value in map(words._word, words.values(name)("")):
            if not value.endswith("/"):
                from_settings(assignment(f"{name}={value}"))


def test_runs_by_name_and_key(tmp_path: Path) -> None:
    for seed in (0, 1):
        make_run(tmp_path / "runs", seed=seed, label=f"-{seed}123456789")
    assert offered("run", "", runs=tmp_path / "runs") == [
        "er-200-s0-0123456789", "er-200-s1-1123456789",
    ]  # fmt: skip
    assert offered("run", "11", runs=tmp_path / "runs") == ["1123456789"]
    assert offered("run", "", runs=tmp_path / "nowhere") == []


PROGRAM = """
import atexit, sys
atexit.register(lambda: print("\\ntorch" if "torch" in sys.modules else "\\nlight"))
sys.argv = ["linsep"]
from linsep.cli import main
main()
"""


def test_a_shell_is_answered_without_torch(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", label="-0123456789")
    line = {"_LINSEP_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "linsep show er-"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path, env=os.environ | line, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert "er-200-s0-0123456789" in done.stdout
    assert done.stdout.splitlines()[-1] == "light"
