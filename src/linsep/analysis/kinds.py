"""What an analysis is: how it is made, the shape of what it finds, and its rows in a table.

Each module that `ANALYSES` names has an `ANALYSIS` of the class below. What was found of a run is
kept in its folder as `analysis/<name>.json`; reading it back checks every field that is used.

Imports no torch, and a module of an analysis only when there is something to do for it, so that
gathering runs that were not analysed is quick.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..compare.tables import Value
from ..errors import ConfigError, StateError, unknown
from ..storage import files
from ..storage.folder import RunFolder

if TYPE_CHECKING:
    from .features import Features

FOLDER = "analysis"
Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e18, le=1e18)]
Place = Annotated[int, Field(ge=0, le=100_000)]  # a task, an epoch or a class, counted from 0
Content = dict[str, Any]
Row = tuple[tuple[Value, ...], Mapping[str, float | None]]  # where, and what was found there


class Shape(BaseModel):
    """What must be in a file. Types are strict: a boolean is no number."""

    model_config = ConfigDict(strict=True, extra="allow")


@dataclass(frozen=True)
class Analysis:
    """`make(run, *, options)` gives content of the shape; `rows` turns it into a table's rows."""

    make: Callable[..., Content]
    shape: type[Shape]
    title: str  # of its table
    places: tuple[str, ...]  # the columns that say where a row was found
    rows: Callable[[Content], Iterable[Row]]
    lacking: Callable[[Features], str] = lambda run: ""  # why it cannot be made; "" if it can
    best: Mapping[str, Callable[[], Any]] = field(default_factory=dict)  # of options left at None

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of `make` with their defaults."""
        parameters = inspect.signature(self.make).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    def settings(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Every option with its value."""
        options = self.options
        for name in chosen:
            if name not in options:
                raise ConfigError(unknown("option", name, options))
        whole = options | dict(chosen)
        return {n: self.best[n]() if v is None and n in self.best else v for n, v in whole.items()}


def find(name: str) -> Analysis:
    found = import_module(f".{name}", __package__).ANALYSIS
    assert isinstance(found, Analysis)
    return found


def stored(folder: Path, name: str) -> Content | None:
    """Return the stored analysis of a run; None if there is none, StateError if it is damaged."""
    path = folder / FOLDER / f"{name}.json"
    if not RunFolder(folder).has(f"{FOLDER}/{name}.json"):
        return None
    try:
        content: Content = json.loads(files.read(path))
        find(name).shape.model_validate(content)
        if content.get("what") != name:
            raise ValueError(f"it is not of {name}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise StateError(f"{FOLDER}/{path.name} is damaged: {where}: {first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise StateError(f"{FOLDER}/{path.name} is damaged: {error}") from None
    return content
