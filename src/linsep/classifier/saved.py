"""Classifiers in folders: saved whole or not at all, and read without trusting a byte.

    model.json            what it is: labels, config, history, and the digests of the other files
    model.safetensors     what predicts: the net, and what its method remembers beside images
    memory.safetensors    the images it keeps, for replay and for testing; the only file with images

A new model's tensors are written beside the old ones first, under a name with their digest;
replacing model.json then makes the new model the folder's, and only after that are the files given
their usual names. So a kill leaves the old model or the new one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from ..data.augment import Augment, Columns
from ..errors import ConfigError, LinsepError, StateError
from ..storage import files
from ..storage.folder import MODEL as WEIGHTS
from ..storage.lease import Lease
from . import manifest
from .course import Course, backbone_only, head_only
from .manifest import MEMORY, NAME, Augmentation, File, Manifest
from .tensors import memory_of, restore, restore_front, weights_of

TRIES = 3  # of reading a model that is being replaced meanwhile


# --- writing --------------------------------------------------------------------------------------


def save(folder: Path, course: Course, memory: bool) -> None:
    """Replace the model in a folder, which nobody else may do at the same time."""
    memory = memory and not course.lacking
    if not memory and (folder / MEMORY).exists():
        raise StateError(
            f"{folder} holds the images that the classifier learns with; save the copy without "
            "memory in another folder"
        )
    with _replacing(folder):
        write(folder, course, memory)


def write(folder: Path, course: Course, memory: bool) -> None:
    """Replace what a folder holds. Whoever calls it holds the folder's lease."""
    learner = course.learner
    assert learner is not None
    parts = {WEIGHTS: files.tensor_bytes(weights_of(learner, course.front))}
    if memory:
        parts[MEMORY] = files.tensor_bytes(memory_of(course, learner))
    digests = {name: files.digest(content) for name, content in parts.items()}
    front = course.front
    told = manifest.written(
        params=course.params,
        config=course.config.model_dump(mode="json"),
        labels=course.labels,
        announced=course.announced,
        shape=course.shape,
        augment=_described(course.augment),
        front=front and {"shape": front.shape, "augment": _described(front.model.augment)},
        module=course.handed_in,
        feature_names=course.feature_names,
        history=course.history,
        files={
            name: {"bytes": len(parts[name]), "digest": digest} for name, digest in digests.items()
        },
    )
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


def _described(augment: Augment) -> dict[str, Any]:
    return asdict(augment) | {"columns": isinstance(augment, Columns)}


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


class Opened(NamedTuple):
    """A saved model's files, checked for themselves."""

    manifest: Manifest
    weights: Mapping[str, Tensor]
    memory: Mapping[str, Tensor] | None  # None: saved without


def opened(folder: Path) -> Opened:
    """A folder's files, each whole and the one that model.json means."""
    for attempt in range(TRIES):
        found, content = manifest.read(folder)
        try:
            tensors = {n: _tensors(folder, n, file) for n, file in found.files.items()}
            return Opened(found, tensors[WEIGHTS], tensors.get(MEMORY))
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
    return files.tensors_in(content, path)


def _room() -> int:
    """Half of this machine's memory, in bytes: more is not read at once."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def load(
    folder: Path,
    net: nn.Module | None = None,
    *,
    empty_memory: bool = False,
    custom: Sequence[str] = (),
) -> Course:
    """What was learned, as it was saved; StateError names what does not fit.

    `net` is the module that was handed in, `custom` the files whose code may run; a copy that
    was saved without its memory learns only if an empty one is asked for.
    """
    found = opened(folder)
    told = found.manifest
    _check_module(folder, told, net)
    try:
        course = _course(found, net, custom)
        course.lacking = found.memory is None and not empty_memory
        restore(course, told.groups, found.weights, found.memory)
    except LinsepError as error:
        reason = f"does not fit this {told.module}" if net else "holds no model that can be used"
        raise StateError(f"{folder} {reason}: {error}") from None
    return course


def _course(found: Opened, net: nn.Module | None, custom: Sequence[str]) -> Course:
    """The course without its learner."""
    told = found.manifest
    config, augment = told.resolved(custom), _augment(told.augment)
    more: dict[str, Any] = {
        "params": told.params,
        "labels": told.labels,
        "announced": told.announced,
        "history": [entry.model_dump() for entry in told.history],
        "feature_names": told.feature_names,
        "handed_in": told.module,
    }
    if told.front is None:
        return Course(config, augment, told.shape, module=net, **more)
    before = _augment(told.front.augment)
    front = restore_front(backbone_only(config, before, told.front.shape, net), found.weights)
    return head_only(config, augment, front, **more)


def _check_module(folder: Path, told: Manifest, net: nn.Module | None) -> None:
    """A net that was handed in is handed in again, and no other is."""
    if told.module is not None and net is None:
        raise StateError(
            f"{folder} was made with a module of yours, {told.module}, whose code is not in it; in "
            "Python, IncrementalClassifier.load(folder, net=module) reads it"
        )
    if told.module is None and net is not None:
        raise ConfigError(f"net: {folder} was made with a net that it knows by name; leave it out")
    if net is not None and not isinstance(net, nn.Module):
        raise ConfigError(f"net: should be the module it was made with, not {type(net).__name__}")


def _augment(told: Augmentation) -> Augment:
    fields = told.model_dump()
    return Columns(**fields) if fields.pop("columns") else Augment(**fields)
