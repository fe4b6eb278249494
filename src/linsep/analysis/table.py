"""An analysis of many runs as a table: a row for each arm and place, over its seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..compare.arms import Arm
from ..compare.statistics import mean, std
from ..compare.tables import Spread, Table, Value
from .kinds import Content, find


def table(name: str, arms: Sequence[Arm], found: Mapping[Path, Content]) -> Table:
    """The table of one analysis; `found` is by the runs' folders."""
    kind = find(name)
    several = any(arm.block for arm in arms)
    rows: list[list[Value]] = []
    columns: list[str] = []
    for arm in arms:
        by_place: dict[tuple[Value, ...], list[Mapping[str, float | None]]] = {}
        contents = [found[r.folder] for r in arm.runs.values() if r.folder in found]
        for content in contents:
            for place, numbers in kind.rows(content):
                by_place.setdefault(place, []).append(numbers)
        for place, seeds in by_place.items():
            columns = columns or list(seeds[0])
            start: list[Value] = [arm.place] if several else []
            cells = [_spread([one.get(column) for one in seeds]) for column in columns]
            rows.append([*start, arm.title, *place, len(seeds), *cells])
    head = ["runs of"] if several else []
    return Table([*head, "method", *kind.places, "seeds", *columns], rows, caption=kind.title)


def _spread(values: Sequence[float | None]) -> Value:
    known = [v for v in values if v is not None]
    if not known:
        return None
    return Spread(mean(known), std(known)) if len(known) > 1 else known[0]
