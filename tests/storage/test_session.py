"""A run's folder: what is in it, and what happens to it when things go wrong."""

import errno
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import linsep
from linsep.errors import DivergedError, StateError
from linsep.prepare import prepare
from linsep.settings.config import from_settings
from linsep.storage import files
from linsep.storage.folder import RunFolder
from linsep.storage.session import Session
from linsep.testing import same
from tests.helpers.command import command
from tests.helpers.made_data import write_image
from tests.helpers.real_runs import PROTOCOLS, contents, interrupted, prepared, straight


def test_the_folder_of_a_run_stopped_in_an_epoch_ends_equal(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    for steps in (1, 5, 11):
        runs = tmp_path / str(steps)
        interrupted(runs, steps)
        assert contents(straight(runs)) == expected, steps


def test_a_state_is_no_larger_than_what_learns(tmp_path: Path) -> None:
    """Networks, optimisers and columns of numbers: the stored images are in the data already."""
    x = np.random.default_rng(0).integers(0, 256, (200, 64, 64, 3), dtype=np.uint8)
    data = linsep.from_arrays(x, np.arange(200) % 4)
    config = linsep.Config(
        scenario={"per_task": 2, "augment": {"size": 16}}, method="derpp+bfp", memory=150,
        net={"name": "cnn", "width": 32}, training={"epochs": 1},
    )  # fmt: skip
    with Session(prepare(config, data=data), tmp_path) as session:
        for _ in session:
            pass
    assert session.run is not None
    learner = session.run.learner
    state = learner.state_dict()
    columns = state["memory"] | {f"term/{name}": t for name, t in state["terms"]["bfp"].items()}
    moments = [v for o in learner.optimizers.values() for s in o.state.values() for v in s.values()]
    nets = [*state["net"].values(), *state["previous_net"].values(), *columns.values()]
    due = sum(v.nbytes for v in (*nets, *moments) if isinstance(v, torch.Tensor))
    assert len(learner.memory) == 150
    assert (session.folder / "state.safetensors").stat().st_size < 1.1 * due
    kept = session.files.memory()
    assert kept["labels"].tolist() == learner.memory.y.tolist()
    assert len(kept["images"]) == len(kept["pictured"]) == 32


@pytest.mark.parametrize("damage", ["cut", "short", "empty", "absent", "changed"])
def test_a_state_repairs_the_events(damage: str, stopped: Path, expected: dict[str, bytes]) -> None:
    """A kill leaves a line too many, a power cut too little; what was changed is restored."""
    path = stopped / "events.jsonl"
    whole = path.read_bytes()
    warned: AbstractContextManager[Any] = nullcontext()
    match damage:
        case "cut":
            path.write_bytes(whole + b'{"event": "epoch_end", "task": 0, "epo')
        case "short":
            path.write_bytes(whole[:-300])
        case "empty":
            path.write_bytes(b"")
        case "absent":
            path.unlink()
        case "changed":
            path.write_bytes(whole.replace(b'"ce": ', b'"ce": 9', 1))
            warned = pytest.warns(UserWarning, match=r"events\.jsonl was changed; it is restored")
    with warned:
        straight(stopped.parent)
    assert contents(stopped) == expected


@pytest.mark.parametrize("damage", ["truncated", "flipped", "foreign", "missing"])
def test_a_damaged_state_falls_back_to_the_one_before(
    stopped: Path, damage: str, expected: dict[str, bytes]
) -> None:
    state = stopped / "state.safetensors"
    content = bytearray(state.read_bytes())
    assert (stopped / "state.previous.safetensors").exists()
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
        straight(stopped.parent)
    else:
        with pytest.warns(UserWarning, match=r"state\.safetensors is damaged"):
            straight(stopped.parent)
    assert contents(stopped) == expected


def test_two_damaged_states_are_an_error_and_stay(stopped: Path) -> None:
    for name in ("state.safetensors", "state.previous.safetensors"):
        (stopped / name).write_bytes(b"nonsense")
    with (
        pytest.warns(UserWarning, match="not a saved state"),
        pytest.raises(StateError, match="remove the folder"),
    ):
        straight(stopped.parent)
    assert (stopped / "state.safetensors").read_bytes() == b"nonsense"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: state.pop("run"),
        lambda state: state.pop("events"),
        lambda state: state.update(key="0123456789"),
        lambda state: state["run"].update(seed=7),
        lambda state: state["run"].update(cursor=(99, 0, 0, 0)),
        lambda state: state["run"].update(class_il=torch.zeros(())),
        lambda state: state["run"].update(counts={"ce": "three"}),
        lambda state: state["run"]["learner"].update(net={"a": 1}),
    ],
)
def test_a_whole_file_with_a_wrong_state_falls_back_too(
    stopped: Path, spoil: Any, expected: dict[str, bytes]
) -> None:
    """Its checksum is right; it was written by other hands, or for another run."""
    state = files.unseal(stopped / "state.safetensors")
    spoil(state)
    (stopped / "state.safetensors").write_bytes(files.seal(state))
    with pytest.warns(UserWarning, match=r"state|seed 7"):
        straight(stopped.parent)
    assert contents(stopped) == expected


