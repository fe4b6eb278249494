"""The store: folders are the truth, whatever state its index is in."""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from linsep.compare.summaries import listing
from linsep.errors import ConfigError, StateError
from linsep.learning.run import StepEnd
from linsep.storage.session import Session
from linsep.storage.store import Record, Store, open_record, read_facts
from tests.helpers.command import command
from tests.helpers.made_runs import make_run
from tests.helpers.real_runs import prepared, straight


def made(runs: Path) -> Path:
    for seed in range(3):
        make_run(runs, "er", seed, 50.0 + seed)
        make_run(runs, "derpp+bfp", seed, 60.0 + seed, settings={"bfp": {"weight": 3.0}})
    make_run(runs, "er", 0, 70.0, settings={"memory": {"size": 500}})
    make_run(runs, "er", 9)
    return runs


def facts(records: list[Record]) -> dict[str, dict[str, Any]]:
    return {record.name: dict(record.facts) for record in records}


def fresh(runs: Path) -> dict[str, dict[str, Any]]:
    """What the folders say, without any index."""
    return {f.name: read_facts(f) for f in runs.iterdir() if (f / "config.toml").exists()}


def test_a_real_run_in_the_store(tmp_path: Path) -> None:
    folder = straight(tmp_path)
    (record,) = Store(tmp_path).records()
    results = json.loads((folder / "results.json").read_text())
    assert record.finished
    assert record["faa"] == results["metrics"]["class_il"]["faa"]
    assert record["task_il.ff"] == results["metrics"]["task_il"]["ff"]
    assert (record["scenario"], record["memory"], record["scenario.train"]) == ("blobs", 8, 20)
    assert record["bfp.weight"] == 1.0
    assert record["training.schedule.milestones"] == "[]"


def test_an_unfinished_run_says_how_far_it_came(tmp_path: Path) -> None:
    steps = 0
    with Session(prepared(), tmp_path) as session:
        for event in session:
            steps += isinstance(event, StepEnd)
            (record,) = Store(tmp_path).records()
            assert not record.finished
            if steps == 1:
                assert record["progress"] == "begun"
            if steps == 9:  # 4 steps an epoch, 2 epochs a task
                assert record["progress"] == "task 1 learned"
                break
    with (session.folder / "events.jsonl").open("a") as file:
        place = '{"event": "epoch_end", "task": 1, "stage": "train", "epoch": 0'
        file.write(place + ', "steps": 4, "losses": {}}\n{"cut')
    (record,) = Store(tmp_path).records()
    assert record["progress"] == "task 2, train epoch 1/2"


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        (None, 8),
        ("memory=200", 7),
        ("memory=200 and faa>51", 4),
        ("method=er and memory.size=500", 1),
        ("bfp.weight=3", 3),
        ("net.width=8 and net.options.width=8", 8),
        ("status=unfinished", 1),
        ("seed in (1, 2) and not method=er", 2),
        ("class_il.ff<45", 4),
        ("training.momentum=0.9", 0),
    ],
)
def test_select(condition: str | None, count: int, tmp_path: Path) -> None:
    assert len(Store(made(tmp_path)).select(condition)) == count


