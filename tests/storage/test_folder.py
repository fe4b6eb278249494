"""Whatever lies in a run's folder: a value that fits, or one line on what does not."""

import copy
import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from linsep.errors import StateError, printable
from linsep.storage import files
from linsep.storage.folder import RunFolder
from linsep.storage.store import Store, read_facts
from tests.helpers.command import command
from tests.helpers.made_runs import make_run
from tests.helpers.undrawn import undrawn

DEEP: Any = []
for _ in range(150):
    DEEP = [DEEP]
WRONG: tuple[Any, ...] = (None, -1, 10**400, float("inf"), "x\x1b[31m\n", [None], {"a": 1}, DEEP)


def mutated(value: Any) -> Iterator[Any]:
    """The value with one part wrong, or missing, for every part."""
    yield from WRONG
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(min(len(value), 2)):
            rest = copy.copy(value)
            del rest[key]
            yield rest
            for inner in mutated(value[key]):
                changed = copy.copy(value)
                changed[key] = inner
                yield changed


def read(reader: Callable[[], Any]) -> Any:
    found = None
    try:
        return reader()
    except StateError as error:
        found = error
    assert printable(str(found)) == str(found)
    return found


READERS: dict[str, Callable[[RunFolder], Any]] = {
    "results.json": RunFolder.results,
    "events.jsonl": RunFolder.events,
    "timing.jsonl": RunFolder.timing,
    "manifest.json": RunFolder.manifest,
}


@pytest.mark.parametrize("name", READERS)
def test_every_part_may_be_wrong(name: str, finished: Path) -> None:
    path, run = finished / name, RunFolder(finished)
    if name == "events.jsonl":
        (finished / "manifest.json").unlink()
    lines = path.read_text().splitlines() if name.endswith("l") else [path.read_text()]
    tried = refused = 0
    for line in dict.fromkeys(lines[:3]):
        for content in mutated(json.loads(line)):
            path.write_text(json.dumps(content) + "\n")
            found = read(lambda: READERS[name](run))
            tried, refused = tried + 1, refused + isinstance(found, StateError)
            if isinstance(found, StateError):
                assert str(found).startswith(str(path)), found
            read_facts(finished)
    assert tried > 20
    assert refused > tried / 4


def test_every_part_of_a_config_may_be_wrong(finished: Path) -> None:
    path, refused = finished / "config.toml", 0
    for content in mutated(RunFolder(finished).config()):
        try:
            path.write_text(tomli_w.dumps(content))
        except (TypeError, ValueError, AttributeError, RecursionError):
            continue  # not to be said in TOML
        refused += isinstance(read(RunFolder(finished).config), StateError)
        facts = read_facts(finished)
        assert all(
            value is None or isinstance(value, str | int | float) for value in facts.values()
        )
    assert refused > 20


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("results.json", b"[" * 100_000),
        ("results.json", b'{"seed": ' + b"9" * 5000 + b"}"),
        ("results.json", b"\xff\xfe"),
        ("config.toml", b"a = " + b"[" * 100_000),
        ("config.toml", b"\xff"),
        ("events.jsonl", b"\0" * 500 + b"\n"),
        ("manifest.json", b"[1"),
    ],
)
def test_files_that_are_no_such_thing(name: str, content: bytes, finished: Path) -> None:
    (finished / "manifest.json").unlink()
    (finished / name).write_bytes(content)
    reader: Any = READERS.get(name, RunFolder.config)
    assert isinstance(read(lambda: reader(RunFolder(finished))), StateError)


def test_pipes_and_folders_are_not_read(finished: Path) -> None:
    for name in ("results.json", "config.toml"):
        (finished / name).unlink()
    os.mkfifo(finished / "results.json")  # reading it would wait for ever
    (finished / "config.toml").mkdir()
    for reader in (RunFolder(finished).results, RunFolder(finished).config):
        assert "not a regular file" in str(read(reader))


def test_tables_have_the_shape_of_tasks_and_classes(finished: Path) -> None:
    whole = json.loads((finished / "results.json").read_text())
    for part, rows in (
        ("confusion", whole["confusion"]),
        ("class_il", whole["matrices"]["class_il"]),
    ):
        last = rows.pop()
        (finished / "results.json").write_text(json.dumps(whole))
        assert f"{part}: should have" in str(read(RunFolder(finished).results))
        rows.append(last)
    whole["groups"][0][0] = 99
    (finished / "results.json").write_text(json.dumps(whole))
    assert "groups: should name classes below 4" in str(read(RunFolder(finished).results))


def test_events_that_were_changed_are_noticed(finished: Path) -> None:
    path = finished / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    assert "is damaged, or was changed" in str(read(RunFolder(finished).events))


def test_events_may_be_compressed(finished: Path) -> None:
    path, run = finished / "events.jsonl", RunFolder(finished)
    zipped, before, content = finished / "events.jsonl.gz", run.events(), path.read_bytes()
    zipped.write_bytes(gzip.compress(content))
    path.unlink()
    assert run.events() == before
    assert run.has("events.jsonl")
    for damaged in (zipped.read_bytes()[:-9], b"nothing", b""):
        zipped.write_bytes(damaged)
        assert "damaged" in str(read(run.events))
    zipped.write_bytes(gzip.compress(bytes(files.LARGEST + 1)))
    assert "unpacks to more than" in str(read(run.events))
    path.write_bytes(content)  # what is there as it is goes first
    assert run.events() == before


# --- commands over many runs ---------------------------------------------------------------------


@pytest.fixture
def spoilt(tmp_path: Path) -> Path:
    """A folder with six damaged runs beside two good ones."""
    runs = tmp_path / "runs"
    for seed in range(8):
        make_run(runs, "er", seed, 50.0 + seed)
    (runs / "er-200-s0" / "results.json").write_text('{"metrics": {"class_il": 3}}')
    (runs / "er-200-s1" / "results.json").write_text("[" * 9000)
    (runs / "er-200-s2" / "config.toml").write_text('method = "er"\nseed = true')
    (runs / "er-200-s3" / "config.toml").write_bytes(b"\xff")
    (runs / "er-200-s4" / "results.json").unlink()
    (runs / "er-200-s4" / "events.jsonl").write_text("null\n")
    os.rename(os.fsencode(runs / "er-200-s5"), os.fsencode(runs) + b"/er-\xff")
    return tmp_path


@pytest.mark.filterwarnings("always:skipped")
@pytest.mark.parametrize("word", ["runs", "compare", "report"])
def test_a_damaged_folder_is_skipped(word: str, spoilt: Path) -> None:
    with undrawn():
        said = command(word, cwd=spoilt)
    assert said.returncode == 0, said.stderr
    assert "warning: skipped er-" in said.stderr
    if word == "runs":
        assert "er-200-s6" in said.stdout


def test_names_do_not_command_the_terminal(tmp_path: Path) -> None:
    assert printable("a\x1b[2Jb\nc\udcff") == r"a\x1b[2Jb\nc\udcff"
    evil = {"net": {"name": "\x9b1m"}}
    make_run(tmp_path / "runs", "er", 0, 50.0, label="\x1b[2J", settings=evil)
    for words in (("runs", "--fields", "net"), ("show", "er-200-s0\x1b[2J")):
        said = command(*words, cwd=tmp_path)
        assert "\x1b" not in said.stdout + said.stderr, words
    assert [record["net"] for record in Store(tmp_path / "runs").records()] == [r"\x9b1m"]
