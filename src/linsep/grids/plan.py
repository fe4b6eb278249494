"""The runs of a grid: every combination of lists over fields, each run once.

A grid may have parts: tables that each go over the rest of its settings, with lists of their own.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError, LinsepError, StateError, unknown
from ..prepare import Prepared, prepare
from ..settings.config import from_settings, nest_options
from ..settings.layers import flat, full_name, merged, parsed, short_name, split
from ..storage.folder import RunFolder
from .worker import Report, Status

MOST = 100_000  # runs of one grid
JUDGED = 0.02  # share of a run from which its pace is known
LISTED = 5  # methods in a line


def in_parts(settings: Mapping[str, Any], names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The grids that a file with [[parts]] stands for: those with these names, or all."""
    whole = {name: value for name, value in settings.items() if name != "parts"}
    parts = settings.get("parts", [{}])
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
        raise ConfigError("parts: should be tables, each under a line [[parts]]")
    known = [str(part["part"]) for part in parts if "part" in part]
    for name in names:
        if name not in known:
            raise ConfigError(unknown("part of this grid", name, known))
    chosen = [part for part in parts if not names or part.get("part") in names]
    return [merged(whole, {k: v for k, v in part.items() if k != "part"}) for part in chosen]


def expand(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the lists under `over`, the first list varying slowest."""
    fixed = {k: v for k, v in settings.items() if k != "over"}
    lists = flat(settings.get("over", {}))
    for name, values in lists.items():
        if not isinstance(values, list) or not values:
            raise ConfigError(f"over.{name}: should be a list of values, not {values!r}")
    count = math.prod(map(len, lists.values()))
    if count > MOST:
        raise ConfigError(f"over: {count} combinations; a grid has at most {MOST}")
    found, methods = [], lists.get("method", ())
    for combination in itertools.product(*lists.values()):
        chosen = dict(zip(lists, combination, strict=True))
        found.append(nest_options(merged(fixed, chosen), methods))
    return found


def over(text: str) -> tuple[str, list[Any]]:
    """'seed=0..4' -> ('seed', [0, 1, 2, 3, 4]); 'method=er,er+bfp' -> ('method', [...])."""
    name, values = split(text, "--over", "seed=0..4 or method=er,derpp")
    if ends := re.fullmatch(r"([0-9]{1,18})\.\.([0-9]{1,18})", values):
        first, last = map(int, ends.groups())
        if not 0 <= last - first < MOST:
            raise ConfigError(f"--over {text!r}: should name 1 to {MOST} values")
        return name, list(range(first, last + 1))
    return name, [parsed(value) for value in values.split(",")]


@dataclass(eq=False)
class Cell:
    """One run of a grid, and the last report on it."""

    settings: dict[str, Any]
    name: str
    folder: Path
    report: Report = field(default_factory=Report)
    begun: bool = False  # before this grid, and not finished
    prepared: Prepared | None = None  # unless it is impossible

    @property
    def status(self) -> Status:
        return self.report.status

    @property
    def reason(self) -> str:
        return self.report.reason

    @property
    def training(self) -> dict[str, Any]:
        """The training settings as they are resolved: {"training.lr": 0.1, ...}."""
        given = self.prepared and self.prepared.config.training.model_dump(mode="json")
        return flat({"training": given}) if given else {}

    @property
    def open(self) -> bool:
        """Whether the run may still finish."""
        return self.status in ("waiting", "running", "elsewhere")


def done(folder: Path, report: Report) -> Report:
    """The report on a finished run, with the seconds that its folder has on record, if any."""
    seconds = 0.0
    with suppress(StateError):
        seconds = sum(entry["seconds"] for entry in RunFolder(folder).timing())
    return replace(report, status="done", share=1.0, seconds=seconds or report.seconds)


def plan(
    settings: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    runs: Path,
    *,
    here: bool = True,
    also: Sequence[Path] = (),
) -> list[Cell]:
    """The runs of a grid, or of several, each marked as finished, begun, new or impossible.

    A run that is finished in one of the folders `also`, to which nothing is written, counts as
    finished. Raises the first mistake if no run is possible. Unless the runs are to be made `here`,
    a device need not be there.
    """
    opened: dict[str, Any] = {}
    cells: dict[str, Cell] = {}
    wrong: list[LinsepError] = []
    several = in_parts(settings) if isinstance(settings, Mapping) else settings
    combinations = [(one, grid) for grid in several for one in expand(grid)]
    for number, (combination, grid) in enumerate(combinations):
        try:
            cell = _cell(combination, (runs, *also), here, opened)
        except LinsepError as error:
            wrong.append(error)
            name = _spelled(combination, grid) or f"combination {number + 1}"
            cell = Cell(combination, name, runs / f"invalid {number}")
            cell.report = Report("failed", str(error))
        cells.setdefault(cell.name, cell)
    if len(wrong) == len(combinations):
        same = len({str(error) for error in wrong}) == 1
        first = str(wrong[0]) if same else f"{next(iter(cells))}: {wrong[0]}"
        raise type(wrong[0])(first)
    return list(cells.values())


def time_left(cells: Sequence[Cell], at_once: int) -> float | None:
    """Seconds left at the pace of the finished runs, or else of the running ones; None: unknown."""
    reports = [cell.report for cell in cells]
    timed = [report.seconds for report in reports if report.status == "done" and report.seconds]
    running = [(r.seconds, r.share - r.resumed) for r in reports if r.status == "running"]
    timed = timed or [seconds / share for seconds, share in running if share > JUDGED]
    if not timed:
        return None
    rest = [1 - cell.report.share for cell in cells if cell.open]
    return sum(rest) * sum(timed) / len(timed) / max(1, min(at_once, len(rest)))


def _cell(
    settings: dict[str, Any], places: Sequence[Path], here: bool, opened: dict[str, Any]
) -> Cell:
    """One run: in the first of the places, or in another one if it is finished there."""
    prepared = prepare(from_settings(settings), lenient=True, here=here, opened=opened)
    device = prepared.config.compute.device
    # Written out, since "auto" might be another one where the run is done, and so another run.
    settings = merged(settings, {"compute": {"device": device}}, prepared.pinned())
    folders = [RunFolder(place / prepared.name) for place in places]
    run = next((folder for folder in folders if folder.finished), folders[0])
    cell = Cell(settings, prepared.name, run.path, prepared=prepared)
    if run.finished:
        cell.report = done(run.path, cell.report)
    else:
        cell.begun = run.begun
    return cell


def _spelled(combination: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """What tells a combination from the others: 'method=er, memory.size=5'."""
    chosen = flat(combination) | flat(combination.get("options", {}))
    names = flat(settings.get("over", {}))
    return ", ".join(f"{short_name(name)}={chosen.get(full_name(name))}" for name in names)


# --- training settings in which methods differ by default -----------------------------------------


def differing(cells: Sequence[Cell]) -> list[str]:
    """'lr differs by default: 0.1 for er, 0.03 for derpp. Give --lr to set one for all.'"""
    alike: dict[str, list[Cell]] = {}  # by all that was given, except for the method and the seed
    for cell in cells:
        if cell.training:
            alike.setdefault(repr(sorted(_given(cell).items(), key=str)), []).append(cell)
    lines: dict[str, None] = {}
    for group in alike.values():
        for name in group[0].training.keys() - _given(group[0]).keys():
            methods: dict[str, list[str]] = {}  # of each value
            for cell in group:
                method, same = cell.settings.get("method", ""), str(cell.training[name])
                listed = methods.setdefault(same, [])
                if not {method, method.partition("+")[0]} & set(listed):
                    listed.append(method)
            if len(methods) > 1:
                lines[_line(name, methods)] = None
    return sorted(lines)


def _given(cell: Cell) -> Mapping[str, Any]:
    apart = {"method", "seed", "options"}
    return flat({name: value for name, value in cell.settings.items() if name not in apart})


def _line(name: str, methods: Mapping[str, Sequence[str]]) -> str:
    short = short_name(name)
    flag = f"--set {name}=VALUE" if short == name else f"--{short.replace('_', '-')}"
    who = {v: " and ".join(some) if len(some) <= LISTED else "most" for v, some in methods.items()}
    each = ", ".join(f"{value} for {some}" for value, some in who.items())
    return f"{short} differs by default: {each}. Give {flag} to set one for all."
