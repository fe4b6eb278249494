"""Features of images through a backbone that does not learn: each image passes it once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b

import torch
from torch import Tensor, nn

from .. import __version__, custom
from ..data.images import Images, digests
from ..data.tasks import Scenario
from ..data.vectors import VectorTable
from ..nets.frozen import FrozenBackbone
from ..nets.net import Backbone, Net
from .model import Model

Progress = Callable[[int, int], None]


def features(model: Model, images: Images) -> Tensor:
    """Features before they are centred, (n, d) float32 on the host, computed now."""
    return model.evaluate(images, Net(_body(model), nn.Identity())).features.cpu()


def kept_features(model: Model, images: Images, progress: Progress | None = None) -> Images:
    """The same as a view of vectors on disk, where those that were computed before are found."""
    table = VectorTable(_key(model), _body(model).widths["features"])
    rows = [digest for copy in images.copies() for digest in digests(copy)]
    made = table.places(
        rows, lambda some: features(model, images.take(torch.tensor(some))), progress
    )
    return Images((table.mapped(),), torch.zeros_like(made), made, images.y)


def on_features(scenario: Scenario, model: Model, progress: Progress | None = None) -> Scenario:
    """The scenario with the features of its images in their place."""
    parts = [*(task.train for task in scenario.tasks), *(group.test for group in scenario.groups)]
    total, before = sum(map(len, parts)), 0
    found = []
    for part in parts:
        report = _after(before, total, progress)
        found.append(kept_features(model, part, report) if len(part) else _none(model))
        before += len(part)
    count = len(scenario.tasks)
    tasks = zip(scenario.tasks, found[:count], strict=True)
    groups = zip(scenario.groups, found[count:], strict=True)
    return replace(
        scenario,
        tasks=tuple(replace(task, train=train) for task, train in tasks),
        groups=tuple(replace(group, test=test) for group, test in groups),
    )


def _after(before: int, total: int, progress: Progress | None) -> Progress | None:
    return progress and (lambda done, of: progress(before + done, total))


def _none(model: Model) -> Images:
    return Images.of(torch.zeros(0, _body(model).widths["features"]), torch.zeros(0))


def _body(model: Model) -> Backbone:
    backbone = model.net.backbone
    assert isinstance(backbone, FrozenBackbone)
    return backbone.module


def _key(model: Model) -> str:
    """Identify how features are made: weights, code, what is read of an image, the arithmetic."""
    body, compute = _body(model), model.compute
    how = [__version__, torch.__version__, model.augment, compute.device, compute.precision]
    digest = blake2b(f"{how} {body!r} {custom.code_of_module(body)}".encode(), digest_size=16)
    for name, value in body.state_dict().items():
        digest.update(name.encode() + value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
