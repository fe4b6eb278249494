"""Which runs a grid is made of: every combination of lists over fields, each run once.

Knows settings and what lies in the runs' folder. Knows nothing of how runs are done.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError, LinsepError, StateError
from ..prepare import gathered, prepare
from ..settings.config import Config, from_settings
from ..settings.layers import assignment, merged, nested
from ..settings.names import SHORT
from ..storage.folder import RunFolder


def expand(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the lists under `over`, the first list varying slowest."""
    fixed = {k: v for k, v in settings.items() if k != "over"}
    over = flat(settings.get("over", {}))
    for name, values in over.items():
        if not isinstance(values, list) or not values:
            raise ConfigError(f"over.{name}: should be a list of values, not {values!r}")
    found = []
    for combination in itertools.product(*over.values()):
        chosen = [nested(name, value) for name, value in zip(over, combination, strict=True)]
        found.append(gathered(merged(fixed, *chosen)))
    return found


def over(text: str) -> tuple[str, list[Any]]:
    """'seed=0..4' -> ('seed', [0, 1, 2, 3, 4]); 'method=er,er+bfp' -> ('method', [...])."""
    name, equals, values = text.partition("=")
    if not equals or not name.strip() or not values.strip():
        raise ConfigError(f"--over {text!r}: should look like seed=0..4 or method=er,derpp")
    first, dots, last = values.strip().partition("..")
    if dots and first.isdigit() and last.isdigit():
        if int(last) < int(first):
            raise ConfigError(f"--over {text!r}: {last} is less than {first}")
        return name.strip(), list(range(int(first), int(last) + 1))
    return name.strip(), [assignment(f"v={v}")["v"] for v in values.split(",")]


@dataclass(eq=False)
class Cell:
    """One run of a grid."""

    settings: dict[str, Any]
    name: str
    folder: Path
    status: str = "waiting"  # queued, running, done, failed, stopped, elsewhere
    reason: str = ""
    begun: bool = False  # before this grid, and not finished
    device: str = "cpu"
    share: float = 0.0  # of its steps
    rate: float = 0.0  # images a second
    seconds: float = 0.0  # that it took, all in all, once it is done
    tries: int = 0  # in a row that brought nothing
    reached: float = 0.0  # share of its steps from which it last went on
    again: float = 0.0  # when to look again whether another process has let go of it


def plan(
    settings: Mapping[str, Any] | Sequence[Mapping[str, Any]], runs: Path, *, here: bool = True
) -> list[Cell]:
    """The runs of a grid, or of several; which are finished and which cannot be is marked.

    Raises what is wrong if no run can be. Unless they are to be done `here`, a device that is asked
    for is believed in.
    """
    opened: dict[str, Any] = {}
    cells: dict[str, Cell] = {}
    wrong: list[LinsepError] = []
    several = [settings] if isinstance(settings, Mapping) else settings
    combinations = [(one, grid) for grid in several for one in expand(grid)]
    for number, (combination, grid) in enumerate(combinations):
        one_thread = merged({"compute": {"threads": 1}}, combination)
        try:
            cell = _cell(one_thread, runs, here, opened)
        except LinsepError as error:
            wrong.append(error)
            name = _spelled(combination, grid) or f"combination {number + 1}"
            cell = Cell(one_thread, name, runs / f"invalid {number}", "failed", str(error))
        cells.setdefault(cell.name, cell)
    if len(wrong) == len(combinations):
        same = len({str(error) for error in wrong}) == 1
        first = str(wrong[0]) if same else f"{next(iter(cells))}: {wrong[0]}"
        raise type(wrong[0])(first)
    return list(cells.values())


def seconds_taken(folder: Path) -> float:
    """By a run, over all its sessions, as far as it has recorded them."""
    try:
        return sum(entry["seconds"] for entry in RunFolder(folder).timing())
    except StateError:
        return 0.0


def time_left(cells: Sequence[Cell], at_once: int) -> float | None:
    """Seconds, if the rest takes as long as what is done took; None before there is anything."""
    timed = [cell.seconds for cell in cells if cell.status == "done" and cell.seconds]
    if not timed:
        return None
    open_ = [c for c in cells if c.status in ("waiting", "queued", "running", "elsewhere")]
    rest = sum(1 - cell.share for cell in open_) * sum(timed) / len(timed)
    return rest / max(1, min(at_once, len(open_)))


def flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"training": {"lr": 1}} -> {"training.lr": 1}."""
    found: dict[str, Any] = {}
    for name, value in nested.items():
        inner = isinstance(value, Mapping)
        found |= flat(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value}
    return found


def _cell(settings: dict[str, Any], runs: Path, here: bool, opened: dict[str, Any]) -> Cell:
    config: Config = from_settings(settings)
    prepared = prepare(config, lenient=True, here=here, opened=opened)
    device = prepared.config.compute.device
    # Said outright, since "auto" might be another one where the run is done, and so another run.
    cell = Cell(
        merged(settings, {"compute": {"device": device}}), prepared.name, runs / prepared.name
    )
    cell.device = device
    run = RunFolder(cell.folder)
    if run.finished:
        cell.status, cell.share, cell.seconds = "done", 1.0, seconds_taken(cell.folder)
    else:
        cell.begun = run.begun
    return cell


def _spelled(combination: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """What tells a combination from the others: 'method=er, memory.rows=5'."""
    chosen = flat(combination) | flat(combination.get("options", {}))
    names = flat(settings.get("over", {}))
    values = {name: chosen.get(name, chosen.get(SHORT.get(name, ""))) for name in names}
    return ", ".join(f"{name}={value}" for name, value in values.items())
