"""Transformers: their token maps are pooled to what they predict from, or refused at once."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from linsep.data.images import Dataset, Images
from linsep.errors import ConfigError
from linsep.nets.backbones import Wrapped
from linsep.prepare import prepare
from linsep.settings.config import from_settings
from linsep.testing import check_net, toy_scenario

SHAPE = (1, 8, 8)


class Tiny(nn.Module):
    """A vision transformer of two blocks on 16 patches, with or without a class token."""

    def __init__(self, classed: bool, pool: str | None = None, batch_first: bool = True) -> None:
        super().__init__()
        self.patch = nn.Conv2d(1, 12, 2, 2)
        self.cls_token = nn.Parameter(torch.randn(1, 1, 12)) if classed else None
        if pool is not None:
            self.global_pool, self.num_prefix_tokens = pool, int(classed)
        self.blocks = nn.Sequential(*(self._block(batch_first) for _ in range(2)))
        self.batch_first = batch_first

    def _block(self, batch_first: bool) -> nn.Module:
        return nn.TransformerEncoderLayer(12, 2, 16, dropout=0.0, batch_first=batch_first)

    def forward(self, x: Tensor) -> Tensor:
        z = self.patch(x).flatten(2).transpose(1, 2)
        if self.cls_token is not None:
            z = torch.cat([self.cls_token.expand(len(z), -1, -1), z], 1)
        z = self.blocks(z if self.batch_first else z.transpose(0, 1))
        z = z if self.batch_first else z.transpose(0, 1)
        return z[:, 0] if self.cls_token is not None else z.mean(1)


@pytest.mark.parametrize(
    ("classed", "pool", "first", "last"),
    [
        (True, None, 0, 1),  # as torchvision's: a class token and nothing else said
        (True, "token", 0, 1),  # as timm's
        (True, "avg", 1, 17),  # timm's with a class token that it does not predict from
        (False, None, 0, 16),
        (False, "avg", 0, 16),
    ],
)
def test_tokens_become_what_the_net_predicts_from(
    classed: bool, pool: str | None, first: int, last: int
) -> None:
    module = Tiny(classed, pool).eval()
    caught: list[Tensor] = []
    module.blocks[0].register_forward_hook(lambda m, args, out: caught.append(out))
    body = Wrapped(module, SHAPE, ("blocks.0", "features")).eval()
    x = torch.rand(4, *SHAPE)
    caught.clear()
    with torch.no_grad():
        found = body(x)["blocks.0"]
    assert body.widths == {"blocks.0": 12, "features": 12}
    assert_close(found, caught[0][:, first:last].mean(1))


def test_a_module_may_return_tokens_as_its_features() -> None:
    module = nn.Sequential(nn.Conv2d(1, 5, 2, 2), nn.Flatten(2), Transposed())
    x = torch.rand(2, *SHAPE)
    body = Wrapped(module, SHAPE)
    assert_close(body(x)["features"], module(x).mean(1))


class Transposed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


class ChannelsLast(nn.Module):
    """As Swin's blocks: maps of (n, h, w, d) inside."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.inner, self.linear = nn.Conv2d(1, 5, 2, 2), nn.Identity(), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        z = self.inner(self.conv(x).permute(0, 2, 3, 1))
        return self.linear(z.mean((1, 2)))


def test_maps_with_channels_last_are_pooled_over_height_and_width() -> None:
    body = Wrapped(ChannelsLast(), SHAPE, ("conv", "inner"))
    assert body.widths == {"conv": 5, "inner": 5, "features": 3}
    found = body(torch.rand(4, *SHAPE))
    assert_close(found["inner"], found["conv"])


def test_laws_hold_for_a_transformer() -> None:
    check_net(Tiny(True), SHAPE)


def test_bfp_on_tokens_trains_to_the_end() -> None:
    scenario = toy_scenario()
    x = torch.cat([task.train.pixels() for task in scenario.tasks])
    y = torch.cat([task.train.y for task in scenario.tasks])
    data = Dataset(Images.of(x, y), Images.of(x, y), scenario.names)
    settings = {
        "method": "er+bfp", "memory": 12, "training": {"epochs": 1}, "scenario": {"per_task": 2},
        "options": {"bfp": {"layers": ("blocks.1", "features")}},
    }  # fmt: skip
    config = from_settings(settings)
    run = prepare(config, data=data, net=Tiny(True)).build()
    assert list(run)
    with pytest.raises(ConfigError, match=r"layer 'blocks.1' must return .* it returns \(17, 3"):
        prepare(config, data=data, net=Tiny(True, batch_first=False)).build()  # before any step
