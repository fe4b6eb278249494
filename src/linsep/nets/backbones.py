"""Backbones by name: our own, timm's and torchvision's, the user's; any module becomes one.

A module's output is the features, and its submodules can be tapped by name. `Wrapped` knows the
forms that outputs take, and pools each to one vector per image:

    vectors   (n, d)          as they are
    maps      (n, d, h, w)    the mean over height and width
    maps      (n, h, w, d)    the same; told apart by which two sides are equal
    tokens    (n, tokens, d)  of a transformer: the class token if the module predicts from it
                              (`cls_token` or `class_token`, unless `global_pool` is "avg"), else
                              the mean over the tokens that stand for parts of the image
"""

import inspect
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .. import custom
from ..errors import ConfigError, LinsepError, unknown
from ..optional import needed
from ..settings.catalogue import LIBRARIES, NETS
from ..settings.sections import Custom, Net
from ..settings.signature import complete, options_of
from .efficientnet import SIZES
from .net import Backbone, Shape, pooled

ROWS = 3  # images in the trial pass
READ_VECTORS = ("mlp", "identity")  # of the nets that come with linsep

Pool = Callable[[Tensor], Tensor]


class Wrapped(Backbone):
    """A module that turns images into features, maps or tokens."""

    inside = "module"

    def __init__(self, module: nn.Module, shape: Shape, taps: Collection[str] = ()) -> None:
        super().__init__()
        self.module = module
        self.taps = tuple(sorted(set(taps) - {"features"}))
        inner = dict(module.named_modules())
        for name in self.taps:
            if name not in inner:
                raise ConfigError(unknown("layer", name, [*filter(None, inner), "features"]))
        was_training = module.training
        outputs = self.eval()._tried(shape)
        self.train(was_training)
        self._pools = {name: _pool(name, z, module, shape) for name, z in outputs.items()}
        self.widths = {name: self._pools[name](z).shape[1] for name, z in outputs.items()}

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {name: self._pools[name](z) for name, z in self._outputs(x).items()}

    @torch.no_grad()
    def _tried(self, shape: Shape) -> dict[str, Tensor]:
        try:
            return self._outputs(torch.zeros(ROWS, *shape))
        except LinsepError:
            raise
        except Exception as error:  # a module may raise anything on images it cannot read
            size, reason = "x".join(map(str, shape)), " ".join(str(error).split())
            raise ConfigError(
                f"net: {type(self.module).__name__} cannot read images of {size} "
                f"({reason or type(error).__name__}); set scenario.augment.size to what it reads"
            ) from error

    def _outputs(self, x: Tensor) -> dict[str, Tensor]:
        caught: dict[str, Tensor] = {}

        def catch(name: str, module: nn.Module, args: object, output: Tensor) -> None:
            caught[name] = output

        # Hooked for this call only: a hook that stays would write to the original of a copy.
        hooks = [
            self.module.get_submodule(name).register_forward_hook(partial(catch, name))
            for name in self.taps
        ]
        try:
            z = self.module(x)
        finally:
            for hook in hooks:
                hook.remove()
        if missed := [name for name in self.taps if name not in caught]:
            raise ConfigError(f"layers: {missed[0]!r} is not used to compute the features")
        caught["features"] = z
        return caught


def _pool(name: str, z: object, module: nn.Module, shape: Shape) -> Pool:
    """Return how to pool a layer's output to one vector per image."""
    found = tuple(z.shape) if isinstance(z, Tensor) else type(z).__name__
    if not isinstance(z, Tensor) or z.ndim not in (2, 3, 4) or len(z) != ROWS:
        called = type(module).__name__ + (f"'s layer {name!r}" if name != "features" else "")
        raise ConfigError(
            f"net: {called} must return features (n, d), maps (n, d, h, w) or tokens "
            f"(n, tokens, d); for {ROWS} images it returns {found}"
        )
    if z.ndim == 3:
        return _of_tokens(module)
    last = (
        z.ndim == 4
        and len(shape) == 3
        and shape[1] == shape[2]
        and z.shape[1] == z.shape[2] != z.shape[3]
    )
    return _mean_of_maps_last if last else pooled


def _of_tokens(module: nn.Module) -> Pool:
    """Return the class token or the mean of the others, whichever the module predicts from."""
    has_class = any(getattr(module, n, None) is not None for n in ("cls_token", "class_token"))
    if has_class and getattr(module, "global_pool", "token") != "avg":
        return _class_token
    # Before the image's tokens come those of timm's class, distillation and registers.
    return partial(_mean_of_tokens, first=int(getattr(module, "num_prefix_tokens", has_class)))


