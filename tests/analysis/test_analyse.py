"""Analyses of finished runs: against the runs' own results and against slow direct computations."""

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from linsep.analysis import ANALYSES, similarity
from linsep.analysis.analyse import analyse, lacking, stored, table
from linsep.analysis.features import Features, reopen
from linsep.analysis.probe import probe, transfer_rows
from linsep.compare.variants import compare
from linsep.errors import ConfigError, StateError
from linsep.nets.heads import LinearHead
from linsep.prepare import prepare
from linsep.resolve import devices
from linsep.settings.config import from_settings, to_toml
from linsep.storage import manifest, snapshots
from linsep.storage.folder import RunFolder
from linsep.storage.session import Session
from linsep.storage.store import Store
from tests.helpers.analysed_runs import PROTOCOLS, T, trained
from tests.helpers.command import command

QUICK: dict[str, dict[str, Any]] = {
    "probe": {"portions": (0.1, 1.0), "draws": 2},
    "tsne": {"points": 60, "engine": "pca"},
}


def quick(run: Features, name: str) -> dict[str, Any]:
    return analyse(run, name, QUICK.get(name, {}))


def possible(run: Features) -> list[str]:
    return [name for name in ANALYSES if not lacking(run, name)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("runs")
    for method in ("ft", "jt", "icarl", "derpp+fd", "derpp+bfp2"):
        trained(found, method)
    for seed in (0, 1):
        trained(found, "derpp+bfp", seed, keep="epochs")
    return found


@pytest.fixture
def copied(runs: Path, tmp_path: Path) -> Path:
    """A copy of the fine-tuned run, to be damaged."""
    (folder,) = runs.glob("blobs-ft-*")
    return Path(shutil.copytree(folder, tmp_path / folder.name))


@pytest.fixture
def opened(runs: Path) -> Callable[[str], Features]:
    def of(method: str, seed: int = 0) -> Features:
        (folder,) = runs.glob(f"blobs-{method}-*s{seed}-*")
        return Features(folder, reopen(folder))

    return of


def original(run: Features, task: int, split: str) -> tuple[Tensor, Tensor]:
    """Features and labels of one task's images, straight from the net."""
    learner = reopen(run.folder).build().learner
    at = {s.task: s for s in run.ends}
    snapshots.restore(at[max(at) if task not in at else task], learner)
    parts = [g.test for g in run.scenario.groups] if split == "test" else [
        t.train for t in run.scenario.tasks
    ]  # fmt: skip
    images = parts[task]
    return learner.embed(images), images.y


# --- features ------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["train", "test"])
def test_features_are_the_nets_own_in_the_order_of_tasks(
    opened: Callable[[str], Features], split: Any
) -> None:
    run = opened("derpp+bfp")
    for at in run.ends:
        z, y = original(run, at.task, split)
        rows = run.rows(split, at.task, at.task + 1)
        assert torch.allclose(run.matrix(at, split)[rows], z, atol=1e-6)
        assert torch.equal(run.labels(split)[rows], y)


def test_features_are_made_once(opened: Callable[[str], Features]) -> None:
    first = opened("ft")
    made = first.matrix(first.ends[-1], "test").clone()
    said: list[str] = []
    again = Features(first.folder, first.prepared, said.append)
    assert torch.equal(again.matrix(again.ends[-1], "test"), made)
    assert said == []
    (path,) = (first.folder / "features").glob(f"test-{first.ends[-1].name}-*.npy")
    other = io.BytesIO()
    np.save(other, np.zeros((3, 2)))
    for damaged in (b"nonsense", b"", other.getvalue()):
        path.write_bytes(damaged)
        with pytest.raises(StateError, match="damaged"):
            again.matrix(again.ends[-1], "test")
        assert torch.equal(again.matrix(again.ends[-1], "test"), made)


def test_a_run_of_other_data_or_another_name_is_refused(runs: Path, tmp_path: Path) -> None:
    (folder,) = runs.glob("blobs-ft-*")
    moved = tmp_path / "renamed"
    moved.mkdir()
    for name in ("config.toml", "results.json"):
        (moved / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(ConfigError, match="another run"):
        reopen(moved)


def test_code_of_a_foreign_run_is_not_run(runs: Path, tmp_path: Path) -> None:
    (folder,) = runs.glob("blobs-ft-*")
    moved = tmp_path / "foreign"
    moved.mkdir()
    (moved / "results.json").write_bytes((folder / "results.json").read_bytes())
    (tmp_path / "x.py").write_text("raise SystemExit('it was run')")
    config = f'method = "ft"\nseed = 0\n[scenario]\nname = "code"\ndata = "{tmp_path}/x.py:f"\n'
    (moved / "config.toml").write_text(config)
    with pytest.raises(ConfigError, match="not run unasked"):
        reopen(moved)


def test_what_was_trained_elsewhere_is_looked_at_here(tmp_path: Path) -> None:
    settings = PROTOCOLS | {"method": "ft", "compute": {"device": "cuda"}}
    there = prepare(from_settings(settings), lenient=True, here=False)
    folder = tmp_path / there.name
    folder.mkdir()
    (folder / "config.toml").write_text(to_toml(there.config))
    names = {"key": there.key, "data": "", "scenario": "blobs", "method": "ft"}
    metrics = dict.fromkeys(("class_il", "task_il"), dict.fromkeys(("faa", "ff", "ala"), 50.0))
    results = names | {"memory": 0, "seed": 0, "metrics": metrics}
    (folder / "results.json").write_text(json.dumps(results))
    again = reopen(folder)
    assert again.name == there.name
    assert again.config.compute.device in devices()
    assert again.build().learner.device.type in devices()


def test_what_is_in_the_way_is_one_line(copied: Path, tmp_path: Path) -> None:
    folder = copied
    for name in ("features", "analysis"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).write_text("in the way")
        said = command("analyse", str(folder), "--what", "cka", cwd=tmp_path)
        assert said.returncode == 2
        assert said.stderr.splitlines()[-1].startswith(f"error: cannot use {folder / name}")
        (folder / name).unlink()


@pytest.mark.filterwarnings("ignore:.*was kept and is missing")
def test_an_earlier_task_s_features_are_never_called_final(copied: Path, tmp_path: Path) -> None:
    folder = copied
    (folder / "snapshots" / "task03.safetensors").unlink()
    run = Features(folder, reopen(folder))
    assert possible(run) == [
        "spectrum",
        "cka",
        "tsne",
        "drift",
        "transfer",
    ]  # of the tasks that there are
    said = command("analyse", str(folder), "--what", "probe", cwd=tmp_path)
    assert said.returncode == 2
    assert "the snapshot at the end of task 3, the last, is missing" in said.stderr
    with pytest.raises(StateError, match="task 3, the last, is missing"):
        _ = run.last


# --- the analyses --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ft", "icarl", "derpp+bfp"])
def test_all_directions_give_the_recorded_accuracies(
    opened: Callable[[str], Features], method: str
) -> None:
    run = opened(method)
    matrix = RunFolder(run.folder).results()["matrices"]["class_il"]
    for centred in (False, True):
        tasks = analyse(run, "spectrum", {"centred": centred})["tasks"]
        assert [t["task"] for t in tasks] == list(range(T))
        for t, found in enumerate(tasks):
            assert found["proj_acc"]["newest"][-1] == pytest.approx(matrix[t][t], abs=1e-6)
            seen = np.mean(matrix[t][: t + 1])  # tasks have equally many test images
            assert found["proj_acc"]["seen"][-1] == pytest.approx(seen, abs=1e-6)
            assert found["rows"] == 60 * (t + 1)
            assert found["classes"] == 2 * (t + 1)


def test_unseen_are_the_classes_that_the_task_brings(opened: Callable[[str], Features]) -> None:
    """A task may repeat a class; in the last one here nothing is new."""
    run = opened("derpp+bfp")
    first, second, third = run.scenario.tasks
    tasks = first, replace(second, classes=(3,)), replace(third, classes=())
    run.scenario = replace(run.scenario, tasks=tasks)
    (found,) = similarity.make_cka(run)["tasks"]
    own = run.rows("test", 1, 2)
    rows = own.start + (run.labels("test")[own] == 3).nonzero()[:, 0]
    assert len(rows) == 20
    x, y = (run.matrix(at, "test")[rows].double() for at in run.ends[:2])
    assert found["unseen"]["centred"] == pytest.approx(naive_cka(x, y), abs=1e-6)


def naive_cka(x: Tensor, y: Tensor) -> float:
    n = len(x)
    h = torch.eye(n, dtype=torch.float64) - 1 / n
    k, m = h @ x @ x.T @ h, h @ y @ y.T @ h
    return float((k * m).sum() / (k.norm() * m.norm()))


def test_probes_stand_beside_the_trained_head(opened: Callable[[str], Features]) -> None:
    run = opened("derpp+bfp")
    results = RunFolder(run.folder).results()
    found = quick(run, "probe")
    assert found["head"] == pytest.approx(results["metrics"]["class_il"]["faa"] / 100)
    assert found["head_tasks"] == pytest.approx(results["matrices"]["class_il"][-1])
    assert [f["portion"] for f in found["final"]] == [0.1, 0.1, 1.0]
    assert [f["rows"] for f in found["final"]] == [18, 18, 180]
    for one in found["final"]:
        assert one["accuracy"] == pytest.approx(np.mean(one["tasks"]))
    for t, one in enumerate(found["rounds"]):
        assert one["head"] == pytest.approx(results["matrices"]["class_il"][t][: t + 1])
        assert len(one["probe"]) == t + 1
    # The last round and the whole portion are one and the same fit.
    assert found["rounds"][-1]["probe"] == found["final"][-1]["tasks"]


def test_a_first_task_of_one_class_has_no_probe(tmp_path: Path) -> None:
    changed = {"scenario": PROTOCOLS["scenario"] | {"first_task": 1, "per_task": 1}, "method": "ft"}
    with Session(prepare(from_settings(PROTOCOLS | changed), lenient=True), tmp_path) as session:
        for _ in session:
            pass
    run = Features(session.folder, reopen(session.folder))
    assert [r["task"] for r in quick(run, "probe")["rounds"]] == [1, 2, 3, 4, 5]


def test_forward_transfer_is_that_of_probes_before_the_task_and_of_random_weights(
    opened: Callable[[str], Features],
) -> None:
    """Straight from the networks, a task's own images alone; by hand, the mean of two tasks."""
    run = opened("derpp+bfp")
    found = analyse(run, "transfer")["tasks"]
    assert [task["task"] for task in found] == [1, 2]
    for task in found:
        t = task["task"]
        parts = run.scenario.tasks[t].train, run.scenario.groups[t].test
        for name in ("before", "after", "random"):
            ends = {"before": run.ends[t - 1], "after": run.ends[t]}
            learner = run.at(ends[name]) if name in ends else run.prepared.build().learner
            train, test = ((learner.embed(images), images.y) for images in parts)
            again = probe(train, test, 1.0, np.random.default_rng(0))
            assert task[name] == pytest.approx(again.accuracy, abs=0.03)  # of 40 images, one
        assert task["transfer"] == task["before"] - task["random"]
    shares = ((0.80, 0.9, 0.70, 0.10), (0.85, 0.9, 0.71, 0.14))
    names = ("before", "after", "random", "transfer")
    made = [{"task": t, **dict(zip(names, v, strict=True))} for t, v in enumerate(shares, 1)]
    *_, (place, mean) = transfer_rows({"tasks": made})
    assert place == ("mean",)
    assert mean["forward transfer"] == pytest.approx(12.0)


def test_a_plane_shows_the_same_images_before_and_after(opened: Callable[[str], Features]) -> None:
    run = opened("derpp+bfp")
    found = quick(run, "tsne")
    assert (found["task"], found["engine"], found["new"]) == (1, "pca", [2, 3])
    assert sorted(set(found["labels"])) == [0, 1, 2, 3]
    assert [found["labels"].count(c) for c in range(4)] == [15] * 4  # 60 points of 4 classes
    assert len(found["before"]) == len(found["after"]) == 60
    with pytest.raises(ConfigError, match="one of 2, 3"):
        analyse(run, "tsne", {"task": 3, "engine": "pca"})


@pytest.mark.parametrize("method", ["derpp+bfp", "derpp+fd", "derpp+bfp2"])
def test_the_old_head_on_projected_features(opened: Callable[[str], Features], method: str) -> None:
    run = opened(method)
    places = quick(run, "projection")["places"]
    epochs = method == "derpp+bfp"  # which kept every epoch
    assert len(places) == (T - 1) * (3 if epochs else 1)
    for t in (1, 2):
        images = [group.test for group in run.scenario.groups[:t]]
        y = torch.cat([i.y for i in images])
        old = run.at(run.ends[t - 1])
        head, seen = old.net.head, old.seen.clone()
        assert isinstance(head, LinearHead)
        weight, bias = head.weight.detach().clone(), head.bias.detach().clone()
        then = torch.cat([old.embed(i) for i in images])
        new = run.at(run.ends[t])
        z = torch.cat([new.embed(i) for i in images])
        ((_, term),) = snapshots.projections(new)
        with torch.no_grad():
            back = term.map_of("features").project(z)
        (found,) = (p for p in places if p["task"] == t and p["epoch"] is None)

        def right(features: Tensor, mask: Tensor = ~seen, w: Tensor = weight, b: Tensor = bias,
                  y: Tensor = y) -> float:  # fmt: skip
            scores = (features @ w.T + b).masked_fill(mask, -torch.inf)
            return float((scores.argmax(1) == y).double().mean())

        assert found["accuracy"] == pytest.approx(right(back))
        assert found["accuracy_before"] == pytest.approx(right(then))
        off = (back - then).square().sum() / (then - then.mean(0)).square().sum()
        assert found["residual"] == pytest.approx(float(off), rel=1e-4)
        assert ("singular_values" in found) == (method != "derpp+bfp2")
    before = {p["task"]: p["accuracy_before"] for p in places}
    assert all(p["accuracy_before"] == before[p["task"]] for p in places)
    if method == "derpp+fd":
        assert all(p["to_identity"] == 0 for p in places)


# --- keeping them --------------------------------------------------------------------------------


def test_equal_runs_and_settings_give_equal_bytes(opened: Callable[[str], Features]) -> None:
    run = opened("derpp+fd")
    for what in possible(run):
        quick(run, what)
    folder = run.folder / "analysis"
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sorted(first) == sorted(f"{what}.json" for what in ANALYSES)
    for path in [*folder.iterdir(), *(run.folder / "features").iterdir()]:
        path.unlink()
    again = Features(run.folder, run.prepared)
    for what in possible(again):
        quick(again, what)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first


def test_what_was_found_is_read_and_made_anew_when_settings_differ(
    opened: Callable[[str], Features],
) -> None:
    run = opened("icarl")
    made = quick(run, "probe")
    path = run.folder / "analysis" / "probe.json"
    marked = json.dumps(made | {"head": -1.0})
    path.write_text(marked)
    assert quick(run, "probe")["head"] == -1.0  # read
    other = {"portions": (1.0,), "draws": 1}
    assert analyse(run, "probe", other)["head"] == made["head"]  # made
    for damaged in ("{", "[]", '{"what": "probe"}', marked.replace("-1.0", "NaN")):
        path.write_text(damaged)
        with pytest.raises(StateError, match=r"analysis/probe.json is damaged: "):
            stored(run.folder, "probe")
    assert quick(run, "probe") == made


def test_features_that_are_all_alike_are_one_line(copied: Path, tmp_path: Path) -> None:
    """A net that has died still has accuracies, but its features say nothing."""
    folder = copied
    run, kept = Features(folder, reopen(folder)), manifest.read(folder)
    for at in run.ends:
        learner = run.at(at)
        for parameter in learner.net.backbone.parameters():
            parameter.data.zero_()
        for name, content in snapshots.write(folder, learner, at.task).items():
            kept.files[name] = manifest.noted(content)
    (folder / manifest.NAME).write_bytes(kept.to_bytes())
    said = command("analyse", "--runs", str(tmp_path), "--what", "cka", cwd=tmp_path)
    assert said.returncode == 2
    assert said.stderr.splitlines()[-1].startswith(f"error: {folder.name}: cka cannot be made")


@pytest.mark.filterwarnings("ignore:.*was kept and is missing")
def test_without_snapshots_it_says_what_to_do(copied: Path) -> None:
    folder = copied
    for path in sorted((folder / "snapshots").iterdir())[:-1]:
        path.unlink()
    run = Features(folder, reopen(folder))
    assert possible(run) == ["spectrum", "probe"]  # of the end
    with pytest.raises(StateError, match="--keep tasks"):
        quick(run, "cka")
    for path in (folder / "snapshots").iterdir():
        path.unlink()
    bare = Features(folder, reopen(folder))
    assert possible(bare) == []
    with pytest.raises(StateError, match="--keep tasks"):
        quick(bare, "spectrum")


# --- tables and the command line -----------------------------------------------------------------


def test_tables_gather_seeds(runs: Path) -> None:
    records = Store(runs).select("method=derpp+bfp")
    variants = compare(records).variants
    contents = [
        {"final": [{"portion": 1.0, "accuracy": a}], "head": h}
        for a, h in ((0.5, 0.25), (0.7, 0.35))
    ]
    found = {r.folder: c for r, c in zip(records, contents, strict=True)}
    shown = table("probe", variants, found)
    assert shown.columns == ["method", "seeds", "own head", "100 %"]
    planes = {r.folder: {"task": 1, "engine": "pca", "labels": [0, 1]} for r in records}
    assert list(table("tsne", variants, planes).rows[0]) == ["DER++ + BFP", 2, "pca", 2, 2]
    ((method, seeds, head, probe),) = shown.rows
    assert (method, seeds) == ("DER++ + BFP", 2)
    assert head.mean == pytest.approx(30.0)  # type: ignore[union-attr]
    assert probe.mean == pytest.approx(60.0)  # type: ignore[union-attr]
    assert probe.std == pytest.approx(10 * 2**0.5)  # type: ignore[union-attr]


def test_the_command_analyses_and_repeats(runs: Path, tmp_path: Path) -> None:
    words = ("analyse", "--runs", str(runs), "--where", "method=derpp+bfp", "--engine", "pca")
    first = command(*words, "--draws", "1", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    for title in ("proj-acc", "CKA", "linear probing", "on a plane", "old head"):
        assert title in first.stdout
    numbers = [line.partition(" ")[0] for line in first.stderr.splitlines()]
    assert list(dict.fromkeys(numbers)) == ["[1/2]", "[2/2]"]
    again = command(*words, "--draws", "1", cwd=tmp_path)
    assert again.stdout == first.stdout
    assert again.stderr == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--what", "spectra"), "spectrum"),
        (("--engine", "umap"), "opentsne"),
        (("--where", "method=nothing"), "no finished runs"),
        (("--what", "cka", "--where", "method=jt"), "--keep tasks"),
        (("--what", "projection", "--where", "method in (ft, jt)"), "no projection"),
        (("--what", "projection", "--where", "method=ft"), "+bfp"),
        (("--what", "tsne", "--task", "9", "--where", "method=ft"), "--task"),
        (("no-such-run",), "no-such-run"),
    ],
)
def test_nonsense_is_one_line(
    runs: Path, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    got = command("analyse", *words, "--runs", str(runs), cwd=tmp_path)
    assert got.returncode == 2
    last = got.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert said in last


def test_a_damaged_run_is_left_out_and_the_others_are_analysed(runs: Path, tmp_path: Path) -> None:
    good, bad = (
        Path(shutil.copytree(folder, tmp_path / "runs" / folder.name))
        for folder in sorted(runs.glob("blobs-derpp+bfp-*"))
    )
    for folder in (good, bad):
        shutil.rmtree(folder / "analysis", ignore_errors=True)
        shutil.rmtree(folder / "features", ignore_errors=True)
    (bad / "snapshots" / "task02.safetensors").write_bytes(b"nonsense")
    said = command("analyse", "--what", "cka,probe", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    for name in ("cka", "probe"):
        assert stored(good, name) is not None
        assert stored(bad, name) is None
        assert f"left out of {name}: " in said.stderr


def test_ctrl_c_keeps_what_is_done(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(run: Features, what: str, options: dict[str, Any]) -> dict[str, Any]:
        if what == "probe":
            raise KeyboardInterrupt
        return analyse(run, what, options)

    (folder,) = runs.glob("blobs-derpp+fd-*")
    for path in (folder / "analysis").glob("*.json"):
        path.unlink()
    monkeypatch.setattr("linsep.analysis.analyse.analyse", interrupted)
    said = command("analyse", str(folder), "--what", "cka,probe", cwd=tmp_path)
    assert said.returncode == 130
    assert "Repeat the command" in said.stderr
    assert stored(folder, "cka") is not None
