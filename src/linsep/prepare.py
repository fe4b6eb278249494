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
from typing import TYPE_CHECKING, Any

from .errors import ConfigError, DataError
from .resolve import resolve
from .settings import sections
from .settings.config import Config
from .settings.layers import decides, flat, merged
from .settings.signature import validate

if TYPE_CHECKING:
    from torch import nn

    from .data.images import Dataset
    from .data.scenarios import Opened
    from .learning.cost import Workload
    from .learning.learner import Learner
    from .learning.method import Method
    from .learning.run import Run
    from .nets.frozen import Centring
    from .nets.net import Backbone

Progress = Callable[[int, int], None]
Custom = Any  # a recipe, a Method, or a list of recipes and names; None: the config's
RESULTS_VERSION = 1  # raise it when the same config gives other numbers than before


@dataclass(frozen=True)
class Prepared:
    """A resolved config with its data: known by its key, and ready to be built."""

    config: Config
    data: Opened
    key: str
    module: nn.Module | None = None  # a backbone that was handed in
    centring: Centring | None = None  # of the features of a frozen backbone

    @property
    def name(self) -> str:
        """The name of the run's folder: unique, and the same for the same config and data."""
        c = self.config
        memory = f"-m{c.memory.size}" if c.memory.size else ""
        return f"{c.scenario.name}-{c.method}{memory}-s{c.seed}-{self.key}"

    @property
    def method(self) -> Method:
        """The method, newly assembled from its parts."""
        from .methods import parts

        c = self.config
        return parts(c.method, c.custom, c.objects).assemble(c.options)

    @property
    def layers(self) -> set[str]:
        """The layers of the backbone that the method reads."""
        return {name for part in self.config.options.values() for name in part.get("layers", ())}

    @property
    def frozen(self) -> bool:
        """Whether images pass the backbone once: it does not learn, and they are not varied."""
        fixed = self.config.net.train == ("head",) and self.layers <= {"features"}
        return fixed and self.data.augment.still

    def build(self, progress: Progress | None = None) -> Run:
        """The run from its start. `progress` receives how many images have passed a frozen backbone
        and how many will.
        """
        from .learning.run import Run

        prepared = self._on_features(progress) if self.frozen else self
        learner = prepared.learner()
        return Run(learner.method.curriculum(prepared.data.scenario), learner)

    def _on_features(self, progress: Progress | None) -> Prepared:
        """The same with the features of a frozen backbone in the place of images."""
        from .learning.features import on_features
        from .nets.frozen import Centring

        scenario = on_features(self.data.scenario, self.alone().learner(), progress)
        first = scenario.tasks[0].train.pixels()
        centring = Centring.of(first) if self.method.trains else None
        return replace(self, data=self.data._replace(scenario=scenario), centring=centring)

    def alone(self) -> Prepared:
        """The same net without what the method would keep beside it."""
        plain = {"method": "ft", "options": {}, "memory": sections.Memory(size=0)}
        return replace(self, config=self.config.model_copy(update=plain))

    def learner(self, *, growing: bool = False) -> Learner:
        """A new learner for this config and data.

        `growing` initialises the head class by class, so that a class's weights do not depend on
        the number of classes.
        """
        from .learning.learner import Learner
        from .nets.heads import ByRow
        from .randomness import Randomness

        c = self.config
        if c.compute.device == "cuda":
            set_deterministic(c.compute.deterministic)
        method = self.method
        if growing:
            method = replace(method, head=ByRow(method.head))
        return Learner(
            method, self._backbone, method.curriculum(self.data.scenario), Randomness(c.seed),
            self.data.augment, c.training, c.memory, c.evaluation, c.compute, c.net.train,
        )  # fmt: skip

    def workload(self) -> Workload:
        """How much there is to do, without building anything."""
        from .learning.cost import Workload

        c, method = self.config, self.method
        return Workload.of(method, method.curriculum(self.data.scenario), c.training, c.memory.size)

    def _backbone(self) -> Backbone:
        from .nets import backbones, weights
        from .nets.backbones import Wrapped
        from .nets.frozen import FrozenBackbone

        c, net = self.config, self.config.net
        shape = self.data.augment.reads
        # With a file of weights, nothing is fetched: "pretrained" is about the images then.
        fetched = {"pretrained": False} if net.weights and "pretrained" in net.options else {}
        body: Backbone
        if self.module is not None:
            body = Wrapped(copy.deepcopy(self.module), shape, self.layers)
        else:
            found = backbones.find(net.name, c.custom, c.objects)
            body = found.build(shape, net.options | fetched, self.layers)
        if net.weights is not None:
            weights.fit(body, weights.read(net.weights, net.weights_digest), net.weights)
        return FrozenBackbone(body, self.centring) if self.frozen else body

    def pinned(self) -> dict[str, Any]:
        """Return the settings that lead to the same files elsewhere, and notice if they changed."""
        c = self.config.model_dump(mode="json")
        net = {k: c["net"][k] for k in ("weights", "weights_digest") if c["net"][k]}
        net |= {"name": c["net"]["name"]} if c["net"]["name"] in self.config.custom else {}
        custom = {"method": c["method"], "custom": c["custom"]} if self.config.custom else {}
        return custom | ({"net": net} if net else {})


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
    method: Custom = None,
    net: nn.Module | None = None,
    lenient: bool = False,
    here: bool = True,
    opened: dict[str, Opened] | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """Resolve a config and open its data; data, a method or a backbone may be handed in.

    `opened` remembers scenarios from call to call, so that many runs on the same data load it once;
    `progress` receives the number of decoded images and their total.
    """
    from .data.images import Dataset
    from .data.scenarios import open_scenario

    if not isinstance(config, Config):
        raise ConfigError(f"config: should be a linsep.Config, not {type(config).__name__}")
    if method is not None:
        given = Config(method=method)
        settings = merged(
            config.model_dump(exclude_unset=True), given.model_dump(exclude_unset=True)
        )
        config = validate(Config, settings).with_objects({**config.objects, **given.objects})
    if data is not None:
        if not isinstance(data, Dataset):
            raise DataError(f"data: should be a linsep.Dataset, not {type(data).__name__}")
        scenario = config.scenario.model_dump(exclude_unset=True) | {"name": "arrays"}
        config = config.model_copy(update={"scenario": validate(sections.Scenario, scenario)})
    resolved = resolve(config, lenient=lenient, here=here)
    net = config.objects.get("") if net is None else net
    opened = {} if opened is None else opened
    which = resolved.scenario.model_dump_json()
    if data is not None or which not in opened:
        opened[which] = open_scenario(resolved.scenario, data, progress)
    found = opened[which]
    rows, classes = resolved.memory.size, found.scenario.num_classes
    if 0 < rows < classes:
        problem = f"{rows} samples cannot cover {classes} classes; at least {classes}"
        raise ConfigError(f"memory.size: {problem}")
    return Prepared(resolved, found, key(resolved, found.fingerprint, net), net)