def _class_token(z: Tensor) -> Tensor:
    return z[:, 0]


def _mean_of_tokens(z: Tensor, first: int) -> Tensor:
    return z[:, first:].mean(1)


def _mean_of_maps_last(z: Tensor) -> Tensor:
    return z.mean((1, 2))


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
    custom: Custom | None = None

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return every option of the network, checked and with its default filled in."""
        return complete(self.maker, given, "net", Net.beside_options())

    def fitting(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of the given options that this network has."""
        known = options_of(self.maker)
        return {option: value for option, value in wanted.items() if option in known}

    def reads(self, options: Mapping[str, Any]) -> Reads | None:
        """Return the images its pretrained weights expect; None if it starts without any."""
        if not options.get("pretrained"):
            return None
        library, _, model = self.name.partition("/")
        if model:
            return _LIBRARIES[library].reads(model)
        return Reads(SIZES[self.name].side, (0.5,) * 3, (0.5,) * 3) if self.name in SIZES else None

    def build(self, shape: Shape, options: Mapping[str, Any], taps: Collection[str]) -> Backbone:
        """Build the backbone, freshly initialised from torch's global generator."""
        if len(shape) == 1 and self.name not in READ_VECTORS and self.custom is None:
            raise ConfigError(
                f"net.name: {self.name!r} reads images, and these rows are vectors of {shape[0]} "
                "numbers; mlp and identity read vectors (--net mlp)"
            )
        model = self.name.partition("/")[2]
        if model:
            return Wrapped(self.maker(model, shape[0], **options), shape, taps)
        if self.custom is None:
            return self.maker(shape, **options)
        with custom.calling(self.custom.source, "net: "):
            made = self.maker(shape, **options)
        if not isinstance(made, nn.Module):
            found = type(made).__name__
            raise ConfigError(f"net: {self.custom.source} should return an nn.Module, not {found}")
        return made if isinstance(made, Backbone) else Wrapped(made, shape, taps)


def find(
    name: str, known: Mapping[str, Custom] | None = None, objects: Mapping[str, Any] | None = None
) -> Architecture:
    """Look up a network; `known` and `objects` are the user's own parts in the configuration."""
    library, _, model = name.partition("/")
    if model and library in LIBRARIES:
        return Architecture(name, _LIBRARIES[library].make)
    if name in NETS:
        return Architecture(name, NETS[name].recipe)
    there = [*NETS, *(f"{library}/<model>" for library in LIBRARIES)]
    part = custom.find("nets", name, known or {}, objects or {}, "net.name: ", there)
    short = custom.name_of(name)
    if short in NETS:
        raise ConfigError(f"net.name: {part.source}: linsep has its own {short!r}; rename yours")
    kinds = [p.kind for p in inspect.signature(part.make).parameters.values()]
    if [k for k in kinds if k is not inspect.Parameter.KEYWORD_ONLY] != [_ONE_BY_PLACE]:
        should = f"should look like def {short}(shape, *, width: int = 16)"
        raise ConfigError(f"net.name: {part.source}: {should}; shape is (channels, height, width)")
    return Architecture(short, part.make, Custom(source=part.source, digest=part.digest))


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
    """Any model of timm."""
    timm = _known_to_timm(model)
    with (
        _fetching(f"timm/{model}") if pretrained else custom.calling(f"timm/{model}", "net.name: ")
    ):
        return timm.create_model(model, pretrained=pretrained, num_classes=0, in_chans=channels)


def _torchvision(model: str, channels: int, *, pretrained: bool = False) -> nn.Module:
    """Any model of torchvision."""
    models = _known_to_torchvision(model)
    if channels != 3:
        raise ConfigError(f"net.name: torchvision's models read 3 channels, not {channels}")
    weights = "DEFAULT" if pretrained else None
    with _fetching(f"torchvision/{model}") if pretrained else custom.calling(model, "net.name: "):
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


class _Library(NamedTuple):
    make: Callable[..., nn.Module]
    reads: Callable[[str], Reads]


_LIBRARIES = {
    "timm": _Library(_timm, _timm_reads),
    "torchvision": _Library(_torchvision, _torchvision_reads),
}
