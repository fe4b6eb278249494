"""Snapshots of a learner at the end of each task, kept with its run for later analysis.

    snapshots/task02.safetensors                 at the end of the second task
    snapshots/task02-1-train-epoch003.safetensors  after the third epoch of its first stage, "train"

A snapshot holds the net that predicts, the rule it predicts by, which classes it has seen and its
backward projections, and no more: nothing can be resumed from it. Within a task it is the net that
learns, since none has been made ready to predict. Reading one runs no code.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from torch import Tensor, nn

from ..errors import StateError
from ..learning.learner import Learner
from ..learning.projection import BackwardFeatures
from ..nets.net import Net
from . import files, manifest

FOLDER = "snapshots"
SMALL = 2_000_000  # parameters of a net whose tasks are kept unless the user says otherwise
NAME = re.compile(r"task(\d{1,6})(?:-(\d{1,6})-(.+)-epoch(\d{1,6}))?\.safetensors", re.ASCII)
END = float("inf")  # of a task: after all its stages and epochs


@dataclass(frozen=True, order=True)
class Snapshot:
    """Where a learner was, and the file that remembers it. Tasks and epochs count from 0."""

    task: int
    part: float  # which stage
    epoch: float
    stage: str
    path: Path

    @property
    def ends_task(self) -> bool:
        return self.epoch == END

    @property
    def name(self) -> str:
        """As files are named after it: 'task02', 'task02-1-train-epoch003'."""
        return self.path.stem

    @cached_property
    def digest(self) -> str:
        return blake2b(files.read(self.path, largest=None), digest_size=8).hexdigest()


def write(
    folder: Path, learner: Learner, task: int, epoch: tuple[int, str, int] | None = None
) -> dict[str, bytes]:
    """At the end of a task, or after an epoch: which stage, its name, and which epoch of it.

    Return the file's name and content, for the manifest.
    """
    place = f"-{epoch[0] + 1}-{epoch[1]}-epoch{epoch[2] + 1:03}" if epoch else ""
    path = folder / FOLDER / f"task{task + 1:02}{place}.safetensors"
    files.make_folder(path.parent)
    tensors = {"seen": learner.seen}
    for prefix, module in _modules(learner, learner.net if epoch else learner.eval_net):
        state = module.state_dict()
        tensors |= {prefix + name: t for name, t in state.items() if isinstance(t, Tensor)}
    content = files.tensor_bytes(tensors)
    files.write(path, content)
    return {_entry(path): content}


def found(folder: Path) -> list[Snapshot]:
    """A run's snapshots in the order of learning."""
    listed = []
    for path in (folder / FOLDER).glob("*.safetensors"):
        if match := NAME.fullmatch(path.name):
            task, part, stage, epoch = match.groups()
            at = (END, END) if epoch is None else (float(int(part) - 1), float(int(epoch) - 1))
            listed.append(Snapshot(int(task) - 1, at[0], at[1], stage or "", path))
    return sorted(listed)


def missing(folder: Path) -> list[str]:
    """Snapshots that were written and are no longer there."""
    noted = [name for name in manifest.read(folder).files if name.startswith(f"{FOLDER}/")]
    return sorted(name for name in noted if not (folder / name).exists())


def restore(snapshot: Snapshot, learner: Learner) -> None:
    """Make the learner predict as it did then. It cannot continue training from there."""
    content, folder = files.read(snapshot.path, largest=None), snapshot.path.parent.parent
    manifest.read(folder).check(_entry(snapshot.path), content, snapshot.path)
    tensors = files.tensors_in(content, snapshot.path)
    for prefix, module in _modules(learner, learner.eval_net):
        mine = [name for name in tensors if name.startswith(prefix)]
        try:
            module.load_state_dict({name.removeprefix(prefix): tensors[name] for name in mine})
        except RuntimeError:
            raise StateError(f"{snapshot.path} is of another net or method") from None
    if tensors.get("seen", learner.seen[:0]).shape != learner.seen.shape:
        raise StateError(f"{snapshot.path} does not say which classes were seen")
    learner.seen.copy_(tensors["seen"])


def projections(learner: Learner) -> Iterator[tuple[str, BackwardFeatures]]:
    for name, term in learner.terms.items():
        if isinstance(term, BackwardFeatures):
            yield name, term


def _modules(learner: Learner, net: Net) -> Iterator[tuple[str, nn.Module]]:
    yield "net.", net
    yield "predictor.", learner.predictor
    for name, term in projections(learner):
        yield f"terms.{name}.", term


def _entry(path: Path) -> str:
    return f"{FOLDER}/{path.name}"
