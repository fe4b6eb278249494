"""Weights from a file, modules that do not learn, and images as a pretrained net wants them."""

import pickle
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import linsep
from linsep.errors import ConfigError, StateError
from linsep.learning.run import StepEnd
from linsep.nets import backbones
from linsep.nets.backbones import Wrapped
from linsep.nets.net import cnn
from linsep.nets.weights import WeightsWarning
from linsep.prepare import Prepared, prepare
from linsep.resolve import resolve
from linsep.settings.config import from_settings
from linsep.storage.session import Session
from tests.helpers.command import command

PROTOCOLS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 4, "train": 20, "test": 5},
    "method": "er",
    "memory": 8,
    "training": {"epochs": 1, "batch_size": 10},
}


def body(seed: int = 1, width: int = 4) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    return {name: value.clone() for name, value in cnn((1, 8, 8), width=width).state_dict().items()}


def with_weights(path: Path, **net: Any) -> Prepared:
    chosen = {"name": "cnn", "width": 4, "weights": str(path), **net}
    return prepare(from_settings(PROTOCOLS | {"net": chosen}))


def prefixed(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in state.items()}


@pytest.mark.parametrize("prefix", ["", "module.", "backbone.", "module.backbone."])
@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".pth"])
def test_a_run_starts_from_the_files_weights(suffix: str, prefix: str, tmp_path: Path) -> None:
    path, state = tmp_path / f"body{suffix}", body()
    if suffix == ".safetensors":
        save_file(prefixed(prefix, state), path)
    else:
        torch.save({"state_dict": prefixed(prefix, state), "epoch": 3}, path)
    found = with_weights(path).build().learner.net.backbone.state_dict()
    assert found.keys() == state.keys()
    assert all(torch.equal(found[name], state[name]) for name in state)


def test_tensors_without_values_are_one_line(tmp_path: Path) -> None:
    torch.save({name: value.to("meta") for name, value in body().items()}, tmp_path / "w.pt")
    with pytest.raises(ConfigError, match="has a shape and no values"):
        with_weights(tmp_path / "w.pt").build()