def test_damaged_environments_stop_nobody(stopped: Path, expected: dict[str, bytes]) -> None:
    (stopped / "manifest.json").write_text("[{")
    with pytest.warns(UserWarning, match=r"manifest\.json.*a new one is begun"):
        straight(stopped.parent)
    assert len(RunFolder(stopped).manifest().environments) == 1
    assert contents(stopped) == expected


def test_a_deleted_config_is_written_again_and_a_changed_one_refused(stopped: Path) -> None:
    config = (stopped / "config.toml").read_text()
    for old, new, said in (
        ("\nbatch_size = 10", "\nbatch_size = 20", "training.batch_size is 20, and the run has 10"),
        ("[training]", "[training]\nextra = 1", "training.extra is 1, and the run has None"),
        ("[training]", "[training", "not TOML"),
    ):
        (stopped / "config.toml").write_text(config.replace(old, new))
        with pytest.raises(StateError, match=said):
            straight(stopped.parent)
    (stopped / "config.toml").unlink()
    straight(stopped.parent)
    assert (stopped / "config.toml").read_text() == config


def test_nothing_is_written_through_a_symbolic_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    stopped = interrupted(tmp_path / "runs", 3)
    for name in ("events.jsonl", "timing.jsonl"):
        (stopped / name).unlink()
        (stopped / name).symlink_to(victim)
    with pytest.raises(StateError, match=r"timing\.jsonl: it is a symbolic link"):
        straight(stopped.parent)
    assert not (stopped / "events.jsonl").is_symlink()
    (stopped / "timing.jsonl").unlink()
    straight(stopped.parent)
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
    stopped: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (stopped / "state.safetensors").read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Session(prepared(), stopped.parent) as session:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StateError, match="No space left on device"):
            session.save()
    monkeypatch.undo()
    assert (stopped / "state.safetensors").read_bytes() == before
    assert not list(stopped.glob(".*.tmp"))
    assert contents(straight(stopped.parent)) == expected


def test_other_threads_on_resume_are_warned_about(stopped: Path) -> None:
    before = torch.get_num_threads()
    try:
        changed = prepared(compute={"threads": 2})
        with pytest.warns(UserWarning, match="threads"), Session(changed, stopped.parent):
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
    lines = ["file,label,task,split"]
    for i, (task, split) in enumerate([(1, "train"), (1, "test"), (2, "train")] * 4):
        write_image(tmp_path / f"{i}.png", i, (8, 8), "L")
        lines.append(f"{i}.png,{'ab'[i % 2]},{task},{split}")
    (tmp_path / "shop.csv").write_text("\n".join(lines))
    chosen = {
        "scenario": {"name": "table", "data": str(tmp_path / "shop.csv"), "channels": 1},
        "method": "ft", "net": "mlp", "training": {"epochs": 1},
    }  # fmt: skip
    with Session(prepare(from_settings(chosen)), tmp_path / "runs") as session:
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
