"""Networks by name: our own, timm's and torchvision's (imported when needed), and the user's."""

import inspect
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import nn

from .. import own
from ..errors import ConfigError, LinsepError
from ..optional import needed
from ..settings.catalogue import LIBRARIES, NETS
from ..settings.sections import Net, Own
from ..settings.signature import complete, options_of
from .net import Backbone, Shape
from .wrapped import Wrapped


class Reads(NamedTuple):
    """The images that pretrained weights were trained on."""

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class Architecture:
    """The network that a name stands for."""

    name: str  # for a network of the user's, the name of its function
    maker: Callable[..., Any]  # takes the shape of an image, and options by keyword
    own: Own | None = None

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return every option of the network, checked and with its default filled in."""
        return complete(self.maker, given, "net", Net.own())

    def fitting(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of the given options that this network has."""
        known = options_of(self.maker)
        return {option: value for option, value in wanted.items() if option in known}

    def reads(self, options: Mapping[str, Any]) -> Reads | None:
        """Return the images its pretrained weights expect; None if it starts without any."""
        library, _, model = self.name.partition("/")
        if not model or not options.get("pretrained"):
            return None
        return _timm_reads(model) if library == "timm" else _torchvision_reads(model)

    def build(self, shape: Shape, options: Mapping[str, Any], taps: Collection[str]) -> Backbone:
        """Build the backbone, freshly initialised from torch's global generator."""
        library, _, model = self.name.partition("/")
        if model:
            make = _timm if library == "timm" else _torchvision
            return Wrapped(make(model, shape[0], **options), shape, taps)
        if self.own is None:
            return self.maker(shape, **options)
        with own.calling(self.own.source, "net: "):
            made = self.maker(shape, **options)
        if not isinstance(made, nn.Module):
            found = type(made).__name__
            raise ConfigError(f"net: {self.own.source} should return an nn.Module, not {found}")
        return made if isinstance(made, Backbone) else Wrapped(made, shape, taps)


def find(
    name: str, known: Mapping[str, Own] | None = None, held: Mapping[str, Any] | None = None
) -> Architecture:
    """Look up a network; `known` and `held` are the user's own parts in the configuration."""
    library, _, model = name.partition("/")
    if model and library in LIBRARIES:
        return Architecture(name, _timm if library == "timm" else _torchvision)
    if name in NETS:
        return Architecture(name, NETS[name].recipe)
    before = (known or {}).get(name, Own(source=""))
    pinned = before.source, before.digest, (held or {}).get(name)
    part = own.find("nets", name, *pinned, "net.name: ")
    if part is None:
        there = [*NETS, *(f"{library}/<model>" for library in LIBRARIES)]
        raise ConfigError(f"net.name: {own.refused('nets', 'net', name, there)}")
    short = own.name_of(name)
    if short in NETS:
        raise ConfigError(f"net.name: {part.source}: linsep has its own {short!r}; rename yours")
    kinds = [p.kind for p in inspect.signature(part.make).parameters.values()]
    if [k for k in kinds if k is not inspect.Parameter.KEYWORD_ONLY] != [_ONE_BY_PLACE]:
        should = f"should look like def {short}(shape, *, width: int = 16)"
        raise ConfigError(f"net.name: {part.source}: {should}; shape is (channels, height, width)")
    return Architecture(short, part.make, Own(source=part.source, digest=part.digest))


_ONE_BY_PLACE = inspect.Parameter.POSITIONAL_OR_KEYWORD


def make(name: str, shape: Shape, chosen: Mapping[str, Any], taps: Collection[str]) -> Backbone:
    """Build a backbone by name, freshly initialised from torch's global generator."""
    return find(name).build(shape, chosen, taps)


# --- other libraries' nets -----------------------------------------------------------------------


@contextmanager
def _fetching(model: str) -> Iterator[None]:
    """Report in one line why pretrained weights cannot be fetched."""
    hub = logging.getLogger("huggingface_hub")  # it would log each of its many attempts
    level = hub.level
    hub.setLevel(logging.CRITICAL)
    try:
        yield
    except LinsepError:
        raise
    except Exception as error:  # the network, a hub or a cache may raise nearly anything
        reason = " ".join(str(error).split()).partition(". ")[0] or type(error).__name__
        raise ConfigError(
            f"net.pretrained: the weights of {model} cannot be fetched ({reason}); without a "
            "network, download them elsewhere and add net.weights=FILE"
        ) from error
    finally:
        hub.setLevel(level)


def _timm(model: str, channels: int, *, pretrained: bool = False) -> nn.Module:
    timm = _known_to_timm(model)
    with _fetching(f"timm/{model}") if pretrained else own.calling(f"timm/{model}", "net.name: "):
        return timm.create_model(model, pretrained=pretrained, num_classes=0, in_chans=channels)


def _torchvision(model: str, channels: int, *, pretrained: bool = False) -> nn.Module:
    models = _known_to_torchvision(model)
    if channels != 3:
        raise ConfigError(f"net.name: torchvision's models read 3 channels, not {channels}")
    weights = "DEFAULT" if pretrained else None
    with _fetching(f"torchvision/{model}") if pretrained else own.calling(model, "net.name: "):
        made: nn.Module = models.get_model(model, weights=weights)
    for head in ("fc", "classifier", "heads", "head"):
        if hasattr(made, head):
            setattr(made, head, nn.Identity())
            return made
    raise ConfigError(f"net.name: no classifier to take off torchvision's {model!r}")


def _timm_reads(model: str) -> Reads:
    found = _known_to_timm(model).get_pretrained_cfg(model)
    if found is None:
        raise ConfigError(f"net.pretrained: timm has no weights of {model!r}")
    return Reads(found.input_size[-1], tuple(found.mean), tuple(found.std))


def _torchvision_reads(model: str) -> Reads:
    found = _known_to_torchvision(model).get_model_weights(model).DEFAULT.transforms()
    return Reads(int(found.crop_size[0]), tuple(found.mean), tuple(found.std))


def _known_to_timm(model: str) -> Any:
    timm = needed("timm", f"net.name: timm/{model}")
    if not timm.is_model(model):
        raise ConfigError(f"net.name: timm has no model {model!r}")
    return timm


def _known_to_torchvision(model: str) -> Any:
    models = needed("torchvision.models", f"net.name: torchvision/{model}")
    if model not in models.list_models():
        raise ConfigError(f"net.name: torchvision has no model {model!r}")
    return models
