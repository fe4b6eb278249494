"""Any module as a backbone: its output is the features, and its submodules can be tapped by name.

Outputs of every usual form are pooled to one vector per image:

    vectors   (n, d)          as they are
    maps      (n, d, h, w)    the mean over height and width
    maps      (n, h, w, d)    the same; recognised by which two sides are equal
    tokens    (n, tokens, d)  of a transformer: the class token if the module predicts from it
                              (`cls_token` or `class_token`, unless `global_pool` is "avg"), else
                              the mean over the tokens that stand for parts of the image
"""

from collections.abc import Callable, Collection
from functools import partial

import torch
from torch import Tensor, nn

from ..errors import ConfigError, LinsepError, unknown
from .net import Backbone, Shape, pooled

ROWS = 3  # images in the trial pass

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
    last = z.ndim == 4 and shape[1] == shape[2] and z.shape[1] == z.shape[2] != z.shape[3]
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
