"""Vectors in the place of images: tables on disk, arrays of numbers, frozen backbones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import linsep
from linsep.data.images import digest_of
from linsep.data.vectors import STEP, VectorTable
from linsep.errors import ConfigError, DataError
from linsep.learning.features import features, kept_features
from linsep.nets.frozen import FrozenBackbone
from tests.helpers.command import command

WIDTH = 3


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LINSEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


class Maker:
    """Makes the vector (i, i + 1, i + 2) of row i, and notes which rows it was asked for."""

    def __init__(self, rows: list[int]) -> None:
        self.rows, self.asked = rows, list[int]()

    def __call__(self, places: list[int]) -> Tensor:
        mine = [self.rows[i] for i in places]
        self.asked += mine
        return torch.tensor(mine).float()[:, None] + torch.arange(WIDTH)


def look_up(table: VectorTable, rows: list[int], make: Any = None) -> tuple[Tensor, list[int]]:
    made = make or Maker(rows)
    places = table.places([digest_of(str(row).encode()) for row in rows], made)
    return table.mapped()[places], getattr(made, "asked", [])


def test_each_vector_is_made_once_whatever_is_asked_for() -> None:
    table = VectorTable("one", WIDTH)
    found, asked = look_up(table, [4, 2, 4, 7])
    assert found[:, 0].tolist() == [4, 2, 4, 7]
    assert asked == [4, 2, 7]
    found, asked = look_up(VectorTable("one", WIDTH), [7, 9, 2])
    assert found[:, 2].tolist() == [9, 11, 4]
    assert asked == [9]
    assert look_up(VectorTable("another", WIDTH), [7])[1] == [7]


def test_what_is_on_disk_survives_a_kill_and_damage(cache: Path) -> None:
    rows = list(range(2 * STEP + 5))

    def killed(places: list[int]) -> Tensor:
        if places[0] >= STEP:
            raise KeyboardInterrupt
        return Maker(rows)(places)

    with pytest.raises(KeyboardInterrupt):
        look_up(VectorTable("one", WIDTH), rows, killed)
    with (cache / "one" / "vectors.f32").open("ab") as half:
        half.write(b"half a vector")
    found, asked = look_up(VectorTable("one", WIDTH), rows)
    assert asked == rows[STEP:]
    assert found[:, 0].tolist() == rows
    content = bytearray((cache / "one" / "vectors.f32").read_bytes())
    content[4 * WIDTH * 10] ^= 1
    (cache / "one" / "vectors.f32").write_bytes(content)
    found, asked = look_up(VectorTable("one", WIDTH), rows)
    assert asked == [10]
    assert found[:, 0].tolist() == rows


def test_a_folder_that_cannot_be_written_is_one_line(cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file")
    with pytest.raises(DataError, match="cannot be used") as caught:
        look_up(VectorTable("one", WIDTH), [1])
    assert "\n" not in str(caught.value)


# --- arrays of numbers ----------------------------------------------------------------------------


def clouds(n: int = 40, d: int = 6) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 4
    return 1000 + 5 * rng.normal(size=(4, d))[y] + rng.normal(size=(n, d)), y


@pytest.mark.parametrize("net", ["mlp", "identity"])
def test_rows_of_numbers_are_a_scenario(net: str) -> None:
    x, y = clouds()
    data = linsep.from_arrays(x, y)
    assert repr(data).startswith("Dataset(32 training and 8 test images of 6 numbers")
    config = linsep.Config(
        scenario={"per_task": 2}, method="er+bfp", net=net, memory=10,
        training={"epochs": 20, "lr": 0.1},
    )  # fmt: skip
    run = linsep.build(config, data=data)
    for _ in run:
        pass
    assert run.class_il[1].mean() > 0.8
    kept = run.learner.memory.images().pixels()
    assert kept.dtype == torch.float32
    assert kept.shape == (10, 6)


def test_rows_of_numbers_keep_every_bit_of_a_float32() -> None:
    x, y = clouds()
    data = linsep.from_arrays(x, y, x[:8] + 1, y[:8])
    assert np.array_equal(data.train.pixels().numpy(), x.astype(np.float32))


def test_what_cannot_be_learned_from_is_one_line() -> None:
    x, y = clouds()
    x[3, 2] = np.nan
    with pytest.raises(DataError, match="row 3 has a number that is missing or too large"):
        linsep.from_arrays(x, y)
    with pytest.raises(DataError, match="training images are"):
        linsep.from_arrays(x[8:], y[8:], x[4:8, :2], y[4:8])
    data = linsep.from_arrays(*clouds())
    for chosen, reason in (
        ({"net": "cnn"}, "'cnn' reads images, and these rows are vectors of 6 numbers; mlp"),
        ({"scenario": {"per_task": 2, "augment": {"size": 8}}, "net": "mlp"}, "is for images"),
    ):
        with pytest.raises(ConfigError, match=reason):
            linsep.build(linsep.Config(**({"scenario": {"per_task": 2}} | chosen)), data=data)


# --- frozen backbones -----------------------------------------------------------------------------

FROZEN = {"scenario": "blobs", "net": {"name": "cnn", "width": 4, "train": ["head"]}}


def test_images_pass_a_frozen_backbone_once_for_all_methods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*args: object) -> Tensor:
        raise AssertionError("a second method passed images through the backbone")

    training = {"epochs": 2}
    first = linsep.build(linsep.Config(method="er", memory=20, training=training, **FROZEN))
    assert first.scenario.tasks[0].train.shape == (16,)
    monkeypatch.setattr("linsep.learning.features.features", never)
    linsep.build(linsep.Config(method="ft+transport", training=training, **FROZEN))
    with pytest.raises(AssertionError, match="a second method"):
        linsep.build(linsep.Config(method="ft", seed=1, training=training, **FROZEN))


def test_features_stand_for_images() -> None:
    """The net gives images and their features the same scores, and the cost counts one pass each"""
    config = linsep.Config(method="derpp+bfp+refit", memory=20, training={"epochs": 2}, **FROZEN)
    run = linsep.build(config)
    for _ in run:
        pass
    backbone = run.learner.net.backbone
    assert isinstance(backbone, FrozenBackbone)
    plain = linsep.prepare.prepare(config).data.scenario
    for group, images in zip(run.scenario.groups, plain.groups, strict=True):
        from_images, from_features = (run.learner.predict(part.test) for part in (images, group))
        assert torch.allclose(from_images, from_features, atol=1e-5)
        known = features(run.learner, images.test)
        assert torch.equal(known, kept_features(run.learner, images.test).pixels())
    assert +run.meter.run == {"forward": sum(len(task.train) for task in plain.tasks)}


@pytest.mark.parametrize(
    "more",
    [
        {"scenario": {"name": "blobs", "augment": {"flip": True}}},  # images are varied
        {"method": "er+bfp", "memory": 20, "options": {"bfp": {"layers": ("block1",)}}},
        {"net": {"name": "cnn", "train": ["block3", "head"]}},
    ],
)
def test_otherwise_images_are_learned(more: dict[str, Any]) -> None:
    run = linsep.build(linsep.Config(**({"method": "ft"} | FROZEN | more)))
    assert run.scenario.tasks[0].train.shape == (1, 8, 8)


def test_a_changed_backbone_has_features_of_its_own(cache: Path) -> None:
    for body in (nn.Conv2d(1, 2, 3), nn.Conv2d(1, 2, 3, stride=2)):
        config = linsep.Config(method="ft", scenario="blobs", net={"train": ["head"]})
        linsep.build(config, net=body)
    assert len(list(cache.iterdir())) == 2


def test_a_run_on_features_is_kept_loaded_and_verified() -> None:
    config = linsep.Config(method="er", memory=20, training={"epochs": 1}, **FROZEN)
    run = linsep.train(config)
    again = linsep.load(run.name)
    images = linsep.prepare.prepare(config).data.scenario.groups[0].test
    names = again.predict(images.pixels().permute(0, 2, 3, 1).numpy())
    truth = np.array(again.classes)[images.y.numpy()]
    assert np.mean(names == truth) == pytest.approx(again.accuracy[-1, 0])


def test_the_command_line_counts_rows_of_numbers_and_cannot_draw_them(tmp_path: Path) -> None:
    np.savez(tmp_path / "e.npz", x=clouds()[0], y=clouds()[1])
    where = ["arrays", "--data", str(tmp_path / "e.npz")]
    told = command("data", "check", *where, cwd=tmp_path).stdout
    assert "32 training and 8 test rows of 4 classes, 6 numbers" in told
    drawing = ("data", "draw", *where, "--per-task", "2", "-o", "x.png")
    refused = command(*drawing, cwd=tmp_path)
    assert refused.returncode == 2
    assert "rows of numbers cannot be drawn" in refused.stderr


def test_weights_of_a_run_on_features_start_another(tmp_path: Path) -> None:
    run = linsep.train(linsep.Config(method="ft", training={"epochs": 1}, **FROZEN))
    net = {"name": "cnn", "width": 4, "weights": str(run.folder / "model.safetensors")}
    with pytest.warns(UserWarning, match="the head of"):
        started = linsep.build(linsep.Config(method="ft", scenario="blobs", net=net))
    known = started.learner.net.backbone.state_dict()
    for name, value in run.net.backbone.state_dict().items():
        if name.startswith("module."):
            assert torch.equal(value, known[name.removeprefix("module.")])
