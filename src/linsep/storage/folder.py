"""A run's folder: the names of its files, and the one place that reads them.

    config.toml        the resolved config
    manifest.json      the run's key, checksums of its files, and where it was started
    events.jsonl       what happened, without clock times: equal for equal runs, byte for byte; a
                       run that is kept for the record may have it as events.jsonl.gz
    timing.jsonl       how long it took
    state.safetensors  what to resume from, and state.previous.safetensors the one before
    snapshots/         the net at the end of each task, or of the last, for analyses
    model.safetensors  the net's weights, at the end
    memory.safetensors  labels of the stored samples, and a few of the images, at the end
    cost.json          images through the networks, bytes kept and seconds, at the end
    results.json       accuracies and metrics, written last: its presence means "finished"
    lease.<n>          the process that is working on the run, if there is one

`task` in events and timings counts in the order of learning; `group` is the newest group of classes
of that task, which differs in joint training. `session` writes these files. This module imports no
torch.

A classifier's folder has a manifest and, while a task is being learned, states; its other files are
described in classifier/saved.py.
"""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from ..errors import StateError, printable
from ..learning.metrics import PROTOCOLS, REPORTED
from ..settings.signature import problem
from . import files, manifest
from .manifest import FLOAT32, MEMORY, MODEL, Number, Place, Text, plain

CONFIG, RESULTS, EVENTS, TIMING = "config.toml", "results.json", "events.jsonl", "timing.jsonl"
COST = "cost.json"
# What must be equal in two environments for runs to be equal bit for bit.
DECISIVE = ("torch", "threads", "cpu", "instructions", "onednn", "device")
COMPRESSED = {n: f"{n}.gz" for n in (EVENTS, RESULTS)}  # what may stand in for a file
PICTURED = 32  # images of the stored samples that are kept to be looked at
STATES = "state.safetensors", "state.previous.safetensors"  # the newest first

Loss = Annotated[float, Field(allow_inf_nan=False, ge=-FLOAT32, le=FLOAT32)]
Whole = Annotated[int, Field(ge=0, lt=2**63)]
Protocol = Literal["class_il", "task_il"]
_checked = with_config(ConfigDict(strict=True, extra="allow"))


@_checked
class ScenarioTable(TypedDict):
    order_seed: NotRequired[Whole]
    subset_seed: NotRequired[Whole]


@_checked
class ConfigFile(TypedDict):
    name: NotRequired[Text]
    tags: NotRequired[list[Text]]
    method: Text
    seed: Whole
    scenario: NotRequired[ScenarioTable]
    net: NotRequired[dict[str, Any]]
    training: NotRequired[dict[str, Any]]
    memory: NotRequired[dict[str, Any]]


@_checked
class EpochRecord(TypedDict):
    event: Literal["epoch_end"]
    task: Place
    stage: Text
    epoch: Place
    steps: Place
    losses: dict[Text, Loss]


@_checked
class TaskRecord(TypedDict):
    event: Literal["task_end"]
    task: Place
    group: Place
    class_il: Annotated[list[Number | None], Field(min_length=1)]  # None: no test images
    task_il: Annotated[list[Number | None], Field(min_length=1)]


@_checked
class TimingRecord(TypedDict):
    event: Literal["epoch_end", "task_end"]
    task: Place
    seconds: Number
    cpu: NotRequired[Number]  # seconds too, of all threads
    images: Place


@_checked
class ResultsFile(TypedDict):
    key: Text
    data: Text
    scenario: Text
    method: Text
    memory: Whole
    seed: Whole
    metrics: dict[Protocol, dict[Text, Number | None]]
    # What follows may be missing from a folder that was made by hand.
    classes: NotRequired[list[Text]]
    groups: NotRequired[list[list[Place]]]
    matrices: NotRequired[dict[Protocol, list[list[Number | None]]]]
    confusion: NotRequired[list[list[Place]]]
    audit: NotRequired[list[Text]]


Counted = Annotated[Number, Field(ge=0)]
Passes = dict[Literal["forward", "backward", "frozen"], Counted]


@_checked
class CostFile(TypedDict):
    compute: Counted  # as a multiple of fine-tuning's
    images: Counted  # over the run, as passes forward
    bytes: Whole
    parameters: Whole
    step: Passes
    run: Passes
    kept: dict[Text, Whole]
    seconds: NotRequired[Counted]


def _fitting(results: dict[str, Any]) -> dict[str, Any]:
    for protocol, name in product(PROTOCOLS, REPORTED):
        if name not in results["metrics"].get(protocol, ()):
            raise ValueError(f"metrics.{protocol}.{name}: Field required")
    classes, groups = len(results.get("classes", ())), results.get("groups", ())
    if any(number >= classes for group in groups for number in group):
        raise ValueError(f"groups: should name classes below {classes}")
    squares = [(f"matrices.{k}", v, len(groups)) for k, v in results.get("matrices", {}).items()]
    for name, rows, size in (*squares, ("confusion", results.get("confusion"), classes)):
        side = size or len(rows or ())  # made by hand, perhaps, without groups
        if rows is not None and {len(rows), *map(len, rows)} - {side}:
            raise ValueError(f"{name}: should have {side} rows and columns")
    return results


_CONFIG = TypeAdapter[Any](Annotated[ConfigFile, AfterValidator(plain)])
_RESULTS = TypeAdapter[Any](Annotated[ResultsFile, AfterValidator(_fitting)])
_EVENT = TypeAdapter[Any](Annotated[EpochRecord | TaskRecord, Field(discriminator="event")])
_TIMING, _COST = TypeAdapter[Any](TimingRecord), TypeAdapter[Any](CostFile)
Record = dict[str, Any]


