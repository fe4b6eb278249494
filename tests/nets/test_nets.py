"""Nets: shapes as promised, statistics left alone when asked, and any module of yours."""

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from linsep import optional
from linsep.data.images import Dataset, Images
from linsep.errors import ConfigError
from linsep.nets import backbones
from linsep.nets.backbones import Wrapped
from linsep.nets.heads import LinearHead
from linsep.nets.net import (
    Net,
    Shape,
    cnn,
    frozen,
    mlp,
    resnet18,
    untracked,
)
from linsep.prepare import prepare
from linsep.settings.catalogue import LIBRARIES
from linsep.settings.config import from_settings
from tests.helpers.operators import OPERATORS


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_the_papers_resnet18_has_11_173_962_parameters() -> None:
    """With 3x3 stem, for 32x32 images, and a head of ten classes (He et al.'s ImageNet body has
    11,176,512: a 7x7 stem has 3 * 64 * (49 - 9) = 7,680 more than a 3x3)."""
    backbone = resnet18((3, 32, 32))
    net = Net(backbone, LinearHead(backbone.widths["features"], 10))
    assert count(net) == 11_173_962
    assert count(resnet18((3, 224, 224))) == 11_176_512
    assert backbone.widths["features"] == 512


@pytest.mark.parametrize(
    ("side", "sides"),
    [(32, [32, 32, 16, 8, 4]), (64, [64, 64, 32, 16, 8]), (224, [56, 56, 28, 14, 7])],
)
def test_the_stem_follows_the_size(side: int, sides: list[int]) -> None:
    """One 3x3 of stride 1 up to 64; a 7x7 of stride 2 and a max-pool, a quarter, above."""
    backbone = resnet18((3, side, side), width=1)
    with torch.no_grad():
        outputs = backbone.eval()(torch.zeros(1, 3, side, side))
    maps = [z for name, z in outputs.items() if name != "features"]
    assert [z.shape[2] for z in maps] == sides
    assert [z.shape[1] for z in maps] == [1, 1, 2, 4, 8]


SHAPES: list[Shape] = [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 8, 12)]
OPTIONS = {"efficientnet_lite0": {"pretrained": False}} | {
    name: {"width": 2} for name in ("mlp", "cnn", "resnet18")
}
MAKERS: list[tuple[str, Shape]] = [(name, shape) for name in OPTIONS for shape in SHAPES]
MAKERS.append(("resnet18", (3, 224, 224)))


@pytest.mark.parametrize(("name", "shape"), MAKERS, ids=str)
def test_outputs_and_taps_have_the_widths_of_the_spec(name: str, shape: Shape) -> None:
    backbone = backbones.make(name, shape, OPTIONS[name], ())
    net = Net(backbone, LinearHead(backbone.widths["features"], 7), tuple(backbone.widths)).eval()
    with torch.no_grad():
        out = net(torch.rand(3, *shape))
    assert out.logits.shape == (3, 7)
    assert out.features.shape == (3, backbone.widths["features"])
    assert {tap: tuple(z.shape) for tap, z in out.taps.items()} == {
        tap: (3, width) for tap, width in backbone.widths.items()
    }
    assert torch.equal(out.taps["features"], out.features)
    assert torch.equal(net.head(out.features), out.logits)  # the very input of the head


@pytest.mark.parametrize("make", [mlp, cnn, resnet18])
def test_without_the_last_relu_features_may_be_negative(make: Callable[..., Any]) -> None:
    x = torch.rand(8, 1, 8, 8)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        cut = make((1, 8, 8), width=4)(x)["features"]
        whole = make((1, 8, 8), width=4, last_relu=False)(x)["features"]
    assert (cut >= 0).all()
    assert (whole < 0).any()


# --- BatchNorm -----------------------------------------------------------------------------------


def statistics(net: nn.Module) -> dict[str, Tensor]:
    return {name: b.clone() for name, b in net.named_buffers()}


def test_untracked_normalises_by_the_batch_and_keeps_no_statistics() -> None:
    net = Net(cnn((1, 8, 8), width=2), LinearHead(8, 3)).train()
    x = torch.rand(5, 1, 8, 8)
    net(torch.rand(5, 1, 8, 8))
    before = statistics(net)
    with untracked(net):
        quiet = net(x).logits
        assert all(torch.equal(v, before[name]) for name, v in net.named_buffers())
    loud = net(x).logits
    assert torch.equal(quiet, loud)  # the batch's own statistics in both
    assert not torch.equal(quiet, net.eval()(x).logits)
    moved = [not torch.equal(v, before[name]) for name, v in net.named_buffers()]
    assert all(moved)  # afterwards it tracks again


