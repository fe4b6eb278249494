"""GroupNorm and continual normalisation in our own nets, beside BatchNorm."""

from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from linsep import Config, testing
from linsep.errors import ConfigError
from linsep.learning.run import Run, TaskEnd
from linsep.methods import assemble
from linsep.methods.backward import bfp
from linsep.nets.net import (
    Backbone,
    ContinualNorm,
    Norm,
    cnn,
    groups,
    norm_layer,
    resnet18,
    tracking,
)
from linsep.prepare import prepare

KINDS = get_args(Norm)
SHAPE = (3, 8, 8)
EPS = 1e-5
REESTIMATED = {"batchnorm": "recalibrated"}


def maps(channels: int) -> Tensor:
    g = torch.Generator().manual_seed(channels)
    return 3 * torch.randn(5, channels, 4, 6, generator=g) + torch.arange(channels).view(-1, 1, 1)


def by_image(x: Tensor, n: int) -> Tensor:
    """Every image's groups of channels with mean 0 and variance 1, written out."""
    split = x.reshape(len(x), n, -1)
    centred = split - split.mean(2, keepdim=True)
    return (centred / (centred.square().mean(2, keepdim=True) + EPS).sqrt()).view_as(x)


def by_batch(x: Tensor) -> Tensor:
    centred = x - x.mean((0, 2, 3), keepdim=True)
    return centred / (centred.square().mean((0, 2, 3), keepdim=True) + EPS).sqrt()


def test_the_layers_are_what_their_papers_write() -> None:
    x, weight, bias = maps(8), torch.linspace(1, 2, 8), torch.linspace(-1, 1, 8)
    affine = weight.view(-1, 1, 1), bias.view(-1, 1, 1)
    expected = {
        "batch": by_batch(x),
        "group": by_image(x, 2),
        "continual": by_batch(by_image(x, 2)),
    }
    for kind, plain in expected.items():
        layer = norm_layer(kind, 8).train()  # type: ignore[arg-type]
        layer.load_state_dict({"weight": weight, "bias": bias}, strict=False)
        torch.testing.assert_close(layer(x).detach(), plain * affine[0] + affine[1])


def test_continual_statistics_are_of_images_normalised_by_themselves() -> None:
    x, layer = maps(8), ContinualNorm(8, momentum=1.0).train()
    layer(x)
    inner = by_image(x, 2)
    assert layer.running_mean is not None
    assert layer.running_var is not None
    torch.testing.assert_close(layer.running_mean, inner.mean((0, 2, 3)))
    torch.testing.assert_close(layer.running_var, inner.transpose(0, 1).flatten(1).var(1))
    one = layer.eval()(x[:1]).detach()  # by the running statistics
    scale = (layer.running_var + EPS).sqrt().view(-1, 1, 1)
    torch.testing.assert_close(one, (inner[:1] - layer.running_mean.view(-1, 1, 1)) / scale)


def toy(norm: str, **more: Any) -> Run:
    return _toy(norm, assemble("derpp+bfp", {}), **more)


def _toy(norm: str, method: Any, seed: int = 0, **more: Any) -> Run:
    def net() -> Backbone:
        return cnn(SHAPE, width=8, norm=norm)  # type: ignore[arg-type]

    return testing.toy_run(method, seed, scenario=testing.toy_scenario(SHAPE), net=net, **more)


@pytest.mark.parametrize("norm", ["group", "continual"])
def test_laws_hold(norm: str) -> None:
    for law in testing.LAWS:
        law(assemble("derpp+bfp", {}), partial(_toy, norm))
    testing.ignores_a_term_of_weight_zero(assemble("er", {}), bfp(), partial(_toy, norm))


def trained(norm: str, evaluation: dict[str, Any] | None = None, **training: Any) -> Run:
    run = toy(norm, training=training, evaluation=evaluation)
    for _ in run:
        pass
    return run


def test_settings_of_statistics_work_with_continual_normalisation() -> None:
    plain, quiet = trained("continual"), trained("continual", bn_updates="stream")
    assert not testing.same(plain.learner.state_dict()["net"], quiet.learner.state_dict()["net"])
    run = toy("continual", evaluation=REESTIMATED)
    learner, task = run.learner, run.scenario.tasks[0]
    next(event for event in run if isinstance(event, TaskEnd))
    first = tracking(learner.eval_net)[0]
    convolution = next(m for m in learner.eval_net.modules() if isinstance(m, nn.Conv2d))
    with torch.no_grad():
        seen = torch.cat(list(learner._recalibrating(task)))  # augmented, four times each
        inner = by_image(convolution(seen), groups(8))
    assert first.running_mean is not None
    torch.testing.assert_close(first.running_mean, inner.mean((0, 2, 3)))


@pytest.mark.parametrize("norm", KINDS)
@pytest.mark.parametrize("make", [cnn, resnet18])
def test_channels_last_is_the_same_net(make: Any, norm: str) -> None:
    def close(a: Tensor, b: Tensor) -> bool:
        return bool((a - b).norm() < 1e-3 * b.norm())

    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = make((3, 32, 32), width=8, norm=norm).train()
        x, weight = torch.rand(8, 3, 32, 32), torch.rand(8, net.widths["features"])
    plain = net(x)["features"]
    gradients = torch.autograd.grad((weight * plain).sum(), list(net.parameters()))
    last = net.to(memory_format=torch.channels_last)
    found = last(x.contiguous(memory_format=torch.channels_last))["features"]
    assert close(found, plain)
    again = torch.autograd.grad((weight * found).sum(), list(last.parameters()))
    assert all(map(close, again, gradients))


def config(norm: str, **net: Any) -> Config:
    chosen = {"name": "cnn", "width": 8, "norm": norm, **net}
    return Config(scenario="blobs", method="er", net=chosen, training={"epochs": 1})


def test_a_norm_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"net\.norm: should be 'batch', 'group' or 'continual'"):
        prepare(config("layer"))


def test_weights_of_batchnorm_are_a_start_for_continual_and_not_for_group(tmp_path: Path) -> None:
    path = str(tmp_path / "start.safetensors")
    save_file(cnn((1, 8, 8), width=8).state_dict(), path)
    made = prepare(config("continual", weights=path)).build()
    assert isinstance(tracking(made.learner.net)[0], ContinualNorm)
    with pytest.raises(ConfigError, match=r"does not fit the net. unexpected: .*running_mean"):
        prepare(config("group", weights=path)).build()
