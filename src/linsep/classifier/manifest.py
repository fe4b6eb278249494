"""model.json: what a saved classifier is, in plain values, and the digests of its other files.

Whatever is read is checked against a schema; what does not fit is a StateError that names the file
and the field. Knows JSON. Knows no tensor and no net.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..errors import LinsepError, StateError, printable, shortened
from ..resolve import resolve, trusted, without_weights
from ..settings.config import Config, from_settings
from ..settings.signature import problem
from ..storage import files
from ..storage.folder import MODEL as WEIGHTS
from ..storage.folder import Number, Place, Text, plain

NAME, MEMORY = "model.json", "memory.safetensors"
FORMAT, VERSION = "linsep classifier", 1
LARGEST = 16 * 2**20  # bytes of a model.json
MOST_SIDE = 2**15  # of a stored image
MOST_READ = 1024  # side that a net reads, unless images are stored larger
PARAMS = (  # of the classifier, which is not imported to look at a model
    "batch_size", "device", "epochs", "freeze", "holdout", "image_size", "like", "lr", "memory",
    "method", "net", "random_state", "settings",
)  # fmt: skip
LABELS = (bool, int, float, str)  # that JSON keeps apart

Label = (
    bool
    | Annotated[int, Field(ge=-(2**63), lt=2**63)]
    | Number
    | Annotated[str, Field(max_length=10_000)]
)
Part = Annotated[float, Field(ge=0, le=1)] | None
Positive = Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)]
Side = Annotated[int, Field(ge=1, le=MOST_SIDE)]
Sizes = Annotated[
    list[Annotated[int, Field(ge=1, le=10**8)]], Field(min_length=3, max_length=3)
]  # of a stored row: channels, height, width
Columns = Annotated[list[Place], Field(max_length=1_000_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class File(_Strict):
    bytes: Annotated[int, Field(ge=8, lt=2**50)]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class Shape(_Strict):
    """What a row of the classifier looks like; see `inputs.Form`."""

    channels: Literal[1, 3] | None
    side: Side | None
    table: bool


class Augmentation(_Strict):
    """The fields of an `Augment`, and whether it is one of columns."""

    columns: bool
    size: Annotated[list[Annotated[int, Field(ge=1, le=10**8)]], Field(min_length=2, max_length=2)]
    mean: list[Number]
    std: list[Positive]
    pad: Annotated[int, Field(ge=0, le=MOST_SIDE)]
    flip: bool
    resized: bool
    cut: Annotated[list[Side], Field(min_length=2, max_length=2)] | None = None
    still: bool = False


class Front(_Strict):
    """What a backbone that does not learn reads; the rows that are learned are its features."""

    shape: Sizes
    augment: Augmentation


class Params(BaseModel):
    """Of the parameters those that are used after loading; the config has the others' effect."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    holdout: Annotated[float, Field(ge=0, lt=1)]
    device: Literal["auto", "cpu", "cuda", "mps"]


class OfGroup(_Strict):
    classes: list[Label]
    before: Part
    after: Part


class Error(_Strict):
    before: Part
    after: Part


class Entry(_Strict):
    """One lesson: what `report_` said after it, when it ended, and the digest of what was given."""

    when: Text
    lesson: Text | None = None
    images: Place
    new: list[Label]
    groups: list[OfGroup]
    forgotten: Annotated[float, Field(ge=-1, le=1)] | None
    ece: Error
    temperature: Positive


