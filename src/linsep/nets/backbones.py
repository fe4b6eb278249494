"""The nets by name: our own, timm's and torchvision's. Knows the extras, and imports them late."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from torch import nn

from ..errors import ConfigError, unknown
from ..optional import needed
from ..settings.sections import Net
from ..settings.signature import complete, options_of
from .net import Backbone, Shape, Wrapped, cnn, mlp, resnet18


class About(NamedTuple):
    make: Callable[..., Backbone]
    line: str


NETS: Mapping[str, About] = {
    "cnn": About(cnn, "three strided convolutions with BatchNorm, for 28x28 and smaller"),
    "mlp": About(mlp, "two hidden layers, for the smallest images"),
    "resnet18": About(resnet18, "ResNet-18 with a width; 64 is the paper's"),
}
LIBRARIES = ("timm", "torchvision")


def options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Every option of the net, checked."""
    return complete(maker_of(name), given, "net", Net.own())


def fitting(name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the wanted options that the net has."""
    known = options_of(maker_of(name))
    return {option: value for option, value in wanted.items() if option in known}


def make(name: str, shape: Shape, chosen: Mapping[str, Any], taps: Collection[str]) -> Backbone:
    """The backbone, freshly initialised from torch's global generator."""
    maker = maker_of(name)
    if "/" in name:
        return Wrapped(maker(name.partition("/")[2], shape[0], **chosen), shape, taps)
    return maker(shape, **chosen)


def maker_of(name: str) -> Callable[..., Any]:
    """Return the function that makes a net of this name; its keyword arguments are options."""
    library, _, model = name.partition("/")
    if model and library in LIBRARIES:
        return _timm if library == "timm" else _torchvision
    if name not in NETS:
        known = [*NETS, *(f"{library}/<model>" for library in LIBRARIES)]
        raise ConfigError(f"net.name: {unknown('net', name, known)}")
    return NETS[name].make


def _timm(model: str, channels: int, *, pretrained: bool = False) -> nn.Module:
    timm = needed("timm", f"net.name: timm/{model}")
    if model not in timm.list_models():
        raise ConfigError(f"net.name: timm has no model {model!r}")
    return timm.create_model(model, pretrained=pretrained, num_classes=0, in_chans=channels)


def _torchvision(model: str, channels: int, *, pretrained: bool = False) -> nn.Module:
    models = needed("torchvision.models", f"net.name: torchvision/{model}")
    if model not in models.list_models():
        raise ConfigError(f"net.name: torchvision has no model {model!r}")
    if channels != 3:
        raise ConfigError(f"net.name: torchvision's models read 3 channels, not {channels}")
    made: nn.Module = models.get_model(model, weights="DEFAULT" if pretrained else None)
    for head in ("fc", "classifier", "heads", "head"):
        if hasattr(made, head):
            setattr(made, head, nn.Identity())
            return made
    raise ConfigError(f"net.name: no classifier to take off torchvision's {model!r}")