class RunFolder:
    """The files of one run, each read and checked when it is asked for."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def exists(self) -> bool:
        return self.has(CONFIG)

    @property
    def begun(self) -> bool:
        return any(map(self.has, STATES))

    @property
    def finished(self) -> bool:
        return self.has(RESULTS)

    def has(self, name: str) -> bool:
        names = (name, COMPRESSED.get(name, name))
        return any(os.path.exists(self.path / n) for n in names)  # False without permission

    def config_text(self) -> str:
        try:
            return files.read(self.path / CONFIG).decode()
        except UnicodeDecodeError:
            raise StateError(f"{self.path / CONFIG}: not a text file") from None

    def config(self) -> dict[str, Any]:
        """The settings as nested tables."""
        where, text = str(self.path / CONFIG), self.config_text()
        try:
            return dict(_CONFIG.validate_python(tomllib.loads(text)))
        except ValidationError as error:
            raise StateError(f"{where}: {problem(error)}") from None
        except (ValueError, RecursionError) as error:
            raise StateError(f"{where}: not TOML: {printable(str(error))}") from None

    def results(self) -> Record:
        if not self.finished:
            raise StateError(f"{self.path} holds no finished run: there is no {RESULTS}")
        found, content = self._parsed(_RESULTS, RESULTS), self.content(RESULTS)
        self.manifest().check(RESULTS, content, self.path / RESULTS)
        return dict(found)

    def memory(self) -> dict[str, Any]:
        """Tensors: labels of the stored samples, a few images of them, and the labels of these."""
        path = self.path / MEMORY
        content = files.read(path)
        self.manifest().check(MEMORY, content, path)
        found = files.tensors_in(content, path)
        try:
            labels, pictured, images = (found[n] for n in ("labels", "pictured", "images"))
            kinds = [f"{t.dtype} {t.ndim}" for t in (labels, pictured)]
            fits = kinds == ["torch.int64 1"] * 2 and len(pictured) == len(images) <= PICTURED
        except (KeyError, TypeError):
            fits = False
        if not fits:
            raise StateError(f"{path}: should have labels, and some images with theirs")
        return found

    def events(self, end: int | None = None) -> list[Record]:
        """What was recorded, up to a place in the file; a line cut by a kill is no event."""
        content = self.content(EVENTS)
        if self.finished:
            self.manifest().check(EVENTS, content, self.path / EVENTS)
        return self._lines(_EVENT, EVENTS, content[:end])

    def timing(self) -> list[Record]:
        return self._lines(_TIMING, TIMING, self.content(TIMING))

    def manifest(self) -> manifest.Manifest:
        """Checksums, environments and origin; an empty one if there is no such file."""
        return manifest.read(self.path)

    def cost(self) -> Record:
        """What the run cost; nothing if it is not known."""
        return self._parsed(_COST, COST) if self.has(COST) else {}

    def progress(self, epochs: object = None) -> str:
        """How far an unfinished run has come: 'task 3, train epoch 1/2'."""
        events = self.events()
        if not events:
            return "begun" if self.has(EVENTS) else "not begun"
        last = events[-1]
        if last["event"] == "task_end":
            return f"task {last['task'] + 1} learned"
        of = f"/{epochs}" if last["stage"] == "train" and epochs else ""
        return f"task {last['task'] + 1}, {last['stage']} epoch {last['epoch'] + 1}{of}"

    def content(self, name: str) -> bytes:
        """A file as it was written; nothing if it is not there."""
        if os.path.exists(self.path / name):
            return files.read(self.path / name)
        return files.unzipped(self.path / COMPRESSED[name]) if self.has(name) else b""

    def _parsed(self, schema: TypeAdapter[Any], name: str, content: bytes | None = None) -> Any:
        return files.parsed(
            self.path / name, self.content(name) if content is None else content, schema
        )

    def _lines(self, schema: TypeAdapter[Any], name: str, content: bytes) -> list[Record]:
        lines = content.split(b"\n")[:-1]
        return [self._parsed(schema, f"{name}, line {i + 1}", line) for i, line in enumerate(lines)]


def line(record: Record) -> bytes:
    return json.dumps(record).encode() + b"\n"


def compared(first: RunFolder) -> list[str]:
    """The files of a finished run that decide whether another one equals it."""
    return [name for name in (EVENTS, RESULTS, MODEL) if first.has(name)]


def difference(first: RunFolder, second: RunFolder) -> str | None:
    """What first sets two finished runs apart; None if they are the same to the last bit."""
    here, there = first.events(), second.events()
    for number, pair in enumerate(zip(here, there, strict=False), start=1):
        if pair[0] != pair[1]:
            fields = [name for name in pair[0] if pair[0][name] != pair[1].get(name)]
            values = [event.get(fields[0]) for event in pair] if fields else ["less", "more"]
            name = fields[0] if fields else "fields"
            return f"event {number}, {pair[0]['event']}, {name}: {values[0]} and {values[1]}"
    if len(here) != len(there):
        return f"{len(here)} and {len(there)} events"
    if first.results() != second.results():
        return f"{RESULTS} differs, and no event does before it"
    if first.has(MODEL) and _digest(first.path / MODEL) != _digest(second.path / MODEL):
        return f"{MODEL} differs, and neither events nor results do"
    return None


def surroundings(first: RunFolder, second: RunFolder) -> list[str]:
    """What was different where the two were made, of that which changes the last bits."""
    ends: list[Sequence[Mapping[str, object]]]
    ends = [run.manifest().environments[-1:] for run in (first, second)]
    if not all(ends):
        return []
    (here,), (there,) = ends
    return [
        f"{name}: {here[name]} and {there[name]}"
        for name in DECISIVE
        if name in here and name in there and here[name] != there[name]
    ]


def _digest(path: Path) -> str:
    return files.digest(files.read(path, largest=None))
