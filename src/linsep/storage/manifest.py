"""manifest.json: what a folder of linsep's holds, be it a run's, a classifier's or in a bundle.

    key, files     what identifies it, and the size and digest of each file as it was written
    environments   versions and hardware, one entry for every time that the run was started
    origin         the bundle that a run was added from, if it was made elsewhere
    previous       the states of a classifier that can be gone back to, the newest last
    lesson         the task that a classifier is learning, or was when it was interrupted
    classifier     what a saved classifier is, in plain values

What follows from other fields is not stored. This module imports no torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, NotRequired

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    model_validator,
    with_config,
)
from typing_extensions import TypedDict

from .. import __version__
from ..errors import StateError, printable
from . import files

if TYPE_CHECKING:
    from ..settings.config import Config

NAME, MODEL, MEMORY = "manifest.json", "model.safetensors", "memory.safetensors"
PREVIOUS = "previous"  # a folder with a folder for each state of a classifier before the present
LARGEST = 16 * 2**20  # bytes of a manifest
MOST_SIDE = 2**15  # of a stored image
MOST_READ = 1024  # side that a net reads, unless images are stored larger
FLOAT32 = 1e39  # no float32 is larger; losses and settings may grow to it
DEEPEST = 20  # tables and lists within each other in a config

Text = Annotated[str, Field(max_length=10_000), AfterValidator(printable)]
Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e18, le=1e18)]
Place = Annotated[int, Field(ge=0, le=10**9)]
Label = (
    bool
    | Annotated[int, Field(ge=-(2**63), lt=2**63)]
    | Number
    | Annotated[str, Field(max_length=10_000)]
)
Share = Annotated[float, Field(ge=0, le=1)] | None
Positive = Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)]
Side = Annotated[int, Field(ge=1, le=MOST_SIDE)]
Size = Annotated[int, Field(ge=1, le=10**8)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
_BREAK = re.compile(r"\n *")
_ROW = re.compile(r"\[\n *([^\[\]{}]*)\n *\]")  # of numbers and texts alone


def plain(value: Any, depth: int = 0) -> Any:
    """Text made printable; refuses what no setting is: dates, huge numbers, deep nesting."""
    if depth > DEEPEST:
        raise ValueError(f"should not be nested more than {DEEPEST} deep")
    if isinstance(value, Mapping):
        return {printable(str(name)): plain(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner, depth + 1) for inner in value]
    if isinstance(value, str):
        return printable(value)
    most = FLOAT32 if isinstance(value, float) else 2**63
    if value is not None and not (isinstance(value, int | float) and abs(value) < most):
        raise ValueError("should be text, true or false, or a number of at most 63 bits")
    return value


def to_json(content: Any) -> bytes:
    """As people read it: a row of a matrix is a line."""
    return _rows_as_lines(json.dumps(content, indent=1))


def _rows_as_lines(text: str) -> bytes:
    """JSON with each innermost list on one line; texts in JSON have no line breaks."""
    return _ROW.sub(lambda row: "[" + _BREAK.sub(" ", row[1]) + "]", text).encode() + b"\n"


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Params(_Strict):
    """The parameters of an `IncrementalClassifier`; the limits of most are those of the config."""

    method: str | None = None
    net: str | None = None
    train: Literal["head", "all"] | None = None
    memory: int | None = None
    epochs: int = 20
    batch_size: int = 32
    lr: float | None = None
    image_size: Side | None = None
    test_share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    keep: Annotated[int, Field(ge=0, le=100)] = 3
    like: str | None = None
    settings: dict[str, Any] | None = None
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    random_state: Annotated[int, Field(ge=0, lt=2**32)] | None = 0


class Augmentation(_Strict):
    """The fields of an `Augment`, and whether it is one of columns."""

    columns: bool
    size: tuple[Size, Size]
    mean: tuple[Number, ...]
    std: tuple[Positive, ...]
    pad: Annotated[int, Field(ge=0, le=MOST_SIDE)]
    flip: bool
    resized: bool
    cut: tuple[Side, Side] | None
    still: bool


class Change(_Strict):
    before: Share
    after: Share


class OfGroup(Change):
    classes: list[Label]


class Entry(_Strict):
    """One lesson: when it ended, and what `report_` said after it."""

    when: Text
    images: Place
    new: list[Label]
    groups: list[OfGroup]
    forgotten: Annotated[float, Field(ge=-1, le=1)] | None
    ece: Change
    temperature: Positive


class Changed(_Strict):
    """A change of mind: when, what, and the digests of the images that it concerned."""

    when: Text
    kind: Literal["forget", "rename", "merge", "relabel"]
    what: Text
    images: list[Digest] = []


class Classifier(_Strict):
    """What a saved classifier is; its tensors are in files beside the manifest."""

    params: Params
    config: Annotated[dict[str, Any], AfterValidator(plain)]
    labels: Annotated[list[Label], Field(min_length=1, max_length=1_000_000)]  # of the columns
    announced: bool
    shape: tuple[Size, ...]  # of an image, (channels, height, width), or a row of a table, (d,)
    augment: Augmentation
    handed_in: Text | None  # the class of a net that was handed in: its code is the user's
    feature_names: list[Text] | None  # of a table
    history: list[Entry]
    changes: list[Changed] = []

    @model_validator(mode="after")
    def _consistent(self) -> Classifier:
        texts = sum(isinstance(label, str) for label in self.labels)
        if len(set(self.labels)) != len(self.labels) or texts not in (0, len(self.labels)):
            _refuse("labels", "should be distinct, and all text or all numbers")
        if not self.history or any(len(e.groups) != i for i, e in enumerate(self.history, 1)):
            _refuse("history", "should have each lesson, with the accuracies on it and all before")
        learned = {label for group in self.history[-1].groups for label in group.classes}
        if not learned or learned - set(self.labels):
            _refuse("history", "should name classes among the labels")
        if not self.announced and learned != set(self.labels):
            _refuse("labels", "should be as many as the classes that were learned")
        if self.augment.columns:
            _fits_a_row(self.shape, self.augment)
        else:
            _fits_an_image(self.shape, self.augment)
        return self

    @property
    def table(self) -> bool:
        """Whether it reads tables of numbers and not images."""
        return self.augment.columns

    @property
    def frozen(self) -> bool:
        """Whether the backbone does not learn: what is kept of images are its features."""
        return self.settings().net.train == ("head",)

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """The columns of each lesson's classes."""
        column = {label: c for c, label in enumerate(self.labels)}
        return [tuple(column[c] for c in group.classes) for group in self.history[-1].groups]

    @property
    def learned(self) -> list[Any]:
        """The labels that were learned, in the order of their lessons."""
        return list(dict.fromkeys(c for group in self.history[-1].groups for c in group.classes))

    def settings(self) -> Config:
        """The config, checked for itself: no method or net is looked for."""
        from ..settings.config import from_settings

        return from_settings(self.config)

    def resolved(self, custom: Sequence[str] = ()) -> Config:
        """The config, checked as one that a user wrote, for a device of this machine.

        `custom` are the files, or modules, whose code may be executed if the model names it.
        """
        from ..resolve import resolve, trusted, without_weights

        found = self.settings()
        settled = {
            "compute": found.compute.model_copy(update={"device": self.params.device}),
            "custom": trusted(found, custom, "this model"),
            "net": without_weights(found.net),
        }
        return resolve(found.model_copy(update=settled))


