"""Classifiers in folders: saved whole or not at all, and read without trusting a byte.

    model.json            what it is: labels, config, history, and the digests of the other files
    model.safetensors     what predicts: the net, and what its method remembers beside images
    memory.safetensors    the images it keeps, for replay and for testing; the only file with images

A new model's tensors are written beside the old ones first, under a name with their digest;
replacing model.json then makes the new model the folder's, and only after that are the files given
their usual names. So a kill leaves the old model or the new one. Nothing is pickled.

Knows what a classifier remembers. How it learns is course.py's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from safetensors import SafetensorError
from safetensors.torch import load as tensors_in
from safetensors.torch import save as safetensors_bytes
from torch import Tensor, nn

from ..errors import ConfigError, StateError
from ..storage import files
from ..storage.folder import MODEL as WEIGHTS
from ..storage.lease import Lease
from . import manifest
from .account import LessonReport
from .described import Opened, described, restored
from .manifest import MEMORY, NAME, File
from .predictive import Predictive
from .tensors import memory_of, weights_of

TRIES = 3  # of reading a model that is being replaced meanwhile


class Savable(Predictive):
    """`save` and `load` for a classifier that learns; the annotations are what it remembers."""

    announced_: bool
    history_: list[dict[str, Any]]
    report_: LessonReport

    def save(self, path: str | Path, *, memory: bool = True) -> None:
        """Write the classifier to a folder, in place of one that is there.

        With `memory=False` no image is written: such a copy predicts, and cannot learn more.
        """
        self._check_fitted()
        if not str(path):
            raise ConfigError("path: name a folder")
        folder, memory = Path(path), memory and not self.course_.lacking
        if not memory and (folder / MEMORY).exists():
            raise StateError(
                f"{folder} holds the images that the classifier learns with; save the copy without "
                "memory in another folder"
            )
        with _replacing(folder):
            write(folder, self, memory)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        net: nn.Module | None = None,
        empty_memory: bool = False,
        own: Sequence[str] = (),
    ) -> Self:
        """Read a classifier from a folder.

        One that was saved without its memory can predict. To let it learn all the same, and forget
        more of what it knows, ask for an empty memory. A module that was handed in as `net` must be
        handed in again, with any weights: they are replaced. Code of yours that a name stands for,
        a method or a net, is executed only if you give its file in `own`.
        """
        folder = Path(path)
        return restored(
            lambda params: cls(**params), folder, opened(folder), net, empty_memory, own
        )


# --- writing --------------------------------------------------------------------------------------


def write(folder: Path, classifier: Savable, memory: bool) -> None:
    """Replace what a folder holds. Whoever calls it holds the folder's lease."""
    course, learner = classifier.course_, classifier.course_.learner
    assert learner is not None
    parts = {WEIGHTS: _bytes(weights_of(learner, course.front))}
    if memory:
        parts[MEMORY] = _bytes(memory_of(course, learner))
    digests = {name: files.digest(content) for name, content in parts.items()}
    listed = {name: {"bytes": len(parts[name]), "digest": own} for name, own in digests.items()}
    told = manifest.written(described(classifier) | {"files": listed})
    for name, content in parts.items():
        files.write(_waiting(folder, name, digests[name]), content)
    files.write(folder / NAME, told)
    settle(folder)


def settle(folder: Path) -> None:
    """Give the files that model.json speaks of their names, and remove what it does not name."""
    found = manifest.read(folder)[0].files
    with files.reporting(f"cannot write {folder}"):
        for name in (WEIGHTS, MEMORY):
            if name in found:
                waiting = _waiting(folder, name, found[name].digest)
                if waiting.exists():
                    waiting.replace(folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
            for stray in folder.glob(f"{name}.*.new"):
                stray.unlink(missing_ok=True)
        files.sync_folder(folder)


def _bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Tensors that share their values are written one by one: their module joins them again."""
    found: dict[str, Tensor] = {}
    places: set[int] = set()
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise StateError(f"{name} is a {type(value).__name__}; only tensors can be saved")
        whole = value.detach().cpu().contiguous()
        found[name] = whole.clone() if whole.untyped_storage().data_ptr() in places else whole
        places.add(whole.untyped_storage().data_ptr())
    return safetensors_bytes(found)


def _waiting(folder: Path, name: str, digest: str) -> Path:
    return folder / f"{name}.{digest}.new"


@contextmanager
def _replacing(folder: Path) -> Iterator[None]:
    """Hold a folder that has a model already: nobody else may replace it at the same time."""
    with files.reporting(f"cannot use {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    lease = None
    if (folder / NAME).exists():
        manifest.read(folder)  # refuses to overwrite what is no model
        lease = Lease(folder)
        with files.reporting(f"cannot use {folder}"):
            lease.acquire()
    try:
        yield
    finally:
        if lease is not None:
            lease.release()


# --- reading --------------------------------------------------------------------------------------


def opened(folder: Path, memory: bool = True) -> Opened:
    """A folder's files, each whole and the one that model.json means."""
    for attempt in range(TRIES):
        found, content = manifest.read(folder)
        try:
            weights = _tensors(folder, WEIGHTS, found.files[WEIGHTS])
            wanted = memory and MEMORY in found.files
            kept = _tensors(folder, MEMORY, found.files[MEMORY]) if wanted else None
            return Opened(found, weights, kept)
        except StateError:  # perhaps another process has replaced the model meanwhile
            if attempt == TRIES - 1 or files.read(folder / NAME) == content:
                raise
    raise AssertionError


def _tensors(folder: Path, name: str, wanted: File) -> Mapping[str, Tensor]:
    """The tensors of a file, or of the one that waits to be called so."""
    waiting = _waiting(folder, name, wanted.digest)
    path = waiting if waiting.exists() else folder / name
    content = files.read(path, _room())
    if len(content) != wanted.bytes or files.digest(content) != wanted.digest:
        raise StateError(f"{path} is damaged, or not the one that {NAME} was saved with")
    try:
        return tensors_in(content)
    except (SafetensorError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise StateError(f"{path} is damaged: {error}") from None


def _room() -> int:
    """Half of this machine's memory, in bytes: more is not read at once."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
