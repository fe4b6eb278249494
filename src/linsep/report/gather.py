"""From run folders to what a report shows: results, events, timings, analyses, memories.

Runs are sorted into variants, and variants into blocks, which share all settings but the method's.
What a run lacks is absent; a run or an analysis that cannot be read is left out and named.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ..analysis import ANALYSES
from ..analysis.analyse import Content, stored
from ..compare.variants import Comparison, Fields, Variant, compare, data_names, is_bound, spelled
from ..errors import ConfigError, StateError
from ..storage.folder import RunFolder
from ..storage.store import Record
from .canvas import Look, clean, looks, slug

Matrix = list[list[float | None]]
Key = tuple[Fields, str]  # of a variant: its block and its label
T = TypeVar("T")


class Memory(NamedTuple):
    labels: list[int]  # of all stored samples
    pictured: Any  # labels of some of them, numpy (n,)
    images: Any  # numpy (n, c, h, w) uint8, or vectors


@dataclass(frozen=True)
class Run:
    """One finished run and the files in its folder, each read when it is asked for."""

    record: Record
    results: Mapping[str, Any]
    analyses: Mapping[str, Content]  # by name, those that were made

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
        return list(self.results.get("classes", ()))

    def class_name(self, number: int) -> str:
        return self.classes[number] if number < len(self.classes) else str(number)

    @property
    def tasks(self) -> list[list[int]]:
        """The classes of each task."""
        return list(self.results.get("groups", ()))

    @cached_property
    def epochs(self) -> list[Mapping[str, Any]]:
        """What was recorded at the end of each epoch."""
        return [event for event in readable(self.files.events) if event["event"] == "epoch_end"]

    @cached_property
    def timing(self) -> Sequence[Mapping[str, Any]]:
        return readable(self.files.timing)

    def memory(self) -> Memory | None:
        """What the learner kept; None if that is nothing, or damaged."""
        try:
            found = self.files.memory()
        except StateError:
            return None
        pictured, images = found["pictured"].numpy(), found["images"].numpy()
        return Memory(found["labels"].tolist(), pictured, images)


@dataclass(frozen=True)
class VariantRuns:
    """One variant's runs in the order of seeds, and how it is labelled and drawn."""

    variant: Variant
    runs: Sequence[Run]
    look: Look
    averaged: bool  # whether any variant of the report has several seeds

    @property
    def key(self) -> Key:
        return self.variant.block, self.variant.label

    @property
    def label(self) -> str:
        return called(self.variant)

    @property
    def title(self) -> str:
        """The label, and which block the variant is of if there are several."""
        return f"{self.label} ({self.variant.place})" if self.variant.place else self.label

    def about(self, kind: str, part: str = "") -> tuple[str, str, str]:
        """The name, the title and the variant of a figure about it, or about a part of it."""
        name = slug(kind, spelled(self.variant.block), self.variant.label, part)
        return name, f"{self.title}: {part}" if part else self.title, self.look.variant

    def matrices(self, protocol: str) -> list[Matrix]:
        """Shares: row = after task t, column = on task i; None where nothing was measured."""
        found = [run.results.get("matrices", {}).get(protocol) for run in self.runs]
        return [matrix for matrix in found if matrix]

    def memory(self) -> tuple[Run, Memory] | None:
        """The first seed that has a memory, and its stored samples."""
        return next(((run, rows) for run in self.runs if (rows := run.memory())), None)

    def analyses(self, name: str) -> list[Content]:
        """Of all seeds that were analysed with the first one's settings; others do not compare."""
        found = [run.analyses[name] for run in self.runs if name in run.analyses]
        return [one for one in found if one.get("settings") == found[0].get("settings")]


@dataclass(frozen=True)
class Block:
    """Variants that may be drawn in one figure."""

    settings: Fields
    variants: Sequence[VariantRuns]

    @property
    def title(self) -> str:
        return self.variants[0].variant.place

    @property
    def height(self) -> float:
        """Of a figure of lines, in inches; with many there is room for a longer legend."""
        return 3.5 + 0.2 * (len(self.variants) // 4)

    def about(self, kind: str, title: str) -> tuple[str, str, str]:
        """The name and the title of a figure about all of its variants."""
        return (
            slug(kind, spelled(self.settings)),
            f"{title} ({self.title})" if self.title else title,
            "",
        )


def called(variant: Variant) -> str:
    """A variant's title, and whether it is a bound for the others: 'JT (bound)'."""
    return clean(variant.title) + (" (bound)" if is_bound(variant.method) else "")


@dataclass(frozen=True)
class LoadedRuns:
    comparison: Comparison
    blocks: Sequence[Block]
    left_out: Sequence[tuple[str, str]]  # a run's name, and why

    @property
    def scenarios(self) -> str:
        return ", ".join(sorted(set(data_names(self.comparison.variants).values())))

    @property
    def variants(self) -> list[VariantRuns]:
        return [variant for block in self.blocks for variant in block.variants]

    @property
    def legend(self) -> list[VariantRuns]:
        """A variant for each look: the same methods may be in several blocks."""
        found: dict[str, VariantRuns] = {}
        for variant in self.variants:
            found.setdefault(variant.look.variant, variant)
        return list(found.values())

    @property
    def runs(self) -> list[Run]:
        return [run for variant in self.variants for run in variant.runs]


def load_runs(records: Iterable[Record]) -> LoadedRuns:
    """Finished runs in blocks and variants; ConfigError if none is finished."""
    given = {record.folder: record for record in records}.values()
    runs: dict[Path, Run] = {}
    left_out = []
    for record in given:
        if record.finished:
            try:
                results = RunFolder(record.folder).results()
            except StateError as error:
                left_out.append((record.name, f"damaged: {error}"))
                continue
            analyses, damaged = _analyses(record.folder)
            runs[record.folder] = Run(record, results, analyses)
            left_out += [(record.name, why) for why in damaged]
        else:
            state, progress = record.facts["status"], record.facts.get("progress")
            left_out.append((record.name, f"{state}: {progress}" if progress else str(state)))
    if not runs:
        named = f": {left_out[0][0]} is {left_out[0][1]}" if len(left_out) == 1 else ""
        raise ConfigError(
            f"nothing to report: no finished run among the {len(left_out)} asked for{named}"
        )
    comparison = compare(run.record for run in runs.values())
    drawn = looks([(variant.method, variant.label) for variant in comparison.variants])
    averaged = any(len(variant.runs) > 1 for variant in comparison.variants)
    blocks: dict[Fields, list[VariantRuns]] = {}
    for variant in comparison.variants:
        members = [runs[variant.runs[seed].folder] for seed in sorted(variant.runs)]
        look = drawn[variant.method, variant.label]
        blocks.setdefault(variant.block, []).append(VariantRuns(variant, members, look, averaged))
    found = [Block(settings, variants) for settings, variants in blocks.items()]
    return LoadedRuns(comparison, found, left_out)


def _analyses(folder: Path) -> tuple[dict[str, Content], list[str]]:
    """What analyses of a run found, and what is wrong with those that cannot be read."""
    found, damaged = {}, []
    for name in ANALYSES:
        try:
            if content := stored(folder, name):
                found[name] = content
        except StateError as error:
            damaged.append(str(error))
    return found, damaged


def readable(read: Callable[[], Sequence[T]]) -> Sequence[T]:
    """What a file holds; nothing, and a warning, if it is damaged."""
    try:
        return read()
    except StateError as error:
        warnings.warn(f"left out: {error}", stacklevel=2)
        return []
