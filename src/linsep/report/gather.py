"""From run folders to what a report shows: results, events, timings, analyses, memories.

Runs stand in groups, one for each arm, and groups in blocks, which share all settings but those of
the method. Whatever a run lacks is absent, and a run that cannot be read is left out and named.

Knows files of runs as `results` and `analyse` write them. Knows nothing of drawing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ..analysis.contents import stored
from ..compare.arms import Arm, Comparison, Fields, compare, spelled
from ..errors import ConfigError, StateError
from ..storage.folder import STATES, RunFolder
from ..storage.store import Record
from . import style

Matrix = list[list[float | None]]
T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """One finished run and the files in its folder, each read when it is asked for."""

    record: Record
    results: Mapping[str, Any]

    @property
    def files(self) -> RunFolder:
        return RunFolder(self.record.folder)

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def seed(self) -> int:
        return int(str(self.record.facts["seed"]))

    @property
    def classes(self) -> list[str]:
        return [str(name) for name in self.results.get("classes", ())]

    @property
    def tasks(self) -> list[list[int]]:
        """The classes of each task."""
        return [list(group) for group in self.results.get("groups", ())]

    def matrix(self, setting: str) -> Matrix | None:
        """Shares: row = after task t, column = on task i; None where nothing was measured."""
        found = self.results.get("matrices", {}).get(setting)
        return found if found else None

    @property
    def confusion(self) -> list[list[int]] | None:
        found = self.results.get("confusion")
        return found if found else None

    @cached_property
    def events(self) -> Sequence[Mapping[str, Any]]:
        return _or_none(self.files.events)

    @cached_property
    def timing(self) -> Sequence[Mapping[str, Any]]:
        return _or_none(self.files.timing)

    @cached_property
    def environments(self) -> Sequence[Mapping[str, Any]]:
        return _or_none(self.files.environments)

    @cached_property
    def config(self) -> str:
        """As it was resolved, in TOML."""
        return self.files.config_text()

    @cached_property
    def settings(self) -> dict[str, Any]:
        return self.files.config()

    def analysis(self, what: str) -> dict[str, Any] | None:
        return stored(self.record.folder, what)

    def memory(self) -> Memory | None:
        """What the learner kept, from its last state; None if there is none, or it is damaged."""
        if not self.files.has(STATES[0]):
            return None
        from ..storage.files import unseal

        try:
            table = unseal(self.record.folder / STATES[0])["run"]["learner"]["memory"]
            labels, images = table["y"].tolist(), table["x"].numpy()
        except (StateError, KeyError, TypeError, AttributeError):
            return None
        return Memory(labels, images) if labels else None


@dataclass(frozen=True, eq=False)
class Memory:
    labels: list[int]
    images: Any  # numpy uint8 (n, c, h, w)


@dataclass(frozen=True)
class Group:
    """One arm's runs, by seed, and how it is called and drawn."""

    arm: Arm
    runs: Sequence[Run]
    look: style.Look

    @property
    def label(self) -> str:
        return style.arm_label(self.arm.method, spelled(self.arm.options))

    @property
    def slug(self) -> str:
        return style.slug(self.arm.label)

    def matrices(self, setting: str) -> list[Matrix]:
        return [m for run in self.runs if (m := run.matrix(setting)) is not None]

    def analyses(self, what: str) -> list[dict[str, Any]]:
        """Of all seeds that were analysed with the first one's settings: others are no seeds."""
        found = [one for run in self.runs if (one := run.analysis(what)) is not None]
        return [one for one in found if one.get("settings") == found[0].get("settings")]


@dataclass(frozen=True)
class Block:
    """Groups that may be drawn in one figure."""

    settings: Fields
    groups: Sequence[Group]

    @property
    def title(self) -> str:
        return spelled(self.settings)

    @property
    def slug(self) -> str:
        return style.slug(self.title)


@dataclass(frozen=True)
class Gathered:
    comparison: Comparison
    blocks: Sequence[Block]
    left_out: Sequence[tuple[str, str]]  # a run's name, and why

    @property
    def groups(self) -> list[Group]:
        return [group for block in self.blocks for group in block.groups]

    @property
    def runs(self) -> list[Run]:
        return [run for group in self.groups for run in group.runs]


def gather(records: Iterable[Record]) -> Gathered:
    """Finished runs in blocks and groups; ConfigError if none is finished."""
    given = {record.folder: record for record in records}.values()
    runs: dict[Path, Run] = {}
    left_out = []
    for record in given:
        if record.finished:
            try:
                runs[record.folder] = Run(record, RunFolder(record.folder).results())
            except StateError as error:
                left_out.append((record.name, f"damaged: {error}"))
        else:
            state, progress = record.facts["status"], record.facts.get("progress")
            left_out.append((record.name, f"{state}: {progress}" if progress else str(state)))
    if not runs:
        named = f": {left_out[0][0]} is {left_out[0][1]}" if len(left_out) == 1 else ""
        raise ConfigError(
            f"nothing to report: no finished run among the {len(left_out)} asked for{named}"
        )
    comparison = compare(run.record for run in runs.values())
    looks = style.looks([(arm.method, arm.label) for arm in comparison.arms])
    blocks: dict[Fields, list[Group]] = {}
    for arm in comparison.arms:
        members = [runs[arm.runs[seed].folder] for seed in sorted(arm.runs)]
        look = looks[arm.method, arm.label]
        blocks.setdefault(arm.block, []).append(Group(arm, members, look))
    found = [Block(settings, groups) for settings, groups in blocks.items()]
    return Gathered(comparison, found, left_out)


def _or_none(read: Callable[[], Sequence[T]]) -> Sequence[T]:
    """What a file holds; nothing, and a warning, if it is damaged."""
    try:
        return read()
    except StateError as error:
        warnings.warn(f"left out: {error}", stacklevel=2)
        return []
