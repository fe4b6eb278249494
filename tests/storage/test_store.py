"""The store: folders are the truth, whatever state its index is in."""

import json
import multiprocessing
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from linsep.learning.run import StepEnd
from linsep.storage.session import Session
from linsep.storage.store import Record, Store, read_facts
from tests.helpers.command import command
from tests.helpers.made_runs import make_run
from tests.helpers.real_runs import prepared


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Seven finished runs and one that was not begun."""
    for seed in range(3):
        make_run(tmp_path / "runs", "er", seed, 50.0 + seed)
        more = {"bfp": {"weight": 3.0}}
        make_run(tmp_path / "runs", "derpp+bfp", seed, 60.0 + seed, settings=more)
    make_run(tmp_path / "runs", "er", 0, 70.0, settings={"memory": {"size": 500}})
    make_run(tmp_path / "runs", "er", 9)
    return tmp_path / "runs"


def facts(records: list[Record]) -> dict[str, dict[str, Any]]:
    return {record.name: dict(record.facts) for record in records}


def fresh(runs: Path) -> dict[str, dict[str, Any]]:
    """What the folders say, without any index."""
    return {f.name: read_facts(f) for f in runs.iterdir() if (f / "config.toml").exists()}


def test_a_real_run_in_the_store(whole: Path) -> None:
    (record,) = Store(whole.parent).records()
    results = json.loads((whole / "results.json").read_text())
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


SELECTED = {
    "memory=200 and faa>51": 4,
    "method=er and memory.size=500": 1,
    "bfp.weight=3": 3,
    "net.width=8 and net.options.width=8": 8,
    "status=unfinished": 1,
    "seed in (1, 2) and not method=er": 2,
    "class_il.ff<45": 4,
    "training.momentum=0.9": 0,
}


def test_select(runs: Path) -> None:
    store = Store(runs)
    assert len(store.select()) == 8
    assert {condition: len(store.select(condition)) for condition in SELECTED} == SELECTED
    found = store.select("memory=200", sort="method,-faa")
    assert [r["seed"] for r in found] == [2, 1, 0, 2, 1, 0, 9]


def test_the_index_follows_the_folders(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And reads again only what changed."""
    store, read = Store(runs), list[str]()
    store.records()

    def noted(folder: Path) -> dict[str, Any]:
        read.append(folder.name)
        return read_facts(folder)

    monkeypatch.setattr("linsep.storage.store.read_facts", noted)
    store.records()
    assert read == []
    make_run(runs, "ft", 0, 20.0)
    shutil.rmtree(runs / "er-200-s0")
    (runs / "er-200-s1").rename(runs / "moved")
    results = runs / "er-200-s2" / "results.json"
    results.write_text(results.read_text().replace("52.0", "53.0"))
    (runs / "er-500-s0" / "results.json").unlink()
    (runs / "grid.log").write_text("no run")
    (runs / "empty").mkdir()
    found = facts(store.records())
    assert sorted(read) == ["er-200-s2", "er-500-s0", "ft-200-s0", "moved"]
    assert found == fresh(runs)
    assert found["er-200-s2"]["class_il.faa"] == 53.0
    assert found["er-500-s0"]["status"] == "unfinished"
    assert found["moved"]["name"] == "moved"


RUINS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "text": lambda content: b"no index at all",
    "cut": lambda content: content[: len(content) // 2],
    "another number": lambda content: content.replace(b"52.0", b"99.0"),
}


@pytest.mark.parametrize("kind", RUINS)
def test_a_damaged_index_changes_no_answer(kind: str, runs: Path) -> None:
    store = Store(runs)
    store.records()
    before = store.index.read_bytes()
    store.index.write_bytes(RUINS[kind](before))
    assert store.index.read_bytes() != before
    for _ in range(2):
        assert facts(store.records()) == fresh(runs)


def _many_times(runs: Path, count: int) -> None:
    for _ in range(count):
        assert facts(Store(runs).records()) == fresh(runs)


def test_several_processes_at_once(runs: Path) -> None:
    context = multiprocessing.get_context("fork")
    work = [context.Process(target=_many_times, args=(runs, 8)) for _ in range(4)]
    for process in work:
        process.start()
    index = Store(runs).index
    while any(process.is_alive() for process in work):
        work[0].join(0.05)
        if index.exists():
            index.write_bytes(b"ruined while others read it")
    assert [process.exitcode for process in work] == [0] * 4
    assert facts(Store(runs).records()) == fresh(runs)


def test_a_folder_that_cannot_be_written(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert facts(Store(runs).records()) == fresh(runs)
    assert not (runs / ".index").exists()


# --- the command ---------------------------------------------------------------------------------


def test_runs_lists_what_there_is(runs: Path) -> None:
    said = command("runs", "--where", "memory=200", "--fields", "training.lr", cwd=runs.parent)
    assert said.returncode == 0, said.stderr
    assert "7 runs, 6 finished" in said.stdout
    line = next(s for s in said.stdout.splitlines() if "derpp+bfp-200-s1" in s)
    assert line.split() == [
        "derpp+bfp-200-s1", "derpp+bfp-200-s1", "finished", "split-cifar10", "derpp+bfp", "200",
        "1", "0.03", "61.00", "39.00", "61.00",
    ]  # fmt: skip
    assert "unfinished: not begun" in said.stdout
    none = command("runs", "--where", "memory=9", cwd=runs.parent)
    assert none.stdout == "No runs with memory=9 in runs.\n"
    wrong = command("runs", "--where", "memory=", cwd=runs.parent)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    said = command("runs", "--format", "json", "--sort=-faa", cwd=runs.parent)
    first, *others = json.loads(said.stdout)
    assert (first["class_il.faa"], first["folder"], len(others)) == (70.0, "runs/er-500-s0", 7)


def test_looking_needs_no_torch(runs: Path) -> None:
    program = """
import sys
from linsep.cli import app
for words in (["runs", "--where", "memory=200"], ["compare"]):
    try:
        app(words)
    except SystemExit as end:
        assert not end.code, words
sys.exit("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=runs.parent, capture_output=True)
    assert done.returncode == 0, done.stderr
