"""Classifiers in folders: saved whole or not at all, and read without trusting a byte.

    manifest.json         what it is: labels, config, history, and the digests of the other files
    model.safetensors     what predicts: the net, and what its method remembers beside images
    memory.safetensors    the images it keeps, for replay and for testing
    previous/<digest>/    the same files of a state before the present one, to go back to

A new model's tensors are written beside the old ones first, under a name with their digest;
replacing manifest.json then makes the new model the folder's, and only after that are the files
given their usual names. So a kill leaves the old model or the new one. The manifest also names the
previous states that belong to the model, and any other is removed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
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
from ..storage.manifest import (
    MEMORY,
    MODEL,
    NAME,
    PREVIOUS,
    Augmentation,
    Changed,
    Classifier,
    File,
    Lesson,
    Manifest,
    noted,
)
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
    """Replace what a folder holds, and keep that as a previous state, as many as the model keeps.

    If something was forgotten, every previous state is removed instead: it knows it still. Whoever
    calls it holds the folder's lease.
    """
    learner = course.learner
    assert learner is not None
    settle(folder)
    before = _plain(manifest.read(folder))
    parts = {MODEL: files.tensor_bytes(weights_of(learner))}
    if memory:
        parts[MEMORY] = files.tensor_bytes(memory_of(course, learner))
    each = {name: noted(content) for name, content in parts.items()}
    purge = _forgets(course, before)
    told = _manifest(course, each, [] if purge else before.previous)
    if before.classifier and not purge and told != before.to_bytes():
        told = _manifest(course, each, _with_present(folder, before, course.params.keep))
    for name, content in parts.items():
        files.write(_waiting(folder, name, each[name]), content)
    files.write(folder / NAME, told)
    settle(folder)


def _manifest(course: Course, parts: dict[str, File], previous: Sequence[str]) -> bytes:
    """The manifest of a folder with this classifier; StateError if a value is none for JSON."""
    described = {name: getattr(course, name) for name in Classifier.model_fields} | {
        "config": course.config.model_dump(mode="json"),
        "augment": _described(course.augment),
    }
    try:
        sections = {"files": parts, "previous": list(previous), "classifier": described}
        return manifest.new(key=course.key, **sections).to_bytes()
    except ValidationError as error:
        raise StateError(f"the classifier cannot be saved: {problem(error)}") from None
    except (PydanticSerializationError, LinsepError) as error:
        raise StateError(f"the classifier cannot be saved: {printable(str(error))}") from None


def settle(folder: Path) -> None:
    """Give the files that the manifest names their names, and remove what it does not name.

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
        if (folder / PREVIOUS).is_symlink():  # a stranger's: it may lead to anybody's files
            raise StateError(f"{folder / PREVIOUS} is a symbolic link; remove it")
        for stray in (folder / PREVIOUS).glob("*"):
            if stray.is_symlink() or not stray.is_dir():
                stray.unlink()
            elif stray.name not in told.previous:
                shutil.rmtree(stray)
        with suppress(OSError):  # other states are in it, or there is none
            (folder / PREVIOUS).rmdir()
        files.sync_folder(folder)


def _described(augment: Augment) -> dict[str, Any]:
    return asdict(augment) | {"columns": isinstance(augment, Columns)}


def _waiting(folder: Path, name: str, file: File) -> Path:
    return folder / f"{name}.{file.digest}.new"


def check_no_run(folder: Path) -> None:
    if (folder / CONFIG).exists():
        raise StateError(f"{folder} holds a run; give the model a folder of its own")


# --- previous states ------------------------------------------------------------------------------


def _plain(told: Manifest) -> Manifest:
    """A manifest without the lesson under way: what the folder held before that."""
    return told.model_copy(update={"lesson": None, "environments": []})


def _forgets(course: Course, before: Manifest) -> bool:
    """Whether the course has forgotten something that is in the folder."""
    known = before.classifier.changes if before.classifier else []
    new = [Changed(**change) for change in course.changes]
    return any(change.kind == "forget" and change not in known for change in new)


def _with_present(folder: Path, told: Manifest, keep: int) -> list[str]:
    """Keep the present state beside the model; the names of the newest states, the last one last"""
    if not keep:
        return []
    content = told.to_bytes()
    place = folder / PREVIOUS / files.digest(content)
    part = place.with_name(f".{place.name}.tmp")
    with files.reporting(f"cannot write {place}"):
        for stray in (part, place):  # of a process that was killed
            shutil.rmtree(stray, ignore_errors=True)
        part.mkdir(parents=True)
        for name in told.files:
            files.link(folder / name, part / name)
        files.write(part / NAME, content)
        part.replace(place)
        files.sync_folder(place.parent)
    return [*told.previous, place.name][-keep:]


def undo(folder: Path) -> Manifest:
    """Put the newest previous state in the present one's place, bit for bit."""
    with files.reporting(f"cannot use {folder}"):
        manifest.read_classifier(folder)
        with Lease(folder):
            _check_changeable(folder)
            if not (kept := manifest.previous(folder)):
                raise StateError(f"{folder} keeps no previous state: there is nothing to undo")
            place, content = kept[-1], files.read(kept[-1] / NAME, manifest.LARGEST)
            told = manifest.parsed(content, place / NAME)
            if files.digest(content) != place.name:
                raise StateError(f"{place} is damaged, or was changed: its digest does not match")
            for name, file in told.files.items():
                told.check(name, files.read(place / name, _room()), place / name)
                files.link(place / name, _waiting(folder, name, file))
            files.write(folder / NAME, content)
            settle(folder)
    return told


def change(
    folder: Path,
    what: Callable[[Course], Course],
    *,
    custom: Sequence[str] = (),
) -> Course:
    """Change the model in a folder, which nobody else may do at the same time."""
    with files.reporting(f"cannot use {folder}"):
        manifest.read_classifier(folder)
        with Lease(folder) as lease:
            _check_changeable(folder)
            course = what(load(folder, custom=custom))
            lease.check()
            write(folder, course, memory=not course.lacking)
    return course


def _check_changeable(folder: Path) -> None:
    """Refuse to change a model in the middle of a lesson."""
    check_no_run(folder)
    settle(folder)
    if under_way := manifest.read(folder).lesson:
        raise StateError(interrupted(folder, under_way))


def interrupted(folder: Path, lesson: Lesson) -> str:
    return (
        f"{folder} is in the middle of learning {lesson.about}, begun {lesson.begun}; repeat that "
        "command to finish it, or add --discard to drop it"
    )


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
    for name in ("history", "changes"):
        more[name] = [entry.model_dump() for entry in getattr(told, name)]
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