class Manifest(_Strict):
    format: Literal["linsep classifier"]
    version: Literal[1]
    linsep: Text
    params: Params
    config: Annotated[dict[str, Any], AfterValidator(plain)]
    labels: Annotated[list[Label], Field(min_length=1, max_length=1_000_000)]  # of the columns
    announced: bool
    seen: Columns  # columns that were learned, in the order of their lessons
    shape: Sizes
    form: Shape
    augment: Augmentation
    front: Front | None = None
    module: Text | None = None  # the class of a net that was handed in: its code is the user's
    features: Annotated[int, Field(ge=1, le=10**8)] | None  # of a table
    feature_names: list[Text] | None
    temperature: Positive
    groups: list[Columns]  # classes of each lesson
    history: list[Entry]
    files: dict[str, File]

    @model_validator(mode="after")
    def _consistent(self) -> Manifest:
        if odd := sorted(self.params.model_dump().keys() ^ set(PARAMS)):
            _refuse("params", f"{odd[0]} is missing, or no parameter of a classifier")
        columns = set(range(len(self.labels)))
        if len(set(map(repr, self.labels))) != len(self.labels) or len(kinds(self.labels)) > 1:
            _refuse("labels", "should be distinct, and all text or all numbers")
        if not self.seen or len(set(self.seen)) != len(self.seen) or set(self.seen) - columns:
            _refuse("seen", f"should be columns below {len(columns)}, each once")
        if not self.announced and set(self.seen) != columns:
            _refuse("labels", "should be as many as the classes that were learned")
        if not self.history or any(len(e.groups) != i for i, e in enumerate(self.history, 1)):
            _refuse("history", "should have each lesson, with the accuracies on it and all before")
        if len(self.groups) != len(self.history) or any(set(g) - columns for g in self.groups):
            _refuse("groups", f"should be columns below {len(columns)} for each lesson")
        if WEIGHTS not in self.files or self.files.keys() - {WEIGHTS, MEMORY}:
            _refuse("files", f"should have {WEIGHTS}, and perhaps {MEMORY}")
        self._fits_the_images()
        return self

    def _fits_the_images(self) -> None:
        numbers = self.features if self.front is None else len(self.augment.mean)
        as_rows = self.form.table or self.front is not None
        if as_rows != self.augment.columns or (self.form.table and self.front is not None):
            _refuse("shape", "should be that of an image, or of a row of a table")
        if as_rows:
            _fits_a_row(self.shape, self.augment, numbers or 0)
        else:
            _fits_an_image(self.shape, self.augment, "")
        if self.front is not None:
            _fits_an_image(self.front.shape, self.front.augment, "front.")

    @property
    def image(self) -> list[int]:
        """The shape of an image as the model is given it."""
        return self.shape if self.front is None else self.front.shape

    def settings(self) -> Config:
        """The config, checked for itself: no method or net is looked for."""
        return from_settings(self.config)

    def resolved(self, own: Sequence[str] = ()) -> Config:
        """The config, checked as one that a user wrote, for a device of this machine.

        `own` are the files, or modules, whose code may be executed if the model names it.
        """
        found = self.settings()
        settled = {
            "compute": found.compute.model_copy(update={"device": self.params.device}),
            "own": trusted(found, own, "this model"),
            "net": without_weights(found.net),
        }
        return resolve(found.model_copy(update=settled))


def read(folder: Path) -> tuple[Manifest, bytes]:
    """A model's manifest, checked, and the bytes that it was read from."""
    path = folder / NAME
    if not path.exists():
        raise StateError(f"{folder} holds no model: there is no {NAME} in it")
    content = files.read(path, LARGEST)
    found = parsed(path, content)
    if found.get("format") != FORMAT:
        raise StateError(f"{path} is not a classifier of linsep")
    if found.get("version") != VERSION:
        version = shortened(found.get("version"))
        raise StateError(f"{path} is of version {version}, and this linsep reads {VERSION}")
    try:
        return Manifest.model_validate(found), content
    except ValidationError as error:
        raise StateError(f"{path}: {problem(error)}") from None
    except LinsepError as error:
        raise StateError(f"{path}: {error}") from None


def parsed(path: Path, content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise StateError(f"{path}: not JSON: {printable(reason)}") from None
    if not isinstance(found, dict):
        raise StateError(f"{path} is not a classifier of linsep")
    return found


def written(content: Mapping[str, Any]) -> bytes:
    """A manifest as bytes; StateError if a value is none that JSON keeps."""
    try:
        found = json.dumps(content, indent=1, allow_nan=False).encode() + b"\n"
        Manifest.model_validate(json.loads(found))
    except ValidationError as error:
        raise StateError(f"the classifier cannot be saved: {problem(error)}") from None
    except (TypeError, ValueError) as error:
        raise StateError(f"the classifier cannot be saved: {printable(str(error))}") from None
    return found


def check_labels(labels: Iterable[Any]) -> None:
    """Refuse a label that could not be saved, before anything is learned of it."""
    for label in labels:
        if not isinstance(label, LABELS):
            told = f"{shortened(label)}, {type(label).__name__}"
            raise StateError(f"labels: text and numbers can be saved, not {told}")
        if isinstance(label, str) and any("\ud800" <= letter <= "\udfff" for letter in label):
            raise StateError(f"the class name {label!r} is not UTF-8; rename it")


def kinds(labels: list[Any]) -> set[str]:
    """Of labels: text, or numbers."""
    return {"text" if isinstance(label, str) else "numbers" for label in labels}


def _fits_a_row(shape: list[int], augment: Augmentation, numbers: int) -> None:
    """A row of a table: so many numbers, as bytes."""
    if shape != [1, 1, 4 * numbers]:
        _refuse("shape", f"should be that of a row of {numbers} numbers")
    if {len(augment.mean), len(augment.std)} != {numbers} or augment.size != [1, numbers]:
        _refuse("augment", f"should have a mean and a deviation for each of {numbers}")


def _fits_an_image(shape: list[int], augment: Augmentation, inside: str) -> None:
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


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _refuse(field: str, problem: str) -> NoReturn:
    raise StateError(f"{field}: {problem}")
