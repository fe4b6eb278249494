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
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load as tensors_in
from safetensors.torch import save as safetensors_bytes
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from .. import __version__
from ..data.augment import Augment
from ..errors import LinsepError, StateError
from ..storage import files
from ..storage.folder import MODEL as WEIGHTS
from ..storage.lease import Lease
from . import manifest
from .columns import Columns
from .course import Course
from .inputs import Form
from .manifest import MEMORY, NAME, File, Manifest
from .tensors import memory_of, restore, weights_of

TRIES = 3  # of reading a model that is being replaced meanwhile


class Savable:
    """`save` and `load` for the classifier; the annotations are what it remembers."""

    course_: Course
    form_: Form
    announced_: bool
    columns_: list[Any]
    classes_: Any
    temperature_: float
    history_: list[dict[str, Any]]
    report_: dict[str, Any]

    def save(self, path: str | Path, *, memory: bool = True) -> None:
        """Write the classifier to a folder, in place of one that is there.

        With `memory=False` no image is written: such a copy predicts, and cannot learn more.
        """
        check_is_fitted(self, "temperature_")
        folder, memory = Path(path), memory and not self.course_.lacking
        if not memory and (folder / MEMORY).exists():
            raise StateError(
                f"{folder} holds the images that the classifier learns with; save the copy without "
                "memory in another folder"
            )
        with _replacing(folder):
            write(folder, self, memory)

    @classmethod
    def load(cls, path: str | Path, *, empty_memory: bool = False, own: Sequence[str] = ()) -> Self:
        """Read a classifier from a folder.

        One that was saved without its memory can predict. To let it learn all the same, and forget
        more of what it knows, ask for an empty memory. Code of yours that it was made with, a
        method or a net, is executed only if you name its file in `own`.
        """
        return restored(cls, Path(path), opened(Path(path)), empty_memory, own)


class Opened(NamedTuple):
    """A saved model's files, checked for themselves."""

    manifest: Manifest
    weights: Mapping[str, Tensor]
    memory: Mapping[str, Tensor] | None  # None: saved without


# --- writing --------------------------------------------------------------------------------------


def write(folder: Path, classifier: Savable, memory: bool) -> None:
    """Replace what a folder holds. Whoever calls it holds the folder's lease."""
    course, learner = classifier.course_, classifier.course_.learner
    assert learner is not None
    if course.module is not None or course.front is not None:
        which = "a frozen backbone" if course.front is not None else "a module handed over as `net`"
        raise StateError(f"a classifier with {which} cannot be saved; `export` writes it for use")
    parts = {WEIGHTS: _bytes(weights_of(learner))}
    if memory:
        parts[MEMORY] = _bytes(memory_of(course, learner))
    digests = {name: files.digest(content) for name, content in parts.items()}
    listed = {name: {"bytes": len(parts[name]), "digest": own} for name, own in digests.items()}
    told = manifest.written(_described(classifier) | {"files": listed})
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


def _described(classifier: Savable) -> dict[str, Any]:
    course, augment = classifier.course_, classifier.course_.augment
    names = getattr(classifier, "feature_names_in_", None)
    return {
        "format": manifest.FORMAT,
        "version": manifest.VERSION,
        "linsep": __version__,
        "params": _params(classifier, course.config.seed),
        "config": course.config.model_dump(mode="json"),
        "labels": [_plain(label) for label in classifier.columns_],
        "announced": classifier.announced_,
        "seen": list(course.seen),
        "shape": list(course.shape),
        "form": classifier.form_._asdict() | {"table": bool(classifier.form_.table)},
        "augment": asdict(augment) | {"columns": isinstance(augment, Columns)},
        "features": getattr(classifier, "n_features_in_", None),
        "feature_names": None if names is None else [str(name) for name in names],
        "temperature": classifier.temperature_,
        "groups": [list(group.classes) for group in course.tested],
        "history": classifier.history_,
    }


def _params(classifier: Any, seed: int) -> dict[str, Any]:
    params = {name: _plain(value) for name, value in classifier.get_params(deep=False).items()}
    if not isinstance(params["random_state"], int | None):  # a generator: its draw is what counts
        params["random_state"] = seed
    return params


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _bytes(tensors: Mapping[str, Tensor]) -> bytes:
    return safetensors_bytes({n: t.detach().cpu().contiguous() for n, t in tensors.items()})


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


def restored(
    cls: Any, folder: Path, found: Opened, empty_memory: bool = False, own: Sequence[str] = ()
) -> Any:
    """A classifier as it was saved; StateError names what does not fit."""
    told = found.manifest
    try:
        classifier = cls(**_known_params(cls, told))
        course = Course(
            told.resolved(own), _augment(told), (told.shape[0], told.shape[1], told.shape[2]),
            len(told.labels) if told.announced else None, tuple(told.seen),
            lacking=found.memory is None and not empty_memory,
        )  # fmt: skip
        restore(
            course, len(told.labels), told.groups, found.weights, found.memory,
            lean=course.lacking,
        )  # fmt: skip
    except LinsepError as error:
        raise StateError(f"{folder} holds no model that can be used: {error}") from None
    classifier.course_, classifier.columns_ = course, list(told.labels)
    classifier.announced_, classifier.temperature_ = told.announced, told.temperature
    classifier.form_ = Form(told.form.channels, told.form.side, told.form.table)
    known = [told.labels[c] for c in told.seen]
    classifier.classes_ = np.unique(np.asarray(known))
    classifier.history_ = [entry.model_dump() for entry in told.history]
    last = classifier.history_[-1]
    classifier.report_ = {k: v for k, v in last.items() if k not in ("when", "lesson")}
    if told.features is not None:
        classifier.n_features_in_ = told.features
    if told.feature_names is not None:
        classifier.feature_names_in_ = np.asarray(told.feature_names, dtype=object)
    return classifier


def _known_params(cls: Any, told: Manifest) -> dict[str, Any]:
    params = told.params.model_dump()
    if params.keys() != set(cls._get_param_names()):
        odd = min(params.keys() ^ set(cls._get_param_names()))
        raise StateError(f"params: {odd} is missing, or no parameter of {cls.__name__}")
    return params


def _augment(told: Manifest) -> Augment:
    a = told.augment
    size, mean, std = (a.size[0], a.size[1]), tuple(a.mean), tuple(a.std)
    kind = Columns if a.columns else Augment
    cut = None if a.cut is None else (a.cut[0], a.cut[1])
    return kind(size, mean, std, a.pad, a.flip, a.resized, cut, a.still)


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
