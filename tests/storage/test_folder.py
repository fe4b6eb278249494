"""Whatever lies in a run's folder: a value that fits, or one line on what does not."""

import copy
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from linsep.errors import StateError, printable
from linsep.storage import files
from linsep.storage.folder import RunFolder
from linsep.storage.store import read_facts

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
