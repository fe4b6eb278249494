"""Networks: a backbone whose blocks can be tapped, a head, and the layers that normalise.

A head is as wide as it will ever need to be; which classes have been seen is not known here.
"""

import copy
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..data.images import Shape as Shape
from ..errors import ConfigError, unknown

Norm = Literal["batch", "group", "continual"]
MOST_GROUPS, FEWEST_CHANNELS = 32, 4  # of GroupNorm: groups in all, and channels in each


class ContinualNorm(nn.BatchNorm2d):
    """Continual normalisation, CN: x -> BatchNorm(GroupNorm(x)); only BatchNorm has an affine map.

    Pham, Liu and Hoi, "Continual Normalization", ICLR 2022. Each image is normalised by itself
    first, so that less is left to the statistics of whole batches, which lean to the newest task.
    Parameters and statistics have BatchNorm's names.
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.group_norm(x, groups(self.num_features), eps=self.eps))


def norm_layer(norm: Norm, channels: int) -> nn.Module:
    """Build a layer that normalises maps with this many channels."""
    if norm == "group":
        return nn.GroupNorm(groups(channels), channels)
    return ContinualNorm(channels) if norm == "continual" else nn.BatchNorm2d(channels)


def groups(channels: int) -> int:
    """Return at most 32 groups (Wu and He, 2018), all equal and with at least 4 channels each."""
    most = max(1, min(MOST_GROUPS, channels // FEWEST_CHANNELS))
    return max(n for n in range(1, most + 1) if channels % n == 0)


@contextmanager
def untracked(net: nn.Module) -> Iterator[None]:
    """Let BatchNorm normalise by the batch, as in training, without updating its statistics."""
    layers = tracking(net)
    for layer in layers:
        layer.track_running_stats = False
    try:
        yield
    finally:
        for layer in layers:
            layer.track_running_stats = True


@torch.no_grad()
def reestimate(net: nn.Module, batches: Iterable[Tensor]) -> None:
    """Set BatchNorm's running statistics to the averages over these batches, weighted by rows."""
    net.train()
    layers = [m for m in tracking(net) if m.training]  # frozen modules keep theirs
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
    passed = 0
    for x in batches if layers else ():
        passed += len(x)
        for layer in layers:
            layer.momentum = len(x) / passed  # a cumulative average
        net(x)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    net.eval()


def tracking(net: nn.Module) -> list[_BatchNorm]:
    """Return the layers that keep running statistics: BatchNorm and continual normalisation."""
    return [m for m in net.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]


Width = Annotated[int, Field(ge=1, le=4096)]
Stem = Literal["auto", "cifar", "imagenet"]


@dataclass(frozen=True)
class Spec:
    """Every shape the library must allocate, known before training starts."""

    raw: Shape  # as stored
    input: Shape  # as the net reads it
    classes: int
    widths: Mapping[str, int]  # channels of each block that can be tapped; "features" among them
    parameters: int = 0  # trainable parameters of backbone and head together

    @property
    def features(self) -> int:
        return self.widths["features"]


class Output(NamedTuple):
    logits: Tensor  # (n, classes)
    features: Tensor  # (n, d)
    taps: dict[str, Tensor]  # the blocks that were asked for, pooled to (n, width)


class Backbone(nn.Module):
    """Maps images to features. `forward` returns every block's output by name, "features" last."""

    widths: Mapping[str, int]
    rows: Shape | None = None  # the shape of what is kept in the place of an image, if not images
    inside = ""  # the submodule whose children users know by name; "": the module itself

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        raise NotImplementedError(f"{type(self).__name__} must give its blocks' outputs")


class Blocks(Backbone):
    """Blocks in sequence; the features are the pooled output of the last."""

    inside = "blocks"

    def __init__(self, blocks: Mapping[str, nn.Module], widths: Sequence[int]) -> None:
        super().__init__()
        self.blocks = nn.ModuleDict(blocks)
        self.widths = dict(zip(blocks, widths, strict=True)) | {"features": widths[-1]}

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        outputs = {}
        for name, block in self.blocks.items():
            x = outputs[name] = block(x)
        outputs["features"] = pooled(x)
        return outputs