def _fits_a_row(shape: Sequence[int], augment: Augmentation) -> None:
    """A row of a table: so many numbers."""
    numbers = len(augment.mean)
    if not numbers or shape != (numbers,):
        _refuse("shape", f"should be that of a row of {numbers} numbers")
    if len(augment.std) != numbers or augment.size != (1, numbers):
        _refuse("augment", f"should have a mean and a deviation for each of {numbers}")


def _fits_an_image(shape: Sequence[int], augment: Augmentation) -> None:
    channels, *stored = shape
    if channels not in (1, 3) or len(stored) != 2 or max(stored) > MOST_SIDE or augment.columns:
        _refuse("shape", "should be that of an image")
    if {len(augment.mean), len(augment.std)} != {channels}:
        _refuse("augment", f"should have a mean and a deviation for each of {channels}")
    cut = augment.cut or augment.size
    if any(a > b for a, b in zip(cut, stored, strict=True)) or augment.pad > max(stored):
        _refuse("augment", f"should read at most {stored[0]}x{stored[1]}")
    if max(augment.size) > max(MOST_READ, *stored):
        _refuse("augment.size", f"should be at most {MOST_READ}")


def _refuse(field: str, problem: str) -> NoReturn:
    raise StateError(f"classifier.{field}: {problem}")