def test_sorting(tmp_path: Path) -> None:
    found = Store(made(tmp_path)).select("memory=200", sort="method,-faa")
    assert [(r["method"], r["seed"]) for r in found] == [
        ("derpp+bfp", 2), ("derpp+bfp", 1), ("derpp+bfp", 0), ("er", 2), ("er", 1), ("er", 0),
        ("er", 9),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("metod=er", "'method'"),
        ("training.epoch=3", "'training.epochs'"),
        ("bfp.wight=1", "'bfp.weight'"),
    ],
)
def test_a_wrong_name_is_one_line_with_a_hint(asked: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        Store(made(tmp_path)).select(asked)
    assert f"Did you mean {hint}?" in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(ConfigError):
        Store(tmp_path).select(None, sort=asked.partition("=")[0])


@pytest.mark.parametrize("name", ["method", "-seed", "training.lr", "faa"])
def test_settings_are_known_before_there_is_a_run(name: str, tmp_path: Path) -> None:
    assert Store(tmp_path).select(sort=name) == []


def test_the_index_follows_the_folders(tmp_path: Path) -> None:
    store = Store(made(tmp_path))
    store.records()
    make_run(tmp_path, "ft", 0, 20.0)
    shutil.rmtree(tmp_path / "er-200-s0")
    (tmp_path / "er-200-s1").rename(tmp_path / "moved")
    results = tmp_path / "er-200-s2" / "results.json"
    results.write_text(results.read_text().replace("52.0", "53.0"))
    (tmp_path / "er-500-s0" / "results.json").unlink()
    (tmp_path / "grid.log").write_text("no run")
    (tmp_path / "empty").mkdir()
    found = facts(store.records())
    assert found == fresh(tmp_path)
    assert found["er-200-s2"]["class_il.faa"] == 53.0
    assert found["er-500-s0"]["status"] == "unfinished"
    assert found["moved"]["name"] == "moved"
    store.index.unlink()
    assert facts(store.records()) == found


def test_only_what_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(made(tmp_path))
    store.records()
    read: list[str] = []

    def noted(folder: Path) -> dict[str, Any]:
        read.append(folder.name)
        return read_facts(folder)

    monkeypatch.setattr("linsep.storage.store.read_facts", noted)
    store.records()
    assert read == []
    make_run(tmp_path, "ft", 0, 20.0)
    store.records()
    assert read == ["ft-200-s0"]


RUINS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "text": lambda content: b"no index at all",
    "cut": lambda content: content[: len(content) // 2],
    "zeros": lambda content: content[:200] + bytes(len(content) - 200),
    "another number": lambda content: content.replace(b"52.0", b"99.0"),
    "broken words": lambda content: content.replace(b'"method"', b'"method\x00'),
    "random bytes": lambda content: content[:100] + os.urandom(64) + content[164:],
}


@pytest.mark.parametrize("kind", RUINS)
def test_a_damaged_index_changes_no_answer(kind: str, tmp_path: Path) -> None:
    store = Store(made(tmp_path))
    store.records()
    before = store.index.read_bytes()
    store.index.write_bytes(RUINS[kind](before))
    assert store.index.read_bytes() != before
    for _ in range(2):
        assert facts(store.records()) == fresh(tmp_path)


def test_an_index_of_another_version_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(made(tmp_path))
    store.records()
    monkeypatch.setattr("linsep.storage.store.VERSION", 0)
    monkeypatch.setattr("linsep.storage.store.read_facts", lambda folder: {"name": folder.name})
    assert facts(store.records()) == {name: {"name": name} for name in fresh(tmp_path)}


def _many_times(runs: Path, count: int) -> None:
    for _ in range(count):
        assert facts(Store(runs).records()) == fresh(runs)


def test_several_processes_at_once(tmp_path: Path) -> None:
    made(tmp_path)
    context = multiprocessing.get_context("fork")
    work = [context.Process(target=_many_times, args=(tmp_path, 20)) for _ in range(4)]
    for process in work:
        process.start()
    index = Store(tmp_path).index
    while any(process.is_alive() for process in work):
        work[0].join(0.05)
        if index.exists():
            index.write_bytes(b"ruined while others read it")
    assert [process.exitcode for process in work] == [0] * 4
    assert facts(Store(tmp_path).records()) == fresh(tmp_path)


def test_damaged_runs_are_shown_as_such(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "er", 0, 50.0)
    (folder / "results.json").write_text("{")
    other = make_run(tmp_path, "er", 1, 50.0)
    (other / "config.toml").write_text("[")
    third = make_run(tmp_path, "er", 2, 50.0)
    (third / "results.json").write_text("[]")
    fourth = make_run(tmp_path, "er", 3, 50.0)
    (fourth / "config.toml").write_text('method = "er"')
    assert [r["status"] for r in Store(tmp_path).records()] == ["damaged"] * 4
    assert [r["progress"] for r in Store(tmp_path).records()] == [
        "results.json: Invalid JSON: EOF while parsing an object at line 1 column 1",
        "config.toml: not TOML: Invalid initial character for a key part (at end of document)",
        "results.json: should be an object, not []",
        "config.toml: seed: Field required",
    ]


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    made(tmp_path)
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert facts(Store(tmp_path).records()) == fresh(tmp_path)
    assert not (tmp_path / ".index").exists()


def test_no_runs_at_all(tmp_path: Path) -> None:
    assert Store(tmp_path / "nowhere").select("anything=1") == []
    with pytest.raises(StateError, match="not a run"):
        open_record(Path("x"), tmp_path)


# --- the command ---------------------------------------------------------------------------------


def test_runs_lists_what_there_is(tmp_path: Path) -> None:
    made(tmp_path / "runs")
    said = command("runs", "--where", "memory=200", "--fields", "training.lr", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "7 runs, 6 finished" in said.stdout
    line = next(s for s in said.stdout.splitlines() if "derpp+bfp-200-s1" in s)
    assert line.split() == [
        "derpp+bfp-200-s1", "derpp+bfp-200-s1", "finished", "split-cifar10", "derpp+bfp", "200",
        "1", "0.03", "61.00", "39.00", "61.00",
    ]  # fmt: skip
    assert "unfinished: not begun" in said.stdout
    none = command("runs", "--where", "memory=9", cwd=tmp_path)
    assert none.stdout == "No runs with memory=9 in runs.\n"
    wrong = command("runs", "--where", "memory=", cwd=tmp_path)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


def test_a_column_is_listed_once(tmp_path: Path) -> None:
    records = Store(made(tmp_path)).records()
    plain = listing(records)
    assert listing(records, ["seed", "faa", "status", "key", "scenario"]).columns == plain.columns
    twice = listing(records, ["lr", "training.lr"])
    assert sorted(twice.columns) == sorted([*plain.columns, "training.lr"])


def test_runs_as_json(tmp_path: Path) -> None:
    made(tmp_path / "runs")
    said = command("runs", "--format", "json", "--sort=-faa", cwd=tmp_path)
    whole = json.loads(said.stdout)
    assert len(whole) == 8
    assert whole[0]["class_il.faa"] == 70.0
    assert whole[0]["folder"] == "runs/er-500-s0"


def test_looking_needs_no_torch(tmp_path: Path) -> None:
    made(tmp_path / "runs")
    program = """
import sys
from linsep.cli import app
for words in (["runs"], ["compare"], ["runs", "--where", "memory=200"]):
    try:
        app(words)
    except SystemExit as end:
        assert not end.code, words
sys.exit("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr
