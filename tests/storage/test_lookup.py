"""A run is found by its path, its name, its key, or the start of either."""

from pathlib import Path

import pytest

from linsep.errors import StateError
from linsep.storage.store import Record, Store, open_record, short_keys
from tests.helpers.made_runs import make_run

KEYS = ("aaaaaaaa01", "aaaaaaaa02", "b123456789")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for seed, key in enumerate(KEYS):
        make_run(tmp_path / "runs", seed=seed, faa=50.0 + seed, label=f"-{key}")
    make_run(tmp_path / "runs", "derpp+bfp", label="-cccccccccc")  # not finished
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("b", "er-200-s2-b123456789"),
        ("aaaaaaaa02", "er-200-s1-aaaaaaaa02"),
        ("er-200-s1", "er-200-s1-aaaaaaaa02"),
        ("derpp", "derpp+bfp-200-s0-cccccccccc"),
    ],
)
def test_a_run_is_found(word: str, name: str, runs: Path) -> None:
    for way in (word, runs / name, str(runs / name)):
        assert open_record(way, runs).folder == runs / name
    assert open_record(runs / name, Path("elsewhere")).folder == runs / name


def test_a_whole_name_is_not_taken_for_the_start_of_another(runs: Path) -> None:
    make_run(runs, seed=1, faa=1.0, label="-aaaaaaaa02-copy")
    assert open_record("er-200-s1-aaaaaaaa02", runs).name == "er-200-s1-aaaaaaaa02"


@pytest.mark.parametrize("word", ["aaaaaaaa0", "er-200"])
def test_several_are_listed_in_one_line(word: str, runs: Path) -> None:
    with pytest.raises(StateError) as raised:
        open_record(word, runs)
    said = str(raised.value)
    assert f"{word} may be any of" in said
    assert "\n" not in said
    for key in KEYS[:2]:
        assert key in said


def test_short_keys_are_as_long_as_they_must_be(runs: Path) -> None:
    records = Store(runs).records()
    keys = short_keys(records)
    assert set(keys.values()) == {*KEYS, "cccccccccc"}  # two differ in the last character only
    few = [record for record in records if "aaaa" not in record.name]
    assert set(short_keys(few).values()) == {"b12345", "cccccc"}
    for record in records:
        assert open_record(keys[record.folder], runs) == record
    bare = Record(Path("mine"), {"name": "mine", "status": "unfinished"})
    assert short_keys([bare]) == {Path("mine"): ""}
