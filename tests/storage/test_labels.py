"""Names and tags: kept with the run, found by, changed at will, and without effect on anything."""

from pathlib import Path

from linsep.storage.folder import RunFolder
from linsep.storage.session import Session
from linsep.storage.store import Store, open_record, relabel
from tests.helpers.command import command
from tests.helpers.made_runs import make_run
from tests.helpers.real_runs import DETERMINISTIC, PROTOCOLS, prepared

LABELS = {"name": "ours", "tags": ["ablation", "2024"]}
DATA = {**PROTOCOLS["scenario"], "data_name": "product photos"}


def test_labels_change_neither_key_nor_numbers(whole: Path, tmp_path: Path) -> None:
    named = prepared(**LABELS, scenario=DATA)
    assert named.name == whole.name
    with Session(named, tmp_path / "named") as session:
        assert list(session)
    for name in set(DETERMINISTIC) - {"config.toml"}:
        assert (session.folder / name).read_bytes() == (whole / name).read_bytes(), name
    config = RunFolder(session.folder).config()
    assert (config["name"], config["tags"]) == ("ours", ["ablation", "2024"])
    del config["name"], config["tags"], config["scenario"]["data_name"]
    assert config == RunFolder(whole).config()


def test_a_run_is_found_by_its_labels(tmp_path: Path) -> None:
    make_run(tmp_path, "er", 0, 50.0, settings={"name": "plain", "tags": ["a", "2024"]})
    make_run(tmp_path, "er", 1, 50.0, settings={"name": "plain", "tags": ["b"]})
    make_run(tmp_path, "er", 2, 50.0, settings={"scenario": {"data_name": "product photos"}})

    def seeds(where: str) -> list[object]:
        return [record["seed"] for record in Store(tmp_path).select(where)]

    assert seeds("name=plain") == [0, 1]
    assert seeds("name=er-200-s2") == [2]
    assert seeds("tag=a") == seeds("tag=2024") == seeds("tag='2024'") == [0]
    assert seeds("tag in (a, b)") == [0, 1]
    assert seeds("tag != a") == seeds("not tag=a") == [1, 2]
    assert seeds("tag = 'a, 2024'") == []
    assert seeds("data_name='product photos'") == [2]
    first, _, last = Store(tmp_path).records()
    assert (first.name, first.given_name, first.tags) == ("er-200-s0", "plain", ["a", "2024"])
    assert (last.name, last.given_name, last.tags) == ("er-200-s2", None, [])


def test_labels_may_be_changed_at_any_time(finished: Path, stopped: Path) -> None:
    """Finished or not, by the command that made the run; other labels stay."""
    results = (finished / "results.json").read_bytes()
    for folder in (finished, stopped):
        for labels in (LABELS, {"tags": ["new"]}):
            with Session(prepared(**labels), folder.parent) as session:
                assert session.folder == folder
        assert open_record(folder, folder.parent).given_name == "ours"
        assert open_record(folder, folder.parent).tags == ["ablation", "2024", "new"]
    assert (finished / "results.json").read_bytes() == results
    relabel(finished, {"name": "theirs"}, without=("ablation", "2024", "new"))
    assert "tags" not in RunFolder(finished).config()
    assert not relabel(finished, {"name": "theirs"})


def test_a_grid_does_not_repeat_a_run_to_name_it(tmp_path: Path) -> None:
    words = ("grid", "--over", "seed=0,1", "--set", "scenario=blobs", "--set", "memory=20", "-q",
             "--set", "training.epochs=1", "--set", "scenario.train=10", "--set",
             "scenario.test=5")  # fmt: skip
    assert command(*words, cwd=tmp_path).returncode == 0
    before = [p.stat().st_mtime_ns for p in sorted(tmp_path.glob("runs/*/results.json"))]
    assert command(*words, "--name", "g", "--tag", "t", "--dry-run", cwd=tmp_path).returncode == 0
    assert Store(tmp_path / "runs").select("tag=t") == []
    assert command(*words, "--name", "g", "--tag", "t", cwd=tmp_path).returncode == 0
    assert len(Store(tmp_path / "runs").select("name=g and tag=t")) == 2
    after = [p.stat().st_mtime_ns for p in sorted(tmp_path.glob("runs/*/results.json"))]
    assert before == after


def test_the_label_command(tmp_path: Path) -> None:
    for seed in range(2):
        make_run(tmp_path / "runs", "er", seed, 50.0)
    said = command("runs", "label", "er-200-s1", "--name", "ours", "--tag", "a", cwd=tmp_path)
    assert (said.returncode, said.stdout) == (0, "1 of 1 runs changed.\n")
    said = command("runs", "label", "--where", "memory=200", "--tag", "a", cwd=tmp_path)
    assert said.stdout == "1 of 2 runs changed.\n"
    assert [r.tags for r in Store(tmp_path / "runs").records()] == [["a"], ["a"]]
    for words, problem in (
        (("--tag", "b"), "error: name the runs or give --where"),
        (("er-200-s1",), "error: nothing to change"),
        (("er-200-s1", "--tag", "a,b"), "error: tags.0: should have no comma, not 'a,b'"),
    ):
        said = command("runs", "label", *words, cwd=tmp_path)
        assert said.returncode == 2
        assert said.stderr.startswith(problem)