def test_a_module_that_is_handed_in_takes_them_too(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
    torch.save(
        {"module.1.weight": torch.ones(5, 64), "module.1.bias": torch.zeros(5)}, tmp_path / "w.pt"
    )
    config = linsep.Config(**PROTOCOLS, net={"name": "cnn", "weights": str(tmp_path / "w.pt")})
    body = linsep.build(config, net=module).learner.net.backbone
    assert torch.equal(body.state_dict()["module.1.weight"], torch.ones(5, 64))


def test_a_finished_run_is_a_start_for_another(tmp_path: Path) -> None:
    with Session(prepare(from_settings(PROTOCOLS | {"net": {"name": "cnn"}})), tmp_path) as session:
        for _ in session:
            pass
    with pytest.warns(WeightsWarning, match=r"head of .* left out \(head.bias, head.weight\)"):
        run = with_weights(session.folder / "model.safetensors", width=16).build()
    assert session.run is not None
    for name, value in session.run.learner.net.backbone.state_dict().items():
        assert torch.equal(run.learner.net.backbone.state_dict()[name], value)


def test_the_key_is_of_the_content_and_not_of_the_place(tmp_path: Path) -> None:
    torch.save(body(), tmp_path / "a.pt")
    shutil.copy(tmp_path / "a.pt", tmp_path / "b.pt")
    torch.save(body(2), tmp_path / "c.pt")
    keys = [with_weights(tmp_path / f"{name}.pt").name for name in "abc"]
    assert keys[0] == keys[1] != keys[2]
    plain = prepare(from_settings(PROTOCOLS | {"net": {"name": "cnn", "width": 4}}))
    assert plain.name not in keys


def test_changed_weights_are_refused_on_resume(tmp_path: Path) -> None:
    path = tmp_path / "body.pt"
    torch.save(body(), path)
    with Session(with_weights(path), tmp_path / "runs") as session:
        next(iter(session))
        session.save()
    torch.save(body(2), path)
    with (
        pytest.raises(StateError, match=r"body\.pt was changed since .* restore the file"),
        Session(with_weights(path), tmp_path / "runs"),
    ):
        pass
    pinned = resolve(with_weights(path).config)
    torch.save(body(3), path)
    with pytest.raises(ConfigError, match=r"body\.pt was changed since this run was planned"):
        prepare(pinned).build()


def test_mismatches_are_listed_in_one_line(tmp_path: Path) -> None:
    state, path = body(), tmp_path / "body.pt"
    for name in list(state)[:5]:
        del state[name]
    state |= {"extra.weight": torch.ones(2), "blocks.block3.0.weight": torch.ones(1, 2, 3, 3)}
    torch.save(state, path)
    with pytest.raises(ConfigError) as caught:
        with_weights(path).build()
    text = str(caught.value)
    assert "\n" not in text
    assert "missing: blocks.block1.0.weight, " in text
    assert " and 2 more" in text
    assert "unexpected: extra.weight" in text
    assert "blocks.block3.0.weight is 1x2x3x3 and should be 16x8x3x3" in text


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("import sys; sys.modules['executed_by_a_test'] = sys",)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.pt", b""),
        ("text.safetensors", b"not at all"),
        ("long.safetensors", b"\xff" * 64),
        ("pickle.pt", pickle.dumps(Hostile())),
        ("list.pt", [torch.ones(2)]),
        ("objects.pt", {"a": 3}),
        ("nan.pt", {**body(), "blocks.block1.0.weight": torch.full((4, 1, 3, 3), torch.nan)}),
        ("int.pt", {**body(), "blocks.block1.0.weight": torch.ones(4, 1, 3, 3, dtype=torch.int8)}),
        ("gone.pt", None),
        ("weights.bin", b""),
    ],
)
def test_a_hostile_file_is_one_line(name: str, content: Any, tmp_path: Path) -> None:
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    elif content is not None:
        torch.save(content, tmp_path / name)
    words = ["run", "--scenario", "blobs", "--net", "cnn", "--width", "4", "--set"]
    done = command(*words, f"net.weights={name}", "--memory", "20", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert name in done.stderr
    assert "executed_by_a_test" not in sys.modules


# --- modules that do not learn -------------------------------------------------------------------


SHORT = {"bic": {"bias_epochs": 2}, "gdumb": {"epochs": 2}}


@pytest.mark.parametrize("method", ["er+bfp", "ewc", "bic", "gdumb"])
def test_frozen_modules_keep_weights_and_statistics_and_the_others_learn(method: str) -> None:
    memory = {} if method == "ewc" else {"memory": 8}
    net = {"name": "cnn", "width": 4, "train": ["block3", "head"]}
    settings = {k: v for k, v in PROTOCOLS.items() if k != "memory"} | memory
    settings["options"] = {name: own for name, own in SHORT.items() if name == method}
    run = prepare(from_settings(settings | {"method": method, "net": net})).build()
    before = {k: v.clone() for k, v in run.learner.net.state_dict().items()}
    for event in run:
        if method == "gdumb" and isinstance(event, StepEnd):  # starts from a new net in each task
            before = {k: v.clone() for k, v in run.learner.net.state_dict().items()}
    moved = {k for k, v in run.learner.net.state_dict().items() if not torch.equal(v, before[k])}
    assert not {name for name in moved if "block1" in name or "block2" in name}
    if method != "gdumb":
        assert {"backbone.blocks.block3.0.weight", "backbone.blocks.block3.1.running_mean"} < moved
        assert {name.partition(".")[0] for name in moved} == {"backbone", "head"}


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (["block9", "head"], "unknown module 'block9'. Did you mean 'block3'? Allowed: block1, "),
        (["block3"], "should include 'head'"),
        ([], "at least 1 item"),
    ],
)
def test_unknown_modules_are_refused_with_those_there_are(train: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        prepare(from_settings(PROTOCOLS | {"net": {"name": "cnn", "train": train}})).build()
    assert "net.train" in str(caught.value)
    assert message in str(caught.value)


def test_names_of_a_wrapped_module_are_its_own() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 6))
    config = linsep.Config(**PROTOCOLS, net={"name": "cnn", "train": ("3", "head")})
    run = linsep.build(config, net=module)
    assert isinstance(run.learner.net.backbone, Wrapped)
    list(run)
    state = run.learner.net.backbone.module.state_dict()
    moved = [n for n, v in module.state_dict().items() if not torch.equal(v, state[n])]
    assert moved == ["3.weight", "3.bias"]


# --- AdamW, and images as a pretrained net wants them --------------------------------------------


def test_a_pretrained_net_gets_the_images_it_was_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for timm: what it says of its weights, unless the user says otherwise."""
    made = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    asked: list[bool] = []

    def create_model(name: str, *, pretrained: bool, num_classes: int, in_chans: int) -> nn.Module:
        asked.append(pretrained)
        return made

    cfg = SimpleNamespace(input_size=(3, 24, 24), mean=(0.4, 0.5, 0.6), std=(0.2, 0.2, 0.2))
    timm = SimpleNamespace(
        is_model=lambda name: True, get_pretrained_cfg=lambda name: cfg, create_model=create_model
    )
    monkeypatch.setattr(backbones, "needed", lambda module, by: timm)
    torch.save(made.state_dict(), tmp_path / "w.pt")
    net = {"name": "timm/tiny", "pretrained": True, "weights": str(tmp_path / "w.pt")}
    run = prepare(from_settings(PROTOCOLS | {"net": net})).build()
    augment = run.learner.augment
    assert (augment.size, augment.cut) == ((24, 24), (8, 8))
    assert augment.mean == pytest.approx((0.5,))
    assert augment.std == pytest.approx((0.2,))
    assert asked == [False]  # the file has the weights: nothing is fetched
    assert run.learner.spec.input == (1, 24, 24)
    list(run)
    mine = PROTOCOLS["scenario"] | {"augment": {"size": 8, "mean": [0.1]}}
    other = resolve(from_settings(PROTOCOLS | {"net": net, "scenario": mine})).scenario.augment
    assert other is not None
    assert (other.size, other.mean, other.std) == (8, (0.1,), (0.2, 0.2, 0.2))