# --- parts ---------------------------------------------------------------------------------------


def test_only_the_named_parts_train() -> None:
    net = Net(cnn((1, 8, 8), width=2), LinearHead(8, 3)).train()
    x = torch.rand(5, 1, 8, 8)
    net.train_only(["head"])
    before = statistics(net)
    net(x).logits.sum().backward()
    assert all(torch.equal(v, before[name]) for name, v in net.named_buffers())
    assert all(p.grad is None for p in net.backbone.parameters())
    assert all(p.grad is not None for p in net.head.parameters())
    net.train_only(["backbone", "head"])
    net(x).logits.sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    assert not any(torch.equal(v, before[name]) for name, v in net.named_buffers())


# --- modules of your own -------------------------------------------------------------------------


class Stages(nn.Module):
    def __init__(self, pool: bool) -> None:
        super().__init__()
        self.body = nn.ModuleDict({"low": nn.Conv2d(1, 3, 3), "high": nn.Conv2d(3, 5, 3)})
        self.norm = nn.BatchNorm2d(5)
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        z = self.norm(self.body["high"](self.body["low"](x).relu()).relu())
        return z.mean((2, 3)) if self.pool else z


@pytest.mark.parametrize("pool", [True, False], ids=["features", "maps"])
def test_any_module_is_wrapped(pool: bool) -> None:
    module = Stages(pool)
    wrapped = Wrapped(module, (1, 8, 8), ("body.low", "features"))
    assert wrapped.widths == {"body.low": 3, "features": 5}
    assert module.training  # looked at, and left as it was
    assert_close(module.norm.running_mean, torch.zeros(5))
    x = torch.rand(4, 1, 8, 8)
    net = Net(wrapped, LinearHead(5, 2), ("body.low", "features")).eval()
    out = net(x)
    expected = module(x) if pool else module(x).mean((2, 3))
    assert_close(out.features, expected)
    assert_close(out.taps["body.low"], module.body["low"](x).mean((2, 3)))


def test_a_wrapped_copy_taps_itself() -> None:
    """The previous network's taps are its own: a deep copy must not report to the original."""
    net = Net(Wrapped(Stages(True), (1, 8, 8), ("body.low",)), LinearHead(5, 2), ("body.low",))
    past = frozen(net)
    with torch.no_grad():
        for p in net.parameters():
            p.zero_()
    x = torch.rand(4, 1, 8, 8)
    here, there = net.eval()(x).taps["body.low"], past(x).taps["body.low"]
    assert not here.any()
    assert there.any()
    assert here.requires_grad
    assert not there.requires_grad


class Returns(nn.Module):
    def __init__(self, answer: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, x: Tensor) -> object:
        return self.answer(x)


@pytest.mark.parametrize(
    "answer",
    [
        lambda x: (x, x),
        lambda x: {"features": x},
        lambda x: x[0],
        lambda x: x.sum(),
        lambda x: None,
    ],
    ids=["tuple", "dict", "three", "scalar", "none"],
)
def test_a_module_that_gives_no_features_is_refused(answer: Callable[[Tensor], object]) -> None:
    with pytest.raises(ConfigError, match="Returns must return features") as caught:
        Wrapped(Returns(answer), (1, 8, 8))
    assert "\n" not in str(caught.value)


def test_a_layer_that_is_not_there_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"'body.lou'.*Did you mean 'body.low'\?"):
        Wrapped(Stages(True), (1, 8, 8), ("body.lou",))


def test_a_module_of_your_own_runs_with_layers() -> None:
    y = torch.arange(4).repeat_interleave(6)
    g = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (24, 1, 8, 8), generator=g, dtype=torch.uint8)
    data = Dataset(Images.of(x, y), Images.of(x, y), ("a", "b", "c", "d"))
    module = Stages(False)
    untouched = {k: v.clone() for k, v in module.state_dict().items()}
    settings = {
        "method": "er+bfp",
        "scenario": {"name": "arrays", "per_task": 2},
        "training": {"epochs": 1, "batch_size": 8},
        "memory": 8,
        "options": {"bfp": {"layers": ["body.low", "features"]}},
    }
    prepared = prepare(from_settings(settings), data=data, net=module)
    run = prepared.build()
    assert list(run)
    assert run.learner.spec.widths == {"body.low": 3, "features": 5}
    assert all(torch.equal(v, untouched[k]) for k, v in module.state_dict().items())
    again = prepare(from_settings(settings), data=data, net=module)
    with torch.no_grad():
        module.norm.bias.add_(1)
    other = prepare(from_settings(settings), data=data, net=module)
    assert again.key == prepared.key != other.key  # where it starts decides the numbers