def pooled(z: Tensor) -> Tensor:
    """Average maps over height and width; return vectors as they are."""
    return z.mean((2, 3)) if z.ndim == 4 else z


# --- the nets of the registry: each takes the input's shape, and options by name -----------------


def identity(shape: Shape) -> Backbone:
    """The rows as they are, for vectors that are features already: only the head learns."""
    return Blocks({"rows": nn.Flatten()}, (math.prod(shape),))


def mlp(shape: Shape, *, width: Width = 128, last_relu: bool = True) -> Backbone:
    """Two hidden layers of `width`, for small images and for vectors."""
    first = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), width), nn.ReLU())
    second = nn.Sequential(nn.Linear(width, width), *([nn.ReLU()] if last_relu else []))
    return Blocks({"block1": first, "block2": second}, (width, width))


def cnn(
    shape: Shape, *, width: Width = 16, last_relu: bool = True, norm: Norm = "batch"
) -> Backbone:
    """Three normalised convolutions, each halving the image; features of 4 x `width`."""

    def block(i: int, o: int, relu: bool) -> nn.Module:
        conv = nn.Conv2d(i, o, 3, stride=2, padding=1, bias=False)
        return nn.Sequential(conv, norm_layer(norm, o), *([nn.ReLU()] if relu else []))

    widths = (width, 2 * width, 4 * width)
    sides = zip((shape[0], *widths), widths, strict=False)
    layers = [block(i, o, last_relu or k < 2) for k, (i, o) in enumerate(sides)]
    return Blocks({f"block{k + 1}": b for k, b in enumerate(layers)}, widths)


