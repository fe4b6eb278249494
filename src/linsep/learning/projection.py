"""Backward Feature Projection (Gu et al., 2023), as a plain module and as a term.

`BackwardProjection` knows two feature matrices and nothing else: it can be used without the rest of
this library. `BackwardFeatures` knows which taps of which passes to hand to it.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..data.tasks import Task
from ..errors import ConfigError, DataError, unknown
from ..nets.net import Spec
from .losses import Scale, feature_match
from .optimizers import SGD
from .terms import NOTHING, Needs, On, Pass, Step, Term

Kind = Literal["linear", "identity", "mlp"]
Init = Literal["default", "identity", "orthogonal"]
Target = Literal["previous_net", "stored"]
STORED: Literal["features"] = (
    "features"  # the layer, and the memory's column, whose past can be stored
)


class BackwardProjection(nn.Module):
    """(new, old) -> E ||p(new) - old||_2 / sqrt(d): can the old features be read off the new ones?

    p is an affine map (BFP, eq. 4), the identity (FD) or two layers with a ReLU (BFP-2). Use it in
    any training loop; `old` comes from a frozen copy of the network before the new task:

    >>> import torch
    >>> import linsep
    >>> bfp = linsep.BackwardProjection(features=512)
    >>> optimizer = bfp.optimizer()  # the paper's: SGD, lr 0.1, momentum 0.9; None for the identity
    >>> new, old = torch.randn(32, 512, requires_grad=True), torch.randn(32, 512)
    >>> loss = bfp(new, old)  # add it to yours, then step both optimisers
    >>> loss.backward()
    >>> optimizer.step()

    Call `reset()` at the start of each task. With `cycle`, a second affine map `ahead` is trained
    beside p, from old to new features, and each learns to undo the other (Xu and Krawczyk, 2026).
    """

    def __init__(
        self,
        features: int,
        kind: Kind = "linear",
        init: Init = "default",
        scale: Scale = "root_d",
        cycle: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(features, int) or features < 1:
            raise ConfigError(f"features: should be a number of columns, not {features!r}")
        for name, value, allowed in (("init", init, Init), ("scale", scale, Scale)):
            if value not in get_args(allowed):
                raise ConfigError(f"no {name} {value!r}: {' or '.join(get_args(allowed))}")
        self.init: Init = init
        self.scale: Scale = scale
        self.project: nn.Module
        match kind:
            case "identity":
                self.project = nn.Identity()
            case "linear":
                self.project = nn.Linear(features, features)
            case "mlp":
                layers = nn.Linear(features, features), nn.ReLU(), nn.Linear(features, features)
                self.project = nn.Sequential(*layers)
            case _:
                raise ConfigError(f"no projection of kind {kind!r}: linear, identity or mlp")
        self.ahead = nn.Linear(features, features) if cycle else None
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        """Forget what was learned: `init` again, from torch's global generator."""
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()
                if self.init != "default":
                    layer.bias.zero_()
                    fill = nn.init.eye_ if self.init == "identity" else nn.init.orthogonal_
                    fill(layer.weight)

    def forward(self, new: Tensor, old: Tensor) -> Tensor:
        if not len(new):
            raise DataError("BackwardProjection: no rows to match, whose mean would be NaN")
        back = self.project(new)
        loss = feature_match(back, old, self.scale)
        return loss if self.ahead is None else loss + self._cycle(self.ahead, new, back, old)

    def _cycle(self, ahead: nn.Module, new: Tensor, back: Tensor, old: Tensor) -> Tensor:
        """Old to new, and there and back from either side; the network learns from none of it."""
        new, back, onwards = new.detach(), back.detach(), ahead(old)
        matches = (onwards, new), (ahead(back), new), (self.project(onwards.detach()), old)
        return torch.stack([feature_match(*pair, self.scale) for pair in matches]).sum()

    def optimizer(self, lr: float = 0.1, momentum: float = 0.9) -> Optimizer | None:
        """Return an optimiser for the map, as in the paper; None for the identity."""
        parameters = list(self.parameters())
        return SGD(parameters, lr=lr, momentum=momentum) if parameters else None