class File(_Strict):
    bytes: Annotated[int, Field(ge=0, lt=2**50)]
    digest: Digest


def noted(content: bytes) -> File:
    return File(bytes=len(content), digest=files.digest(content))


@with_config(ConfigDict(strict=True, extra="allow"))
class Environment(TypedDict):
    threads: NotRequired[Annotated[int, Field(ge=1, le=1024)]]


class Origin(_Strict):
    """The bundle that a run was added from."""

    bundle: Text
    digest: Text


class Lesson(_Strict):
    """A task that a classifier is learning: what identifies it, its name, when it was begun."""

    key: Text
    about: Text
    begun: Text


class Manifest(_Strict):
    format: Literal["linsep 1"]
    linsep: Text
    key: Text | None = None  # of a run, or of the last lesson that a folder's classifier learned
    files: dict[Text, File] = {}
    environments: list[Environment] = []
    origin: Origin | None = None
    lesson: Lesson | None = None
    previous: Annotated[list[Digest], Field(max_length=100)] = []  # states to go back to
    classifier: Classifier | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Manifest:
        names = self.files.keys()
        if self.classifier and (MODEL not in names or names - {MODEL, MEMORY}):
            raise StateError(f"files: should have {MODEL}, and perhaps {MEMORY}")
        return self

    @property
    def version(self) -> str:
        """What identifies the answers of the classifier: its tensors and its description."""
        assert self.classifier is not None
        parts = [self.files[name].digest for name in sorted(self.files)]
        return files.digest("".join([*parts, self.classifier.model_dump_json()]).encode())

    def check(self, name: str, content: bytes, path: Path) -> None:
        """Refuse a file whose content is not what was noted of it."""
        if self.files.get(name, whole := noted(content)) != whole:
            raise StateError(f"{path} is damaged, or was changed: its digest does not match")

    def to_bytes(self) -> bytes:
        return _rows_as_lines(self.model_dump_json(indent=1))


_MANIFEST = TypeAdapter(Manifest)


def new(**sections: Any) -> Manifest:
    return Manifest(format="linsep 1", linsep=__version__, **sections)


def parsed(content: bytes, where: Path | str) -> Manifest:
    return files.parsed(where, content, _MANIFEST)


def read(folder: Path) -> Manifest:
    """A folder's manifest, checked; an empty one if there is none."""
    path = folder / NAME
    return parsed(files.read(path, LARGEST), path) if path.exists() else new()


def read_classifier(folder: Path) -> tuple[Manifest, Classifier]:
    """The manifest of a folder that a classifier was saved in."""
    told = read(folder)
    if told.classifier is None:
        raise StateError(f"{folder} holds no model: no {NAME} in it describes one")
    return told, told.classifier


def previous(folder: Path) -> list[Path]:
    """The folders of a classifier's previous states, the newest last; each is a model of its own"""
    there = [folder / PREVIOUS / name for name in read(folder).previous]
    return [place for place in there if (place / NAME).exists()]