# --- by name, from other libraries ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["resnet", "resnet18x", "timm", "keras/x"])
def test_an_unknown_net_is_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(ConfigError, match=f"net.name: unknown net '{name}'") as caught:
        backbones.find(name).options({})
    assert "cnn" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("error", [ImportError, RuntimeError])
def test_a_library_that_is_absent_or_broken_is_one_line(
    library: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A torchvision that does not fit its torch raises RuntimeError at import."""

    def refuse(name: str) -> Any:
        raise error("operator does not exist\nand much more")

    monkeypatch.setattr(optional, "import_module", refuse)
    with pytest.raises(ConfigError, match=rf"linsep\[{library}\]") as caught:
        backbones.make(f"{library}/resnet18", (3, 32, 32), {}, ())
    assert str(caught.value).startswith("net.name: ")
    assert "\n" not in str(caught.value)


def test_weights_that_cannot_be_fetched_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_model(*args: object, **options: object) -> None:
        raise URLError("[Errno -2] Name or service not known\nTraceback and more")

    timm = SimpleNamespace(is_model=lambda name: True, create_model=create_model)
    monkeypatch.setattr(backbones, "needed", lambda module, by: timm)
    with pytest.raises(ConfigError) as caught:
        backbones.make("timm/resnet18", (3, 32, 32), {"pretrained": True}, ())
    text = str(caught.value)
    assert text.startswith("net.pretrained: the weights of timm/resnet18 cannot be fetched (")
    assert "Name or service not known" in text
    assert text.endswith("add net.weights=FILE")
    assert "\n" not in text


PRELUDE = (
    OPERATORS
    + """
from linsep.nets.backbones import make
from linsep.errors import ConfigError
from linsep.nets import backbones
from linsep.settings.catalogue import LIBRARIES, NETS
from linsep.nets.heads import LinearHead
from linsep.nets.net import Net, frozen
"""
)
TIMM = """
body = make("timm/resnet18", (1, 32, 32), {}, ("layer1", "features"))
assert body.widths == {"layer1": 64, "features": 512}, body.widths
net = Net(body, LinearHead(512, 4), ("layer1",))
out = net(torch.rand(2, 1, 32, 32))
assert out.features.shape == (2, 512) and out.taps["layer1"].shape == (2, 64)
out.logits.sum().backward()
"""
VIT = """
from linsep.nets.backbones import Wrapped
import timm
swin = timm.create_model(
    "swin_tiny_patch4_window7_224", img_size=32, patch_size=2, window_size=4, embed_dim=12,
    depths=(1, 1), num_heads=(2, 2), num_classes=0,
)
assert Wrapped(swin, (3, 32, 32), ("layers.0",)).widths["layers.0"] == 12
try:
    make("timm/vit_tiny_patch16_224", (3, 64, 64), {}, ())
except ConfigError as error:
    assert "cannot read images of 3x64x64" in str(error) and "augment.size" in str(error), error
else:
    raise AssertionError("images of another size were accepted")
reads = backbones.find("timm/vit_tiny_patch16_224").reads({"pretrained": True})
assert reads == (224, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)), reads
"""
TORCHVISION = """
reads = backbones.find("torchvision/resnet18").reads({"pretrained": True})
assert reads == (224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), reads
body = make("torchvision/resnet18", (3, 64, 64), {}, ("layer1", "features"))
assert body.widths == {"layer1": 64, "features": 512}, body.widths
net = Net(body, LinearHead(512, 4), ("layer1",))
out = net(torch.rand(2, 3, 64, 64))
assert out.features.shape == (2, 512) and out.taps["layer1"].shape == (2, 64)
out.logits.sum().backward()
wide = make("torchvision/mobilenet_v3_small", (3, 64, 64), {}, ())
assert wide.widths == {"features": 576}, wide.widths
try:
    make("torchvision/resnet18", (1, 64, 64), {}, ())
except ConfigError as error:
    assert "3 channels" in str(error)
else:
    raise AssertionError("one channel was accepted")
"""
REFUSAL = """
try:
    make("{library}/resnet18000", (3, 64, 64), {{}}, ())
except ConfigError as error:
    assert "no model 'resnet18000'" in str(error), error
else:
    raise AssertionError("an unknown model was accepted")
"""


@pytest.mark.parametrize(
    ("library", "script"), [("timm", TIMM), ("timm", VIT), ("torchvision", TORCHVISION)]
)
def test_models_of_other_libraries_by_name(library: str, script: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed (pip install 'linsep[{library}]')")
    code = PRELUDE + script + REFUSAL.format(library=library)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