class BackwardFeatures(Term):
    """Mean over layers of the backward projection, on the stream and a replay batch together.

    With `on = "replay"` only rows of earlier classes count: the current task's have no past. With
    `target = "stored"` old features of replayed rows are those that the net gave their images, not
    augmented, at the end of the previous task; rows that came into the memory since have none.
    """

    def __init__(
        self,
        spec: Spec,
        *,
        kind: Kind = "linear",
        on: On = "both",
        layers: Sequence[str] = ("features",),
        init: Init = "default",
        lr: float = 0.1,
        momentum: float = 0.9,
        reset: bool = True,
        scale: Scale = "root_d",
        every: int = 1,
        target: Target = "previous_net",
        cycle: bool = False,
    ) -> None:
        super().__init__(spec)
        self.layers = self.taps = tuple(layers)
        if not self.layers:
            raise ConfigError("layers: name at least one, such as 'features'")
        for layer in self.layers:
            if layer not in spec.widths:
                raise ConfigError(f"layers: {unknown('layer', layer, spec.widths)}")
        # A list, since a module's name must not contain the dots that a layer's may.
        self.maps = nn.ModuleList(
            BackwardProjection(spec.widths[t], kind, init, scale, cycle) for t in self.layers
        )
        self.on, self.lr, self.momentum, self.reset = on, lr, momentum, reset
        self.every, self.stored = every, target == "stored"
        self.lasting = not reset

    def needs(self, task: Task) -> Needs:
        kept: Needs = {STORED} if self.stored else NOTHING
        if not task.earlier:
            return kept
        replayed: Needs = {"replay"} if self.on != "stream" else NOTHING
        frozen: Needs = NOTHING if self.stored and self.on == "replay" else {"before"}
        return kept | replayed | frozen

    def map_of(self, layer: str) -> BackwardProjection:
        """A layer's map from its new outputs to its old ones, `project`; and back, `ahead`."""
        found = self.maps[self.layers.index(layer)]
        assert isinstance(found, BackwardProjection)
        return found

    def begin_task(self, task: Task) -> None:
        for layer in self.layers if self.reset else ():
            self.map_of(layer).reset()

    def forward(self, step: Step) -> Tensor | None:
        new: list[dict[str, Tensor]] = []
        old: list[dict[str, Tensor]] = []
        for p in self._passes(step):
            if (past := self._past(p)) is not None:
                rows = self._rows(p, step.task)
                new.append({t: p.out.taps[t][rows] for t in self.layers})
                old.append({t: past[t][rows] for t in self.layers})
        if not sum(len(part[self.layers[0]]) for part in new):
            return None
        losses = [
            projection(torch.cat([n[t] for n in new]), torch.cat([o[t] for o in old]))
            for t, projection in zip(self.layers, self.maps, strict=True)
        ]
        return torch.stack(losses).mean()

    def optimizer(self) -> Optimizer | None:
        parameters = list(self.parameters())
        return SGD(parameters, lr=self.lr, momentum=self.momentum) if parameters else None

    def _passes(self, step: Step) -> list[Pass]:
        wanted = {"both": (step.stream, step.replay), "stream": (step.stream,)}
        return [p for p in wanted.get(self.on, (step.replay,)) if p is not None]

    def _past(self, p: Pass) -> Mapping[str, Tensor] | None:
        if self.stored and p.batch.features is not None:
            return {STORED: p.batch.features}
        return None if p.before is None else p.before.taps

    def _rows(self, p: Pass, task: Task) -> Tensor | slice:
        if self.stored and p.batch.features is not None:
            return p.batch.features[:, 0].isfinite()
        if self.on != "replay":
            return slice(None)
        earlier = torch.tensor(task.earlier, device=p.batch.y.device)
        return torch.isin(p.batch.y, earlier)
