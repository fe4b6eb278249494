"""What an analysis is; making one of a finished run, or reading it from the run's folder; and an
analysis of many runs as a table.

`ANALYSES` says where each `Analysis` is. What was found is kept as `analysis/<name>.json` with what
it was made from: asked for again, it is read, and made anew only if the run or the settings differ.
Reading checks every field that is used.

torch, and the module of an analysis, are imported only when there is something to do for them, so
that gathering runs that were not analysed is quick.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..compare.statistics import mean, std
from ..compare.tables import Spread, Table, Value
from ..compare.variants import Variant
from ..errors import ConfigError, StateError, unknown
from ..storage import files
from ..storage.folder import RunFolder
from . import ANALYSES

if TYPE_CHECKING:
    from .features import Features

VERSION = 1  # raise it when the same features give other results than before
FOLDER = "analysis"
DEFAULTS: Mapping[str, Any] = MappingProxyType({})
Content = dict[str, Any]
Row = tuple[tuple[Value, ...], Mapping[str, float | None]]  # where, and what was found there
# What must be in a file: {"key": shape}, [shape] for a list of any length, str, float for a finite
# number, int for a task, an epoch or a class from 0 on, and (shape, None) for what may be missing.
Shape = Any
NUMBERS = {float: (-1e18, 1e18, "a finite number"), int: (0, 100_000, "a small whole number")}


@dataclass(frozen=True)
class Analysis:
    """`make(run, *, options)` gives content of the shape; `rows` turns it into a table's rows."""

    make: Callable[..., Content]
    shape: Shape
    title: str  # of its table
    places: tuple[str, ...]  # the columns that say where a row was found
    rows: Callable[[Content], Iterable[Row]]
    lacking: Callable[[Features], str] = lambda run: ""  # why it cannot be made; "" if it can
    consistent: Callable[[Content], bool] = lambda content: True  # whether lengths go together
    note: str = ""  # what the other columns are, where their names do not say it

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of `make` with their defaults."""
        parameters = inspect.signature(self.make).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def find(name: str) -> Analysis:
    module, _, constant = ANALYSES[name].partition(":")
    found = getattr(import_module(f".{module}", __package__), constant)
    assert isinstance(found, Analysis)
    return found


def lacking(run: Features, name: str) -> str:
    """Why this analysis of the run is impossible; "" if it is possible."""
    if not run.ends:
        return (
            f"{name} needs the weights at the end of tasks, which were not kept; remove its folder "
            "and run it with --keep tasks"
        )
    return find(name).lacking(run)


def analyse(run: Features, name: str, options: Mapping[str, Any] = DEFAULTS) -> Content:
    """One analysis of a run, from its folder or made now."""
    from ..storage.resumable import threads

    kind = find(name)
    for option in options:
        if option not in kind.options:
            raise ConfigError(unknown("option", option, kind.options))
    settings = kind.options | dict(options)
    inputs = [run.prepared.key, *(f"{s.name} {s.digest}" for s in run.snapshots)]
    digest = blake2b("\n".join(inputs).encode(), digest_size=8).hexdigest()
    made_from = {"what": name, "version": VERSION, "settings": settings, "inputs": digest}
    head = json.loads(json.dumps(made_from))
    with suppress(StateError):
        kept = stored(run.folder, name) or {}
        if {key: kept.get(key) for key in head} == head:
            return kept
    if reason := lacking(run, name):
        raise StateError(f"{run.folder.name}: {reason}")
    run.say(f"{name} of {run.folder.name}")
    try:
        with threads(1):  # so that sums are the same on any number of cores
            whole: Content = head | kind.make(run, **settings)
        text = json.dumps(whole, separators=(",", ":"), allow_nan=False)
    except ValueError as error:  # features that are all alike, or not finite
        raise StateError(f"{run.folder.name}: {name} cannot be made: {error}") from None
    files.make_folder(run.folder / FOLDER)
    files.write(run.folder / FOLDER / f"{name}.json", text.encode() + b"\n")
    return whole


def stored(folder: Path, name: str) -> Content | None:
    """Return the stored analysis of a run; None if there is none, StateError if it is damaged."""
    path = f"{FOLDER}/{name}.json"
    if not RunFolder(folder).has(path):
        return None
    kind = find(name)
    try:
        content: Content = json.loads(files.read(folder / path))
        check_shape(content, kind.shape)
        if content.get("what") != name or not kind.consistent(content):
            raise ValueError(f"it is not of {name}, or its parts do not go together")
    except (ValueError, RecursionError) as error:
        raise StateError(f"{path} is damaged: {error}") from None
    return content


def check_shape(value: Any, shape: Shape, place: str = "") -> None:
    """Refuse a value of another shape, and name the place in it: 'tasks.0.rank'."""
    if isinstance(shape, tuple):
        if value is None:
            return
        shape = shape[0]
    parts: Iterable[tuple[Any, Any, Shape]] = ()
    if isinstance(shape, dict):
        fits, wanted = isinstance(value, dict), "an object"
        parts = ((key, value.get(key), part) for key, part in shape.items())
    elif isinstance(shape, list):
        fits, wanted = isinstance(value, list), "a list"
        parts = ((i, part, shape[0]) for i, part in enumerate(value)) if fits else ()
    elif shape is str:
        fits, wanted = isinstance(value, str) and value.isprintable(), "printable text"
    else:
        low, high, wanted = NUMBERS[shape]
        kinds = (int, float) if shape is float else int
        fits = isinstance(value, kinds) and not isinstance(value, bool) and low <= value <= high
    if not fits:
        raise ValueError(f"{place or 'the file'}: should be {wanted}")
    for key, part, inner in parts:
        check_shape(part, inner, f"{place}.{key}".lstrip("."))


# --- many runs -----------------------------------------------------------------------------------


def table(name: str, variants: Sequence[Variant], found: Mapping[Path, Content]) -> Table:
    """A row for each variant and place, over its seeds; `found` is by the runs' folders."""
    kind = find(name)
    several = any(variant.block for variant in variants)
    rows: list[list[Value]] = []
    columns: list[str] = []
    for variant in variants:
        by_place: dict[tuple[Value, ...], list[Mapping[str, float | None]]] = {}
        for run in variant.runs.values():
            for place, numbers in kind.rows(found[run.folder]) if run.folder in found else ():
                by_place.setdefault(place, []).append(numbers)
        for place, seeds in by_place.items():
            columns = columns or list(seeds[0])
            start: list[Value] = [variant.place] if several else []
            cells = [_spread([one.get(column) for one in seeds]) for column in columns]
            rows.append([*start, variant.title, *place, len(seeds), *cells])
    head = ["runs of"] if several else []
    return Table([*head, "method", *kind.places, "seeds", *columns], rows, caption=kind.title)


def _spread(values: Sequence[float | None]) -> Value:
    """Mean and std of what is known; a count that is the same for every seed stays a count."""
    known = [v for v in values if v is not None]
    if len(known) < 2 or (isinstance(known[0], int) and len(set(known)) == 1):
        return known[0] if known else None
    return Spread(mean(known), std(known))