class BasicBlock(nn.Module):
    def __init__(
        self, i: int, o: int, stride: int, last_relu: bool = True, norm: Norm = "batch"
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.bn1 = norm_layer(norm, o)
        self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.bn2 = norm_layer(norm, o)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or i != o:
            conv = nn.Conv2d(i, o, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, norm_layer(norm, o))
        self.last_relu = last_relu

    def forward(self, x: Tensor) -> Tensor:
        z = self.bn2(self.conv2(torch.relu_(self.bn1(self.conv1(x)))))
        z = z + self.shortcut(x)
        return torch.relu_(z) if self.last_relu else z


def resnet18(
    shape: Shape,
    *,
    width: Width = 64,
    stem: Stem = "auto",
    last_relu: bool = True,
    norm: Norm = "batch",
) -> Backbone:
    """ResNet-18 (He et al., 2016), features of 8 x `width`; the paper's has width 64.

    The CIFAR stem is one 3x3 convolution of stride 1; the ImageNet stem, chosen for images larger
    than 64, a 7x7 of stride 2 and a max-pool.
    """
    if stem == "auto":
        stem = "cifar" if max(shape[1:]) <= 64 else "imagenet"
    kernel, stride = (3, 1) if stem == "cifar" else (7, 2)
    conv = nn.Conv2d(shape[0], width, kernel, stride, kernel // 2, bias=False)
    pool = [nn.MaxPool2d(3, 2, 1)] if stem == "imagenet" else []
    first = nn.Sequential(conv, norm_layer(norm, width), nn.ReLU(inplace=True), *pool)
    blocks: dict[str, nn.Module] = {"stem": first}
    widths = [width]
    for k in range(4):
        i, o = widths[-1], width * 2**k
        down = BasicBlock(i, o, 1 if k == 0 else 2, norm=norm)
        last = BasicBlock(o, o, 1, last_relu or k < 3, norm)
        blocks[f"layer{k + 1}"] = nn.Sequential(down, last)
        widths.append(o)
    return Blocks(blocks, widths)


class Net(nn.Module):
    """A backbone and a head; `train` names the modules that may learn (None: all of them)."""

    on_pass: Callable[[Tensor, Output], None] | None = None  # used to count images

    def __init__(
        self,
        backbone: Backbone,
        head: nn.Module,
        taps: Collection[str] = (),
        train: Collection[str] | None = None,
    ) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head
        self.taps = tuple(taps)
        self.free = None if train is None else self._known(train)
        if self.free is not None:  # known before the first step: EWC asks, also when resumed
            self.train_only(("backbone", "head"))

    def __call__(self, x: Tensor) -> Output:
        """Run the images through. `on_pass` is called outside of what torch.compile compiles."""
        out: Output = super().__call__(x)
        if self.on_pass is not None:
            self.on_pass(x, out)
        return out

    def forward(self, x: Tensor) -> Output:
        outputs = self.backbone(x)
        features = outputs["features"]
        taps = {name: pooled(outputs[name]) for name in self.taps}
        return Output(self.head(features), features, taps)

    def parts(self, names: Collection[str]) -> list[nn.Parameter]:
        """Return trainable parameters of modules such as "backbone" or "head.linear", in order."""
        inside = tuple(f"{name}." for name in self._free_in(names))
        return [p for name, p in self.named_parameters() if name.startswith(inside)]

    def learns(self, name: str) -> bool:
        """Return whether training can change a module: its parameters or its statistics."""
        modules = [self.get_submodule(free) for free in self._free_in((name,))]
        return any(True for m in modules for _ in (*m.parameters(), *m.buffers()))

    def train_only(self, names: Collection[str], *, still: bool = False) -> None:
        """Train the named modules as far as they are free, and put the others into eval mode.

        `still`: BatchNorm normalises by its running statistics, as at prediction, and keeps them.
        """
        self.eval().requires_grad_(False)
        for name in self._free_in(names):
            self.get_submodule(name).train().requires_grad_(True)
        for layer in tracking(self) if still else ():
            layer.eval()

    def train(self, mode: bool = True) -> Self:
        """Set the mode as for any module; frozen modules stay in eval mode, their BatchNorm too."""
        super().train(mode)
        if mode and self.free is not None:
            self.eval()
            for name in self.free:
                self.get_submodule(name).train()
        return self

    def _free_in(self, names: Collection[str]) -> list[str]:
        """Return the largest modules within the named ones that are free."""
        if self.free is None:
            return list(names)
        pairs = [(name, free) for name in names for free in self.free]
        inner = [free for name, free in pairs if f"{free}.".startswith(f"{name}.")]
        return inner + [name for name, free in pairs if name.startswith(f"{free}.")]

    def _known(self, names: Collection[str]) -> tuple[str, ...]:
        """Translate a user's names to the net's: "layer4" -> "backbone.blocks.layer4"."""
        root = ".".join(filter(None, ["backbone", self.backbone.inside]))
        inner = [name for name, _ in self.get_submodule(root).named_modules() if name]
        for name in names:
            if name != "head" and name not in inner:
                outer = [n for n in inner if "." not in n]
                raise ConfigError(f"net.train: {unknown('module', name, [*outer, 'head'])}")
        if "head" not in names:
            raise ConfigError("net.train: should include 'head', which starts untrained")
        full = ("head" if name == "head" else f"{root}.{name}" for name in names)
        return tuple(dict.fromkeys(full))


def flat(net: nn.Module) -> Tensor:
    """Return every parameter in one vector, in the order of the net."""
    return torch.cat([p.reshape(-1) for p in net.parameters()])


def fits_channels_last(net: nn.Module) -> bool:
    """Return whether channels_last is safe: all channels but the images' are multiples of 8.

    Otherwise oneDNN's backward pass writes past its buffers (seen with torch 2.13 on the CPU).
    """
    convolutions = [m for m in net.modules() if isinstance(m, nn.Conv2d)]
    return bool(convolutions) and all(
        m.out_channels % 8 == 0 and (m.in_channels % 8 == 0 or m.in_channels <= 4)
        for m in convolutions
    )


def frozen(net: Net) -> Net:
    return copy.deepcopy(net).requires_grad_(False).eval()
