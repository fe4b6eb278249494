"""Features of a finished run's images at each of its snapshots: made once, and kept with the run.

    features/test-task02-<digest>.npy    float32 (n, d), in the order of `Features.labels`

Knows how a run is opened again, and files. Knows nothing of what features are good for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..data.images import Images, join
from ..errors import ConfigError, StateError
from ..learning.learner import Learner
from ..nets.heads import DecidesLinearly
from ..prepare import Prepared, devices, gathered, prepare
from ..settings.config import from_settings
from ..settings.layers import read
from ..storage import files, snapshots
from ..storage.environment import threads
from ..storage.session import read_results
from ..storage.snapshots import Snapshot

Split = Literal["train", "test"]
FOLDER = "features"
CHUNK = 1024  # rows


@dataclass(frozen=True)
class Rule:
    """How a learner decided, as a linear rule on features, and among which classes."""

    weight: Tensor  # (C, d)
    bias: Tensor  # (C,)
    seen: Tensor  # (C,) bool


def reopen(
    folder: Path, *, opened: dict[str, Any] | None = None, data: str | None = None
) -> Prepared:
    """A finished run's config and data again; `data` says where the images are now."""
    read_results(folder)  # refuses what is not finished
    settings = gathered(read(folder / "config.toml"))
    scenario, name = settings["scenario"], folder.resolve().name
    if data is not None:
        scenario["data"] = data
    elif scenario["name"] == "code":
        raise ConfigError(
            f"{name}: its images come from code, {scenario.get('data')}, which is not run unasked; "
            "name it with --data if you trust it"
        )
    prepared = prepare(from_settings(settings), opened=opened, here=False)
    if prepared.name != name:
        raise ConfigError(
            f"{name}: this config and these data make another run, {prepared.name}; "
            "were the images or the net changed, or was the folder renamed?"
        )
    compute = prepared.config.compute
    if compute.device not in devices():  # what was trained there can be looked at here
        compute = compute.model_copy(update={"device": "cpu"})
    return replace(prepared, config=prepared.config.model_copy(update={"compute": compute}))


class Features:
    """A run's features, by snapshot and split, as memory-mapped matrices."""

    def __init__(
        self,
        folder: Path,
        prepared: Prepared,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.folder, self.prepared, self.say = folder, prepared, say
        self.scenario = prepared.stream.scenario  # the tasks, also of a run that learned jointly
        self.snapshots = snapshots.found(folder)
        self._restored: Snapshot | None = None

    @property
    def ends(self) -> list[Snapshot]:
        """Of tasks, in their order."""
        return [s for s in self.snapshots if s.ends_task]

    @property
    def last(self) -> Snapshot:
        return self.needed(self.ends)[-1]

    def needed(self, found: Sequence[Snapshot], what: str = "") -> Sequence[Snapshot]:
        if not found:
            raise StateError(
                f"{self.folder.name}: {what or 'this'} needs the weights at the end of tasks, "
                "which were not kept; remove its folder and run it with --keep tasks"
            )
        return found

    @cached_property
    def learner(self) -> Learner:
        """Built anew; what it knows is what `at` put into it."""
        return self.prepared.build().learner

    def at(self, snapshot: Snapshot) -> Learner:
        """The learner as it was then."""
        if self._restored != snapshot:
            snapshots.restore(snapshot, self.learner)
            self._restored = snapshot
        return self.learner

    def rule(self, snapshot: Snapshot) -> Rule:
        learner = self.at(snapshot)
        head, own = learner.net.head, learner.evaluation.rule == "method"
        if not isinstance(head, DecidesLinearly):
            raise ConfigError(
                f"{self.folder.name}: its head, {type(head).__name__}, does not say how to decide "
                "on features by a linear rule (as_linear)"
            )
        weight, bias = learner.predictor.as_linear(head) if own else head.as_linear()
        seen = learner.seen if learner.evaluation.mask_unseen else torch.ones_like(learner.seen)
        return Rule(*(t.detach().cpu().clone() for t in (weight, bias, seen)))  # the net moves on

    # --- rows: all groups' images, one after another ---------------------------------------------

    def images(self, split: Split) -> Images:
        return self._images[split]

    def labels(self, split: Split) -> Tensor:
        return self._images[split].y

    def rows(self, split: Split, first: int, end: int) -> slice:
        """Of the tasks from `first` up to, and without, `end`."""
        ends = np.cumsum([0, *(len(part) for part in self._parts[split])]).tolist()
        return slice(ends[first], ends[end])

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

    def _path(self, snapshot: Snapshot, split: Split) -> Path:
        """Named after all that decides its content."""
        what = f"{snapshot.digest} {self.prepared.stream.fingerprint} {self.prepared.key}"
        digest = blake2b(what.encode(), digest_size=6).hexdigest()
        return self.folder / FOLDER / f"{split}-{snapshot.name}-{digest}.npy"

    def _extract(self, snapshot: Snapshot, split: Split, path: Path) -> None:
        images, learner = self.images(split), self.at(snapshot)
        self.say(f"features of {len(images)} {split} images, {snapshot.name}")
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        files.make_folder(path.parent)
        try:
            shape = len(images), learner.spec.features
            out = np.lib.format.open_memmap(temporary, "w+", np.float32, shape)
            with threads(1):
                for start in range(0, len(images), CHUNK):
                    part = images.take(torch.arange(start, min(start + CHUNK, len(images))))
                    out[start : start + CHUNK] = learner.embed(part).cpu().numpy()
            out.flush()
            del out
            temporary.replace(path)
        except OSError as error:
            raise StateError(f"cannot write {path}: {error.strerror or error}") from None
        finally:  # also when it is stopped
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
