"""model.json: what a saved classifier is, in plain values, and the digests of its other files.

What can be derived is not stored: the form of the images, which classes were learned and the
temperature follow from the other fields. This module imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticSerializationError

from .. import __version__
from ..errors import LinsepError, StateError, printable
from ..resolve import resolve, trusted, without_weights
from ..settings.config import Config, from_settings
from ..settings.signature import problem
from ..storage import files
from ..storage.folder import MODEL as WEIGHTS
from ..storage.folder import Number, Place, Text, plain

NAME, MEMORY = "model.json", "memory.safetensors"
LARGEST = 16 * 2**20  # bytes of a model.json
MOST_SIDE = 2**15  # of a stored image
MOST_READ = 1024  # side that a net reads, unless images are stored larger

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


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Params(_Strict):
    """The parameters of an `IncrementalClassifier`; the limits of most are those of the config."""

    method: str | None = None
    net: str | None = None
    freeze: Literal["backbone"] | None = None
    memory: int = 200
    epochs: int = 20
    batch_size: int = 32
    lr: float | None = None
    image_size: Side | None = None
    holdout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    like: str | None = None
    settings: dict[str, Any] | None = None
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    random_state: Annotated[int, Field(ge=0, lt=2**32)] | None = 0


class File(_Strict):
    bytes: Annotated[int, Field(ge=8, lt=2**50)]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


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


class Front(_Strict):
    """What a backbone that does not learn reads; the rows that are learned are its features."""

    shape: tuple[Size, Size, Size]
    augment: Augmentation


class Change(_Strict):
    before: Share
    after: Share


class OfGroup(Change):
    classes: list[Label]


class Entry(_Strict):
    """One lesson: when it ended, what `report_` said after it, and the digest of what was given."""

    when: Text
    lesson: Text | None
    images: Place
    new: list[Label]
    groups: list[OfGroup]
    forgotten: Annotated[float, Field(ge=-1, le=1)] | None
    ece: Change
    temperature: Positive


class Manifest(_Strict):
    format: Literal["linsep classifier 1"]
    linsep: Text
    params: Params
    config: Annotated[dict[str, Any], AfterValidator(plain)]
    labels: Annotated[list[Label], Field(min_length=1, max_length=1_000_000)]  # of the columns
    announced: bool
    shape: tuple[Size, Size, Size]  # of a stored row: channels, height, width
    augment: Augmentation
    front: Front | None
    module: Text | None  # the class of a net that was handed in: its code is the user's
    feature_names: list[Text] | None  # of a table
    history: list[Entry]
    files: dict[str, File]

    @model_validator(mode="after")
    def _consistent(self) -> Manifest:
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
        if WEIGHTS not in self.files or self.files.keys() - {WEIGHTS, MEMORY}:
            _refuse("files", f"should have {WEIGHTS}, and perhaps {MEMORY}")
        if self.augment.columns:
            _fits_a_row(self.shape, self.augment)
        elif self.front is not None:
            _refuse("shape", "should be that of a row of features")
        else:
            _fits_an_image(self.shape, self.augment, "")
        if self.front is not None:
            _fits_an_image(self.front.shape, self.front.augment, "front.")
        return self

    @property
    def table(self) -> bool:
        """Whether it reads tables of numbers and not images."""
        return self.augment.columns and self.front is None

    @property
    def image(self) -> tuple[int, int, int]:
        """The shape of an image as the model is given it."""
        return self.shape if self.front is None else self.front.shape

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
        return from_settings(self.config)

    def resolved(self, custom: Sequence[str] = ()) -> Config:
        """The config, checked as one that a user wrote, for a device of this machine.

        `custom` are the files, or modules, whose code may be executed if the model names it.
        """
        found = self.settings()
        settled = {
            "compute": found.compute.model_copy(update={"device": self.params.device}),
            "custom": trusted(found, custom, "this model"),
            "net": without_weights(found.net),
        }
        return resolve(found.model_copy(update=settled))


_MANIFEST = TypeAdapter(Manifest)


def read(folder: Path) -> tuple[Manifest, bytes]:
    """A model's manifest, checked, and the bytes that it was read from."""
    path = folder / NAME
    if not path.exists():
        raise StateError(f"{folder} holds no model: there is no {NAME} in it")
    content = files.read(path, LARGEST)
    return files.parsed(path, content, _MANIFEST), content


def written(**fields: Any) -> bytes:
    """A manifest as bytes; StateError if a value is none that JSON keeps."""
    try:
        told = Manifest(format="linsep classifier 1", linsep=__version__, **fields)
        return told.model_dump_json(indent=1).encode() + b"\n"
    except ValidationError as error:
        raise StateError(f"the classifier cannot be saved: {problem(error)}") from None
    except (PydanticSerializationError, LinsepError) as error:
        raise StateError(f"the classifier cannot be saved: {printable(str(error))}") from None


def _fits_a_row(shape: Sequence[int], augment: Augmentation) -> None:
    """A row of a table, or of features: so many numbers, as bytes."""
    numbers = len(augment.mean)
    if not numbers or shape != (1, 1, 4 * numbers):
        _refuse("shape", f"should be that of a row of {numbers} numbers")
    if len(augment.std) != numbers or augment.size != (1, numbers):
        _refuse("augment", f"should have a mean and a deviation for each of {numbers}")


def _fits_an_image(shape: Sequence[int], augment: Augmentation, inside: str) -> None:
    channels, *stored = shape
    if channels not in (1, 3) or max(stored) > MOST_SIDE or augment.columns:
        _refuse(f"{inside}shape", "should be that of an image")
    if {len(augment.mean), len(augment.std)} != {channels}:
        _refuse(f"{inside}augment", f"should have a mean and a deviation for each of {channels}")
    cut = augment.cut or augment.size
    if any(a > b for a, b in zip(cut, stored, strict=True)) or augment.pad > max(stored):
        _refuse(f"{inside}augment", f"should read at most {stored[0]}x{stored[1]}")
    if max(augment.size) > max(MOST_READ, *stored):
        _refuse(f"{inside}augment.size", f"should be at most {MOST_READ}")


def _refuse(field: str, problem: str) -> NoReturn:
    raise StateError(f"{field}: {problem}")
