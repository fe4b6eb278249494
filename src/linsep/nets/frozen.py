"""A backbone that does not learn, so that images need to pass it only once."""

from typing import NamedTuple, Self

import torch
from torch import Tensor

from .net import Backbone

WIDE = 64  # features whose length the usual learning rate suits


class Centring(NamedTuple):
    """What is taken from all features, and what they are divided by then."""

    mean: Tensor  # (d,)
    scale: Tensor  # ()

    @classmethod
    def of(cls, features: Tensor) -> Self:
        """Centre features by their means, and scale them by one deviation for all of them.

        A feature that hardly varies among the first classes may vary much among later ones:
        divided by a deviation of its own it would outweigh all the others. The steps of a head grow
        with the squared length of a row, so more features than `WIDE` are scaled to the length of
        so many; otherwise the usual learning rate diverges on the 1280 features of a pretrained
        net.
        """
        z = features.double()
        common = z.var(0, correction=0).mean().sqrt()
        common = torch.where(common > 0, common, 1.0)
        return cls(z.mean(0).float(), (common * max(1.0, z.shape[1] / WIDE) ** 0.5).float())


class FrozenBackbone(Backbone):
    """A backbone whose features may come in the place of images: rows (n, d) are taken for them.

    They are centred as those of the first task are, if a head is trained on them.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, module: Backbone, centring: Centring | None = None) -> None:
        super().__init__()
        self.module: Backbone = module
        self.inside = ".".join(filter(None, ["module", module.inside]))
        d = module.widths["features"]
        self.widths, self.rows = {"features": d}, (d,)
        mean, scale = centring or Centring(torch.zeros(d), torch.ones(()))
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        z = x if x.ndim == 2 else self.module(x)["features"]
        return {"features": (z - self.mean) / self.scale}
