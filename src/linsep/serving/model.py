"""The model that answers: as ONNX, without torch in this process, or with torch.

A model's file, or the classifier of a folder, is read whole into memory. What it says of itself
(classes, digest, the form of its images) comes from the same bytes as its answers, so that no
answer can name the classes of another lesson.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import Any, Literal, NotRequired

import numpy as np
from numpy.typing import NDArray
from pydantic import Json, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from .. import __version__
from ..errors import StateError
from ..optional import needed
from ..settings.signature import problem
from ..storage import files
from ..storage.manifest import Label
from .conversion import LARGEST, loaded, version

Runtime = Literal["onnx", "torch"]
Rows = NDArray[np.uint8]  # (n, height, width, channels)
Answers = tuple[NDArray[Any], NDArray[Any]]  # probabilities (n, classes), novelty (n,)
INPUT = "images"  # of an exported file
CONVERTING = 600.0  # seconds that a model may take to become ONNX


@dataclass(frozen=True)
class Served:
    """A model that answers, and what it says of itself."""

    digest: str  # identifies what it answers
    classes: list[Any]  # the columns of its probabilities
    lessons: int
    learned: str  # when the last lesson ended
    method: str
    novelty: str  # how it is measured: "distance" or "energy"
    linsep: str  # the version that wrote the file, or reads the folder
    shape: tuple[int, int, int]  # of an image: channels, height, width
    runtime: Runtime
    answer: Callable[[Rows], Answers]

    @property
    def side(self) -> int | None:
        """The side of square images, which others are brought to."""
        return self.shape[1] if self.shape[1] == self.shape[2] else None


class _Told(TypedDict):
    """The metadata of an exported file."""

    model: NotRequired[str]  # the digest of a folder's model
    classes: Json[list[Label]]
    lessons: Json[int]
    learned: str
    method: str
    novelty: str
    linsep: str
    reads: Json[tuple[int, int, int]]


_TOLD = TypeAdapter(_Told)


def opened(
    path: Path,
    runtime: Runtime = "onnx",
    threads: int = 1,
    custom: Sequence[str] = (),
    stop: Event | None = None,
) -> Served:
    """The model of a folder or of a file that `linsep export` wrote; `stop` ends the waiting."""
    if not path.is_dir():
        if runtime == "torch":
            raise StateError(f"{path} is a file, which onnxruntime runs; torch needs the folder")
        content = files.read(path, LARGEST)
        return of_onnx(content, threads, str(path), files.digest(content))
    version(path)  # refuses what is no model of images before anything starts
    if runtime == "torch":
        return of_torch(path, threads, custom)
    return of_onnx(converted(path, custom, stop or Event()), threads, str(path))


# --- onnx -----------------------------------------------------------------------------------------


def of_onnx(content: bytes, threads: int, called: str, digest: str | None = None) -> Served:
    """A model from the bytes of an exported file; it may know the digest of its folder's model."""
    library = needed("onnxruntime", "serving")
    how = library.SessionOptions()
    how.intra_op_num_threads, how.inter_op_num_threads = threads, 1
    how.add_session_config_entry("session.intra_op.allow_spinning", "0")  # decoding needs the cores
    how.log_severity_level = 4
    try:
        session = library.InferenceSession(content, how, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a class for each reason, none of them public
        raise StateError(f"{called} is not an ONNX file that onnxruntime can run") from error
    told = _metadata(session.get_modelmeta().custom_metadata_map, called)

    def answer(rows: Rows) -> Answers:
        p, strange = session.run(None, {INPUT: rows})
        return p, strange

    shape, known = told.pop("reads"), told.pop("model", None)
    return Served(digest=digest or known, shape=shape, runtime="onnx", answer=answer, **told)


def _metadata(told: dict[str, str], called: str) -> Any:
    try:
        return dict(_TOLD.validate_python(told))
    except ValidationError as error:
        remedy = "make it with linsep export MODEL -o model.onnx"
        raise StateError(
            f"{called} was not exported by linsep ({problem(error)}); {remedy}"
        ) from None


def converted(folder: Path, custom: Sequence[str], stop: Event) -> bytes:
    """A folder's classifier as ONNX, made by a process of its own, which imports torch."""
    for package in ("onnx", "onnxscript"):
        if find_spec(package) is None:  # to import it takes a while, and only the child needs it
            needed(package, "serving a folder")
    with tempfile.TemporaryDirectory(prefix="linsep-") as scratch:
        made, said = Path(scratch, "model.onnx"), Path(scratch, "said.txt")
        words = [sys.executable, "-m", "linsep.serving.conversion", str(folder), str(made), *custom]
        with said.open("wb") as output:
            child = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=output
            )
            code = _awaited(child, stop)
        if code:
            lines = said.read_text("utf-8", errors="replace").strip().splitlines()
            line = lines[-1] if lines else f"the process ended with {code}"
            raise StateError(f"{folder} cannot become ONNX: {line.removeprefix('error: ')}")
        return files.read(made, LARGEST)


def _awaited(child: subprocess.Popen[bytes], stop: Event) -> int:
    """Its exit code; it is killed when this process stops, or if it takes for ever."""
    end = time.monotonic() + CONVERTING
    while child.poll() is None:
        if stop.wait(0.05) or time.monotonic() > end:
            child.kill()
    return child.wait()


# --- torch ----------------------------------------------------------------------------------------


def of_torch(folder: Path, threads: int, custom: Sequence[str]) -> Served:
    """A folder's model, answered by torch in this process."""
    import torch

    torch.set_num_threads(threads)
    digest, clf = loaded(folder, custom)

    def answer(rows: Rows) -> Answers:
        images = torch.from_numpy(rows).permute(0, 3, 1, 2).contiguous()
        return clf.predict_proba(images), clf.novelty(images)

    last, (channels, height, width) = clf.history_[-1], clf.course_.shape
    return Served(
        digest=digest, classes=clf.classes_.tolist(), lessons=len(clf.history_),
        learned=last["when"], method=clf.course_.config.method, novelty=clf.novelty_by_,
        linsep=__version__, shape=(channels, height, width), runtime="torch", answer=answer,
    )  # fmt: skip
