"""What analyses of a run leave in its folder, `analysis/<what>.json`: its shape, and reading it.

A file that is not of this shape, cut off or made by hand, counts as not there. Knows JSON and no
torch, so that tables and reports can be made without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..errors import StateError
from ..storage.files import read

FOLDER = "analysis"
Number = Annotated[float, Field(allow_inf_nan=False)]
Place = Annotated[int, Field(ge=0, le=100_000)]  # a task, an epoch or a class, counted from 0
Point = Annotated[list[Number], Field(min_length=2, max_length=2)]
Content = dict[str, Any]


class Shape(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class SpectrumTask(Shape):
    task: Place
    classes: Place
    values: list[Number]
    effective_rank: Number
    proj_acc: dict[Literal["seen", "newest"], list[Number]]

    @model_validator(mode="after")
    def _every_k(self) -> SpectrumTask:
        for name in ("seen", "newest"):
            if len(self.proj_acc.get(name, ())) != len(self.values) + 1:
                raise ValueError(f"proj_acc {name} must have a value for k = 0 and for each of d")
        return self


class Spectrum(Shape):
    tasks: list[SpectrumTask]


class Estimates(Shape):
    centred: Number
    debiased: Number
    printed: Number


class SimilarityTask(Shape):
    task: Place
    seen: Estimates
    unseen: Estimates


class Similarity(Shape):
    tasks: list[SimilarityTask]


class Draw(Shape):
    portion: Number
    accuracy: Number
    tasks: list[Number]


class Round(Shape):
    task: Place
    probe: list[Number]
    head: list[Number]

    @model_validator(mode="after")
    def _tasks_so_far(self) -> Round:
        if not len(self.probe) == len(self.head) == self.task + 1:
            raise ValueError("a round must have an accuracy for each task so far")
        return self


class Probe(Shape):
    final: Annotated[list[Draw], Field(min_length=1)]
    head: Number
    rounds: list[Round]


class Plane(Shape):
    task: Place
    engine: str
    labels: Annotated[list[Place], Field(min_length=1)]
    new: list[Place]
    before: list[Point]
    after: list[Point]

    @model_validator(mode="after")
    def _same_images(self) -> Plane:
        if not len(self.labels) == len(self.before) == len(self.after):
            raise ValueError("there must be a point before and one after for each label")
        return self


class Projected(Shape):
    term: str
    task: Place
    stage: str | None
    epoch: Place | None
    accuracy: Number
    accuracy_before: Number
    agreement: Number
    residual: Number
    # Not of a map that is not linear.
    singular_values: list[Number] | None = None
    effective_rank: Number | None = None
    to_identity: Number | None = None
    to_orthogonal: Number | None = None


class Projection(Shape):
    places: list[Projected]


SHAPES: Mapping[str, type[Shape]] = {
    "spectrum": Spectrum,
    "cka": Similarity,
    "probe": Probe,
    "tsne": Plane,
    "projection": Projection,
}


def stored(folder: Path, what: str) -> Content | None:
    """What an analysis of the run in this folder found, if it was made and is whole."""
    try:
        found = json.loads(read(folder / FOLDER / f"{what}.json"))
        SHAPES[what].model_validate(found)
    except (StateError, ValueError, RecursionError):  # pydantic raises ValueErrors
        return None
    return found if isinstance(found, dict) and found.get("what") == what else None