def build(
    config: Config,
    *,
    data: Dataset | None = None,
    method: Custom = None,
    net: nn.Module | None = None,
) -> Run:
    """Build a run that trains when it is iterated over; nothing is written.

    >>> import linsep
    >>> config = linsep.Config(scenario="blobs", method="er+bfp", training={"epochs": 1})
    >>> for event in linsep.build(config):
    ...     if isinstance(event, linsep.TaskEnd):
    ...         accuracy = event.class_il  # on each task so far
    >>> len(accuracy)
    5

    `data` and `net` are a data set and a backbone of your own; `method` is a function of your own,
    a `Method`, or a list such as [er_kd, "bfp"]. `linsep.train` is the same with a folder that can
    be resumed, compared and reported. As there, torch uses `compute.threads` from now on, or one:
    the number of threads changes the last bits.
    """
    import torch

    prepared = prepare(config, data=data, method=method, net=net)
    torch.set_num_threads(prepared.config.compute.threads or 1)
    return prepared.build()


def key(config: Config, fingerprint: str, module: nn.Module | None = None) -> str:
    """Return a digest of what changes numbers: resolved values, the data, a results version."""
    from .custom import code_of_module

    chosen = flat(config.model_dump(mode="json"))
    content = {name: value for name, value in chosen.items() if decides(name)}
    content |= {"data": fingerprint, "results": RESULTS_VERSION}
    digest = blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=5)
    if module is not None:
        digest.update(f"{module!r} {code_of_module(module)}".encode())
        for name, value in module.state_dict().items():
            digest.update(name.encode() + value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
