"""Features of a finished run's images at each of its snapshots: made once, and kept with the run.

    features/test-task02-<digest>.npy    float32 (n, d), in the order of `Features.labels`

Arithmetic on them is done in float64 on the host, a block of rows at a time, so that it needs
O(d^2) memory whatever the number of rows.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from io import BytesIO
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ..data.images import Dataset, Images, join
from ..errors import ConfigError, StateError
from ..learning.learner import Learner
from ..nets.heads import DecidesLinearly
from ..prepare import Prepared, prepare
from ..resolve import devices, trusted, without_weights
from ..settings.config import from_settings
from ..storage import files, snapshots
from ..storage.folder import RunFolder
from ..storage.resumable import threads
from ..storage.snapshots import Snapshot

Split = Literal["train", "test"]
FOLDER = "features"
CHUNK = 1024  # images that pass a net at a time
ROWS = 4096  # rows turned to float64 at a time


@dataclass(frozen=True)
class Rule:
    """How a learner decided, as a linear rule on features, and among which classes."""

    weight: Tensor  # (C, d)
    bias: Tensor  # (C,)
    seen: Tensor  # (C,) bool

    def scores(self, z: Tensor) -> Tensor:
        """(n, C) float64; -inf for classes that cannot be chosen."""
        w, b = double(self.weight), double(self.bias)
        logits = torch.cat([block @ w.T + b for (block,) in blocks(z)])
        return logits.masked_fill(~self.seen.cpu(), -torch.inf)


def reopen(
    folder: str | PathLike[str],
    *,
    opened: dict[str, Any] | None = None,
    data: Dataset | str | PathLike[str] | None = None,
    net: nn.Module | None = None,
    custom: Sequence[str] = (),
    to_train: bool = False,
) -> Prepared:
    """Open a finished run's config and data again, to look at the net that it left.

    `data` is where the images are now, or the data set that was handed in; `net` the backbone.
    `custom` are the user's files, or modules, whose code may be executed if the run names it.
    With `to_train`, it is the run as it was before its first step: on its device, with the weights
    that it started from.
    """
    folder = Path(folder)
    run = RunFolder(folder)
    run.results()  # refuses what is not finished
    settings = run.config()
    scenario, name = settings.setdefault("scenario", {}), folder.resolve().name
    given = data if isinstance(data, Dataset) else None
    if not (data is None or isinstance(data, Dataset)):
        scenario["data"] = os.fspath(data)
    elif given is None and scenario.get("name") == "code":
        raise ConfigError(
            f"{name}: its images come from code, {scenario.get('data')}, which is not run unasked; "
            "name it with --data if you trust it"
        )
    elif given is None and scenario.get("name") == "arrays" and not scenario.get("data"):
        raise ConfigError(
            f"{name}: its images were handed over in Python; hand them over again as `data`"
        )
    config = from_settings(settings)
    config = config.model_copy(update={"custom": trusted(config, custom, name)})
    prepared = prepare(config, data=given, net=net, opened=opened, here=False)
    if prepared.name != name:
        raise ConfigError(
            f"{name}: this config and these data make another run, {prepared.name}; "
            "were the images or the net changed, or was the folder renamed?"
        )
    if to_train:
        return prepared
    compute = prepared.config.compute
    if compute.device not in devices():  # what was trained there can be looked at here
        compute = compute.model_copy(update={"device": "cpu"})
    settled = {"compute": compute, "net": without_weights(prepared.config.net)}
    return replace(prepared, config=prepared.config.model_copy(update=settled))


class Features:
    """A run's features, by snapshot and split, as memory-mapped matrices."""

    def __init__(
        self,
        folder: str | PathLike[str],
        prepared: Prepared,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        folder = Path(folder)
        self.folder, self.prepared, self.say = folder, prepared, say
        self.scenario = prepared.data.scenario  # the tasks, also of a run that learned jointly
        self.snapshots = snapshots.found(folder)
        self._restored: Snapshot | None = None
        for name in snapshots.missing(folder):
            text = f"{folder.name}: {name} was kept and is missing; analyses do without it"
            warnings.warn(text, stacklevel=2)

    # --- snapshots -------------------------------------------------------------------------------

    @property
    def ends(self) -> list[Snapshot]:
        """The snapshots at the ends of tasks, in the order of learning."""
        return [s for s in self.snapshots if s.ends_task]

    @property
    def last(self) -> Snapshot:
        """The snapshot at the end of the last task."""
        if reason := self.no_final():
            raise StateError(f"{self.folder.name}: {reason}")
        return self.ends[-1]

    @property
    def pairs(self) -> list[tuple[Snapshot, Snapshot]]:
        """(before, after) of every task whose predecessor was kept too."""
        return [(a, b) for a, b in pairwise(self.ends) if b.task == a.task + 1]

    def no_pairs(self) -> str:
        """Why nothing can be compared before and after a task; "" if it can."""
        if self.pairs:
            return ""
        return (
            "it needs snapshots of two consecutive tasks; joint training has one, and a large net "
            "keeps only the last unless it is run with --keep tasks"
        )

    def no_final(self) -> str:
        """Why there are no final features; "" if there are. An earlier task's are no stand-in."""
        last = len(self.scenario.tasks)
        if last - 1 in (end.task for end in self.ends):
            return ""
        return (
            f"the snapshot at the end of task {last}, the last, is missing; remove its folder and "
            "run it with --keep tasks"
        )

    @cached_property
    def learner(self) -> Learner:
        """The learner, newly built; `at` loads its knowledge."""
        return self.prepared.learner()

    def at(self, snapshot: Snapshot) -> Learner:
        """The learner as it was then."""
        if self._restored != snapshot:
            snapshots.restore(snapshot, self.learner)
            self._restored = snapshot
        return self.learner

    def rule(self, snapshot: Snapshot) -> Rule:
        learner = self.at(snapshot)
        head, by_rule = learner.eval_net.head, learner.evaluation.rule == "method"
        if not isinstance(head, DecidesLinearly):
            raise ConfigError(
                f"{self.folder.name}: its head, {type(head).__name__}, does not say how to decide "
                "on features by a linear rule (as_linear)"
            )
        weight, bias = learner.predictor.as_linear(head) if by_rule else head.as_linear()
        seen = learner.seen if learner.evaluation.mask_unseen else torch.ones_like(learner.seen)
        return Rule(*(t.detach().cpu().clone() for t in (weight, bias, seen)))  # the net moves on

    # --- rows: all groups' images, one after another ---------------------------------------------

    def labels(self, split: Split) -> Tensor:
        return self._images[split].y

    def rows(self, split: Split, first: int, end: int) -> slice:
        """Return the rows of the tasks from `first` up to but excluding `end`."""
        ends = np.cumsum([0, *(len(part) for part in self._parts[split])]).tolist()
        return slice(ends[first], ends[end])

    def images(self, split: Split, first: int, end: int) -> Images:
        """The images of the tasks from `first` up to but excluding `end`."""
        rows = self.rows(split, first, end)
        return self._images[split].take(torch.arange(rows.start, rows.stop))

    @cached_property
    def _parts(self) -> dict[Split, list[Images]]:
        return {
            "train": [task.train for task in self.scenario.tasks],
            "test": [group.test for group in self.scenario.groups],
        }

    @cached_property
    def _images(self) -> dict[Split, Images]:
        return {split: join(parts) for split, parts in self._parts.items()}

    # --- matrices --------------------------------------------------------------------------------

    def matrix(self, snapshot: Snapshot, split: Split) -> Tensor:
        """(n, d) float32, read from the disk as it is used."""
        path = self._path(snapshot, split)
        if not path.exists():
            self._extract(snapshot, split, path)
        try:
            # Copy-on-write: torch asks for memory it might write to.
            found = np.load(path, mmap_mode="c", allow_pickle=False)
            shape = len(self.labels(split)), self.learner.spec.features
            if found.shape != shape or found.dtype != np.float32:
                raise ValueError(f"it holds {found.dtype} {found.shape}, not float32 {shape}")
        except (OSError, ValueError, EOFError) as error:
            with suppress(OSError):
                path.unlink()
            raise StateError(
                f"{path} is damaged and was removed; repeat the command: {error}"
            ) from None
        return torch.from_numpy(found)

    def of_tasks(
        self, snapshot: Snapshot, split: Split, first: int, end: int
    ) -> tuple[Tensor, Tensor]:
        """Features and labels of the tasks from `first` up to, and without, `end`."""
        rows = self.rows(split, first, end)
        return self.matrix(snapshot, split)[rows], self.labels(split)[rows]

    def _path(self, snapshot: Snapshot, split: Split) -> Path:
        """Return a path named after everything that decides the file's content."""
        what = f"{snapshot.digest} {self.prepared.data.fingerprint} {self.prepared.key}"
        digest = blake2b(what.encode(), digest_size=6).hexdigest()
        return self.folder / FOLDER / f"{split}-{snapshot.name}-{digest}.npy"

    def _extract(self, snapshot: Snapshot, split: Split, path: Path) -> None:
        images, learner = self._images[split], self.at(snapshot)
        self.say(f"features of {len(images)} {split} images, {snapshot.name}")
        files.make_folder(path.parent)
        with threads(1):
            z = torch.cat([learner.embed(part).cpu() for part in images.chunks(CHUNK)])
        content = BytesIO()
        np.save(content, z.numpy().astype("<f4"))
        files.write(path, content.getvalue())


# --- arithmetic on matrices ----------------------------------------------------------------------


def double(x: Tensor) -> Tensor:
    """Return the tensor on the host, in float64 unless it holds integers."""
    return x.detach().to("cpu", torch.float64 if x.is_floating_point() else torch.int64)


def blocks(*tensors: Tensor) -> Iterator[list[Tensor]]:
    """The same rows of each, block by block, as `double`."""
    for parts in zip(*(torch.split(x, ROWS) for x in tensors), strict=True):
        yield list(map(double, parts))


def mean_row(z: Tensor) -> Tensor:
    """Return the mean of the rows, (d,) float64."""
    return torch.stack([len(b) / len(z) * b.mean(0) for (b,) in blocks(z)]).sum(0)


def six_digits(values: Tensor) -> list[float]:
    """Round to six digits: enough for figures and tables, at half the size."""
    return [float(f"{v:.6g}") for v in values.tolist()]


def check_features(z: Tensor, name: str = "features") -> None:
    """Refuse what is not a non-empty matrix of finite numbers."""
    if z.ndim != 2 or not z.is_floating_point():
        raise ValueError(f"{name}: want a float matrix (n, d), got {z.dtype} {tuple(z.shape)}")
    if z.numel() == 0:
        raise ValueError(f"{name}: the matrix is empty, {tuple(z.shape)}")
    if not all(rows.isfinite().all() for rows in torch.split(z, ROWS)):
        raise ValueError(f"{name}: there are NaN or infinite values")
