"""Classifiers in folders: saved whole or not at all, and read without trusting a byte.

    manifest.json         what it is: labels, config, history, and the digests of the other files
    model.safetensors     what predicts: the net, and what its method remembers beside images
    memory.safetensors    the images it keeps, for replay and for testing; the only file with images

A new model's tensors are written beside the old ones first, under a name with their digest;
replacing manifest.json then makes the new model the folder's, and only after that are the files
given their usual names. So a kill leaves the old model or the new one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from torch import Tensor, nn

from ..data.augment import Augment, Columns
from ..errors import ConfigError, LinsepError, StateError, printable
from ..settings.signature import problem
from ..storage import files, manifest
from ..storage.folder import CONFIG, STATES
from ..storage.lease import Lease
from ..storage.manifest import MEMORY, MODEL, NAME, Augmentation, Classifier, File, Manifest, noted
from .course import Course
from .tensors import memory_of, restore, weights_of

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
    with files.reporting(f"cannot use {folder}"), ExitStack() as held:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / NAME).exists():
            manifest.read(folder)  # refuses to overwrite what is not linsep's
            check_no_run(folder)
            held.enter_context(Lease(folder))
        write(folder, course, memory)


def write(folder: Path, course: Course, memory: bool) -> None:
    """Replace what a folder holds. Whoever calls it holds the folder's lease."""
    learner = course.learner
    assert learner is not None
    parts = {MODEL: files.tensor_bytes(weights_of(learner))}
    if memory:
        parts[MEMORY] = files.tensor_bytes(memory_of(course, learner))
    each = {name: noted(content) for name, content in parts.items()}
    told = _manifest(course, each)
    for name, content in parts.items():
        files.write(_waiting(folder, name, each[name]), content)
    files.write(folder / NAME, told)
    settle(folder)


def _manifest(course: Course, parts: dict[str, File]) -> bytes:
    """The manifest of a folder with this classifier; StateError if a value is none for JSON."""
    described = {name: getattr(course, name) for name in Classifier.model_fields} | {
        "config": course.config.model_dump(mode="json"),
        "augment": _described(course.augment),
    }
    try:
        return manifest.new(key=course.key, files=parts, classifier=described).to_bytes()
    except ValidationError as error:
        raise StateError(f"the classifier cannot be saved: {problem(error)}") from None
    except (PydanticSerializationError, LinsepError) as error:
        raise StateError(f"the classifier cannot be saved: {printable(str(error))}") from None


def settle(folder: Path) -> None:
    """Give the files that the manifest speaks of their names, and remove those it does not name.

    A state without a lesson under way is what a process left that was killed at its end.
    """
    told = manifest.read(folder)
    with files.reporting(f"cannot write {folder}"):
        for name in (MODEL, MEMORY) if told.classifier else ():
            if name in told.files:
                waiting = _waiting(folder, name, told.files[name])
                if waiting.exists():
                    waiting.replace(folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
            for stray in folder.glob(f"{name}.*.new"):
                stray.unlink(missing_ok=True)
        for name in STATES if told.lesson is None else ():
            (folder / name).unlink(missing_ok=True)
        files.sync_folder(folder)


def _described(augment: Augment) -> dict[str, Any]:
    return asdict(augment) | {"columns": isinstance(augment, Columns)}


def _waiting(folder: Path, name: str, file: File) -> Path:
    return folder / f"{name}.{file.digest}.new"


def check_no_run(folder: Path) -> None:
    if (folder / CONFIG).exists():
        raise StateError(f"{folder} holds a run; give the model a folder of its own")


# --- reading --------------------------------------------------------------------------------------


def opened(folder: Path) -> tuple[str | None, Classifier, dict[str, Mapping[str, Tensor]]]:
    """The key and description of a folder's classifier, and the tensors of each of its files."""
    for attempt in range(TRIES):
        told, classifier = manifest.read_classifier(folder)
        try:
            tensors = {name: _tensors(folder, name, told) for name in told.files}
            return told.key, classifier, tensors
        except StateError:  # perhaps another process has replaced the model meanwhile
            if attempt == TRIES - 1 or manifest.read(folder) == told:
                raise
    raise AssertionError


def _tensors(folder: Path, name: str, told: Manifest) -> Mapping[str, Tensor]:
    """The tensors of a file, or of the one that waits to be called so."""
    waiting = _waiting(folder, name, told.files[name])
    path = waiting if waiting.exists() else folder / name
    content = files.read(path, _room())
    told.check(name, content, path)
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
    key, told, tensors = opened(folder)
    weights, memory = tensors[MODEL], tensors.get(MEMORY)
    _check_module(folder, told, net)
    try:
        course = _course(told, net, custom)
        course.key = key
        course.lacking = memory is None and not empty_memory
        restore(course, told.groups, weights, memory)
    except LinsepError as error:
        reason = f"does not fit this {told.handed_in}" if net else "holds no model that can be used"
        raise StateError(f"{folder} {reason}: {error}") from None
    return course


def _course(told: Classifier, net: nn.Module | None, custom: Sequence[str]) -> Course:
    """The course without its learner."""
    same = ("params", "labels", "announced", "feature_names", "handed_in")
    more: dict[str, Any] = {name: getattr(told, name) for name in same}
    more["history"] = [entry.model_dump() for entry in told.history]
    return Course(told.resolved(custom), _augment(told.augment), told.shape, module=net, **more)


def _check_module(folder: Path, told: Classifier, net: nn.Module | None) -> None:
    """A net that was handed in is handed in again, and no other is."""
    if told.handed_in is not None and net is None:
        raise StateError(
            f"{folder} was made with a module of yours, {told.handed_in}, whose code is not in it; "
            "in Python, IncrementalClassifier.load(folder, net=module) reads it"
        )
    if told.handed_in is None and net is not None:
        raise ConfigError(f"net: {folder} was made with a net that it knows by name; leave it out")
    if net is not None and not isinstance(net, nn.Module):
        raise ConfigError(f"net: should be the module it was made with, not {type(net).__name__}")


def _augment(told: Augmentation) -> Augment:
    fields = told.model_dump()
    return Columns(**fields) if fields.pop("columns") else Augment(**fields)
