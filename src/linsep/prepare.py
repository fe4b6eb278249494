"""From a config to a run: open its data, give it its name, build it.

Imports torch only where something is built, so that a mistake in a file is reported at once.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from .errors import ConfigError, DataError
from .resolve import resolve
from .settings import sections
from .settings.config import Config
from .settings.signature import validate

if TYPE_CHECKING:
    from torch import nn

    from .data.images import Dataset
    from .data.scenarios import Opened
    from .learning.learner import Learner
    from .learning.run import Run
    from .nets.net import Backbone

RESULTS_VERSION = 1  # raise it when the same config gives other numbers than before


@dataclass(frozen=True)
class Prepared:
    """A resolved config with its data: known by its key, and ready to be built."""

    config: Config
    data: Opened
    key: str
    module: nn.Module | None = None  # a backbone that was handed in

    @property
    def name(self) -> str:
        """The name of the run's folder: unique, and the same for the same config and data."""
        c = self.config
        memory = f"-m{c.memory.rows}" if c.memory.rows else ""
        return f"{c.scenario.name}-{c.method}{memory}-s{c.seed}-{self.key}"

    def build(self) -> Run:
        from .learning.run import Run

        learner = self.learner()
        return Run(learner.method.curriculum(self.data.scenario), learner)

    def learner(self, *, growing: bool = False) -> Learner:
        """A new learner for this config and data; the rows of a growing head do not know how many
        there will be.
        """
        from .learning.learner import Learner
        from .methods import assemble
        from .nets.growth import ByRow
        from .randomness import Randomness

        c = self.config
        if c.compute.device == "cuda":
            set_deterministic(c.compute.deterministic)
        method = assemble(c.method, c.options)
        if growing:
            method = replace(method, head=ByRow(method.head))
        return Learner(
            method, self._backbone, method.curriculum(self.data.scenario), Randomness(c.seed),
            self.data.augment, c.training, c.memory, c.evaluation, c.compute,
        )  # fmt: skip

    def _backbone(self) -> Backbone:
        from .nets.backbones import make
        from .nets.net import Wrapped

        shape = (self.data.scenario.shape[0], *self.data.augment.size)
        layers = {t for part in self.config.options.values() for t in part.get("layers", ())}
        if self.module is not None:
            return Wrapped(copy.deepcopy(self.module), shape, layers)
        return make(self.config.net.name, shape, self.config.net.options, layers)


def set_deterministic(on: bool) -> None:
    """Choose between the same bits and the last bit of speed on CUDA, for this process.

    An operation without a deterministic form warns and names itself.
    """
    import torch

    if on:  # read when cuBLAS is first used
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(on, warn_only=True)
    torch.backends.cudnn.deterministic = on
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.allow_tf32 = not on
    torch.backends.cuda.matmul.allow_tf32 = not on


def prepare(
    config: Config,
    *,
    data: Dataset | None = None,
    net: nn.Module | None = None,
    lenient: bool = False,
    here: bool = True,
    opened: dict[str, Opened] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Prepared:
    """Resolve a config and open its data; a data set or a backbone of your own may be handed in.

    `opened` remembers scenarios from call to call, so that many runs on the same data load it once;
    `progress` receives the number of decoded images and their total.
    """
    from .data.images import Dataset
    from .data.scenarios import open_scenario

    if not isinstance(config, Config):
        raise ConfigError(f"config: should be a linsep.Config, not {type(config).__name__}")
    if data is not None:
        if not isinstance(data, Dataset):
            raise DataError(f"data: should be a linsep.Dataset, not {type(data).__name__}")
        scenario = config.scenario.model_dump(exclude_unset=True) | {"name": "arrays"}
        config = config.model_copy(update={"scenario": validate(sections.Scenario, scenario)})
    resolved = resolve(config, lenient=lenient, here=here)
    opened = {} if opened is None else opened
    which = resolved.scenario.model_dump_json()
    if data is not None or which not in opened:
        opened[which] = open_scenario(resolved.scenario, data, progress)
    found = opened[which]
    rows, classes = resolved.memory.rows, found.scenario.num_classes
    if 0 < rows < classes:
        problem = f"{rows} rows cannot hold one of each of {classes} classes; at least {classes}"
        raise ConfigError(f"memory.rows: {problem}")
    return Prepared(resolved, found, key(resolved, found.fingerprint, net), net)


def build(config: Config, *, data: Dataset | None = None, net: nn.Module | None = None) -> Run:
    """Build a run: `for event in build(Config(...)): ...` trains it. Nothing is written."""
    return prepare(config, data=data, net=net).build()


def key(config: Config, fingerprint: str, module: nn.Module | None = None) -> str:
    """Return a digest of what changes numbers: resolved values, the data, a results version."""
    from .methods import revisions

    content = config.model_dump(mode="json", exclude={"preset": True})
    del content["scenario"]["data"], content["compute"]["threads"]
    content |= {"data": fingerprint, "results": RESULTS_VERSION + revisions(config.method)}
    digest = blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=5)
    if module is not None:
        digest.update(repr(module).encode())
        for name, value in module.state_dict().items():
            digest.update(name.encode() + value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
