"""The runs that a command is about: by name, by condition, of a grid, or all in a folder."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError, StateError

if TYPE_CHECKING:
    from ..storage.store import Record


def selected(
    named: Sequence[Path] | None,
    where: str | None,
    runs: Path,
    grid: str | None = None,
    finished: bool = False,
) -> list[Record]:
    """At least one run; `finished` leaves out the others. Of a grid, those that were begun."""
    from ..settings.layers import read_config
    from ..storage.folder import RunFolder
    from ..storage.store import Store, open_record

    if grid and (named or where):
        raise ConfigError("name runs, or give --where, or --grid: one of them")
    if named and where:
        raise ConfigError("name runs or give --where, not both")
    if named:
        found = [open_record(one, runs) for one in named]
    elif grid:
        from ..grids.plan import plan

        settings = {name: v for name, v in read_config(grid).items() if name != "search"}
        folders = [cell.folder for cell in plan(settings, runs, here=False)]
        found = [open_record(folder, runs) for folder in folders if RunFolder(folder).exists]
    else:
        found = Store(runs).select(where)
    wanted = [record for record in found if record.finished or not finished]
    damaged = [f"{r.name}: {r['progress']}" for r in found if r["status"] == "damaged"]
    if not wanted:
        condition = f" with {where}" if where else f" of {grid}" if grid else ""
        reason = f"; {damaged[0]}" if damaged else ""
        raise StateError(f"there are no {'finished ' * finished}runs{condition} in {runs}{reason}")
    for text in damaged if finished else ():
        warnings.warn(f"left out: {text}", stacklevel=2)
    return wanted
