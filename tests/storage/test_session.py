"""A run's folder: what is in it, and what happens to it when things go wrong."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

import linsep
from linsep.errors import DivergedError, StateError
from linsep.prepare import prepare
from linsep.settings.config import from_settings
from linsep.storage import files
from linsep.storage.folder import RunFolder
from linsep.storage.manifest import to_json
from linsep.storage.session import Session
from linsep.testing import same
from tests.helpers.command import command
from tests.helpers.real_runs import PROTOCOLS, contents, interrupted, prepared, straight


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run leaves behind to which nothing happened."""
    return contents(straight(tmp_path_factory.mktemp("straight")))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with two saved states, for tests to copy and to damage."""
    return interrupted(tmp_path_factory.mktemp("stopped"), 6)


@pytest.fixture
def hurt(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "hurt" / stopped.name))


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS | st.text('[]{}", \n\\'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('[]{}", \n\\'), inner),
)


@given(VALUES)
def test_json_for_people_says_the_same(content: Any) -> None:
    assert json.loads(to_json(content)) == content


def test_the_confusion_counts_what_the_last_accuracies_say(tmp_path: Path) -> None:
    results = RunFolder(straight(tmp_path)).results()
    confusion = torch.tensor(results["confusion"])
    assert confusion.sum(1).tolist() == [5, 5, 5, 5]  # test images of each class
    for classes, last in zip(results["groups"], results["matrices"]["class_il"][-1], strict=True):
        right = sum(int(confusion[c, c]) for c in classes)
        assert right / (5 * len(classes)) == last


def test_the_folder_of_a_run_stopped_in_an_epoch_ends_equal(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    for steps in (1, 3, 5, 11):
        runs = tmp_path / str(steps)
        interrupted(runs, steps)
        assert contents(straight(runs)) == expected, steps


def test_what_was_recorded_after_the_last_save_is_cut_off(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    folder = interrupted(tmp_path / "cut", 5)
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"event": "epoch_end", "task": 0, "epo')
    assert contents(straight(tmp_path / "cut")) == expected


@pytest.mark.parametrize("damage", ["truncated", "flipped", "foreign", "missing"])
def test_a_damaged_state_falls_back_to_the_one_before(
    hurt: Path, damage: str, expected: dict[str, bytes]
) -> None:
    state = hurt / "state.safetensors"
    content = bytearray(state.read_bytes())
    assert (hurt / "state.previous.safetensors").exists()
    match damage:
        case "truncated":
            state.write_bytes(content[: len(content) // 2])
        case "flipped":
            content[len(content) // 2] ^= 1
            state.write_bytes(content)
        case "foreign":
            state.write_bytes(b"PK\x03\x04 something else")
        case "missing":
            state.unlink()
    if damage == "missing":  # as after a kill between two renames
        straight(hurt.parent)
    else:
        with pytest.warns(UserWarning, match=r"state\.safetensors is damaged"):
            straight(hurt.parent)
    assert contents(hurt) == expected


def test_two_damaged_states_are_an_error_and_stay(hurt: Path) -> None:
    for name in ("state.safetensors", "state.previous.safetensors"):
        (hurt / name).write_bytes(b"nonsense")
    with (
        pytest.warns(UserWarning, match="not a saved state"),
        pytest.raises(StateError, match="remove the folder"),
    ):
        straight(hurt.parent)
    assert (hurt / "state.safetensors").read_bytes() == b"nonsense"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: state.pop("run"),
        lambda state: state.pop("events"),
        lambda state: state.update(events=[]),
        lambda state: state.update(key="0123456789"),
        lambda state: state["run"].update(seed=7),
        lambda state: state["run"].update(cursor=(0, 0, 0)),
        lambda state: state["run"].update(cursor=(99, 0, 0, 0)),
        lambda state: state["run"].update(cursor=("a", "b", "c", "d")),
        lambda state: state["run"].update(class_il=torch.zeros(())),
        lambda state: state["run"].update(counts={"ce": "three"}),
        lambda state: state["run"].update(sums=None),
        lambda state: state["run"].update(learner=[]),
        lambda state: state["run"]["learner"].pop("net"),
        lambda state: state["run"]["learner"].update(net={"a": 1}),
    ],
)
def test_a_whole_file_with_a_wrong_state_falls_back_too(
    hurt: Path, spoil: Any, expected: dict[str, bytes]
) -> None:
    """Its checksum is right; it was written by other hands, or for another run."""
    state = files.unseal(hurt / "state.safetensors")
    spoil(state)
    (hurt / "state.safetensors").write_bytes(files.seal(state))
    with pytest.warns(UserWarning, match=r"state|seed 7"):
        straight(hurt.parent)
    assert contents(hurt) == expected


def test_damaged_environments_stop_nobody(tmp_path: Path, expected: dict[str, bytes]) -> None:
    folder = interrupted(tmp_path / "runs", 3)
    (folder / "manifest.json").write_text("[{")
    with pytest.warns(UserWarning, match=r"manifest\.json.*a new one is begun"):
        straight(tmp_path / "runs")
    assert len(RunFolder(folder).manifest().environments) == 1
    assert contents(folder) == expected


def test_a_deleted_config_is_written_again_and_a_changed_one_refused(tmp_path: Path) -> None:
    folder = interrupted(tmp_path, 3)
    config = (folder / "config.toml").read_text()
    for old, new, said in (
        ("seed = 0", "seed = 1", "seed is 1, and the run has 0"),
        ("\nbatch_size = 10", "\nbatch_size = 20", "training.batch_size is 20, and the run has 10"),
        ("[training]", "[training]\nextra = 1", "training.extra is 1, and the run has None"),
        ("[training]", "[training", "not TOML"),
    ):
        (folder / "config.toml").write_text(config.replace(old, new))
        with pytest.raises(StateError, match=said):
            straight(tmp_path)
    (folder / "config.toml").unlink()
    straight(tmp_path)
    assert (folder / "config.toml").read_text() == config


def test_the_state_of_another_run_is_refused(tmp_path: Path) -> None:
    """Same seed, same shapes, another learning rate."""
    folder = interrupted(tmp_path / "one", 3)
    changed = prepared(training={"epochs": 2, "batch_size": 10, "lr": 0.5})
    with Session(changed, tmp_path / "two") as session:
        next(iter(session))
        session.save()
    for name in ("state.safetensors", "state.previous.safetensors"):
        (session.folder / name).write_bytes((folder / "state.safetensors").read_bytes())
    with (
        pytest.warns(UserWarning, match="state of another run"),
        pytest.raises(StateError, match="no saved state"),
        Session(changed, tmp_path / "two"),
    ):
        pass


def test_changed_events_of_an_unfinished_run_are_restored(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    folder = interrupted(tmp_path / "runs", 11)
    path = folder / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"ce": ', b'"ce": 9', 1))
    with pytest.warns(UserWarning, match=r"events\.jsonl was changed; it is restored"):
        straight(tmp_path / "runs")
    assert contents(folder) == expected


def test_nothing_is_written_through_a_symbolic_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    folder = interrupted(tmp_path / "runs", 3)
    for name in ("events.jsonl", "timing.jsonl"):
        (folder / name).unlink()
        (folder / name).symlink_to(victim)
    with pytest.raises(StateError, match=r"timing\.jsonl: it is a symbolic link"):
        straight(tmp_path / "runs")
    assert not (folder / "events.jsonl").is_symlink()
    (folder / "timing.jsonl").unlink()
    straight(tmp_path / "runs")
    assert victim.read_text() == "precious\n"


def test_a_state_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, ("exit 1",)

    path = tmp_path / "state.safetensors"
    torch.save({"run": Evil()}, path)
    with pytest.raises(StateError, match="not a saved state"):
        files.unseal(path)


def test_a_full_disk_is_one_error_and_leaves_the_old_state(
    tmp_path: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = interrupted(tmp_path, 3)
    before = (folder / "state.safetensors").read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Session(prepared(), tmp_path) as session:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StateError, match="No space left on device"):
            session.save()
    monkeypatch.undo()
    assert (folder / "state.safetensors").read_bytes() == before
    assert not list(folder.glob(".*.tmp"))
    assert contents(straight(tmp_path)) == expected


def test_other_threads_on_resume_are_warned_about(tmp_path: Path) -> None:
    interrupted(tmp_path, 3)
    before = torch.get_num_threads()
    try:
        changed = prepared(compute={"threads": 2})
        with pytest.warns(UserWarning, match="threads"), Session(changed, tmp_path):
            pass
    finally:
        torch.set_num_threads(before)


def test_a_run_that_is_built_uses_as_many_threads_as_one_in_a_folder() -> None:
    before = torch.get_num_threads()
    try:
        for wanted, used in ((None, 1), (3, 3)):
            torch.set_num_threads(2)
            linsep.build(linsep.Config(**PROTOCOLS, compute={"threads": wanted}))
            assert torch.get_num_threads() == used
    finally:
        torch.set_num_threads(before)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_good_state(
    tmp_path: Path,
) -> None:
    wild = prepared(training={"epochs": 2, "batch_size": 10, "lr": 1e30})
    with (
        Session(wild, tmp_path, save_every=0) as session,
        pytest.raises((DivergedError, StateError), match=r"loss|finite"),
    ):
        for _ in session:
            pass
    state = session.folder / "state.safetensors"
    if state.exists():
        net = files.unseal(state)["run"]["learner"]["net"]
        assert all(torch.isfinite(v).all() for v in net.values() if v.is_floating_point())
    assert not session.finished


def test_the_weights_kept_are_those_that_were_evaluated(tmp_path: Path) -> None:
    """Statistics estimated anew are in the file, so that it predicts as the results say."""
    net = {"name": "cnn", "width": 2}
    ready = prepared(net=net, evaluation={"batchnorm": "recalibrated"})
    with Session(ready, tmp_path) as session:
        for _ in session:
            pass
        run = session.run
        assert run is not None
    kept = load_file(session.folder / "model.safetensors")
    assert same(dict(run.learner.eval_net.state_dict()), kept)
    assert not same(dict(run.learner.net.state_dict()), kept)


@pytest.mark.filterwarnings("ignore:task .* has no test images")
def test_a_task_without_test_images_leaves_files_that_can_be_read(tmp_path: Path) -> None:
    """Its accuracy is null in events and results, and logs and bundles do without it."""
    from PIL import Image

    rng = np.random.default_rng(0)
    lines = ["file,label,task,split"]
    for task, split, n in ((1, "train", 8), (1, "test", 4), (2, "train", 8)):
        for i in range(n):
            name = f"{task}-{split}-{i}.png"
            Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(tmp_path / name)
            lines.append(f"{name},{'ab'[i % 2]},{task},{split}")
    (tmp_path / "shop.csv").write_text("\n".join(lines))
    settings = {
        "scenario": {"name": "table", "data": str(tmp_path / "shop.csv"), "channels": 1},
        "method": "ft", "net": "mlp", "training": {"epochs": 1},
    }  # fmt: skip
    with Session(prepare(from_settings(settings)), tmp_path / "runs") as session:
        list(session)
    run = RunFolder(session.folder)
    last = [event for event in run.events() if event["event"] == "task_end"][-1]
    assert last["class_il"][0] is not None
    assert last["class_il"][1] is None
    assert b"NaN" not in (session.folder / "events.jsonl").read_bytes()
    name = session.folder.name
    for words in (("bundle", "-o", "all.zip"), ("log", name, "--to", "tensorboard")):
        said = command(*words, cwd=tmp_path)
        assert said.returncode == 0, said.stderr
