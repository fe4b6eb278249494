"""A CSV of files and labels, and with a column of tasks any stream one can think of.

    file,label,task,split
    day1/0001.jpg,cat,0,train

`file` is taken from the CSV's own folder; `task` and `split` (train or test) may be left out. Tasks
are learned in the order of their numbers, or, where they are words, in that of the file.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import DataError, unknown
from ...settings.sections import Count
from ..images import Dataset
from .cache import File, Listing, Progress, Treatment, prepared
from .folder import Channels, Seed, TestShare
from .holdout import hold_out

COLUMNS = ("file", "label", "task", "split")
SPLITS = ("train", "test")


class Table(NamedTuple):
    """A data set, and of each image the task it comes in: row i of `train_tasks` is image i's."""

    data: Dataset
    tasks: tuple[str, ...] = ()  # their names, in the order of learning; empty: no such column
    train_tasks: Tensor | None = None  # (n,) int64
    test_tasks: Tensor | None = None

    def classes(self) -> tuple[tuple[int, ...], ...]:
        """The classes that come new with each task, where every class belongs to one task."""
        if self.train_tasks is None or self.test_tasks is None:
            raise DataError("the table has no column `task`")
        first: dict[int, int] = {}
        for part, tasks in ((self.data.train, self.train_tasks), (self.data.test, self.test_tasks)):
            for label, task in zip(part.y.tolist(), tasks.tolist(), strict=True):
                if first.setdefault(label, task) != task:
                    raise DataError(
                        f"class {self.data.names[label]!r} is in the tasks "
                        f"{self.tasks[first[label]]!r} and {self.tasks[task]!r}"
                    )
        return tuple(
            tuple(sorted(c for c, t in first.items() if t == task))
            for task in range(len(self.tasks))
        )


class _Row(NamedTuple):
    path: Path
    label: str
    task: str
    split: str


def table(
    path: Path,
    progress: Progress | None = None,
    *,
    size: Count | None = None,
    test_share: TestShare = 0.2,
    split_seed: Seed = 0,
    channels: Channels = 3,
) -> Table:
    """Images of your own, listed in a CSV with the columns file, label and perhaps task and split.

    `size`, `test_share` and the rest are those of a folder of images.
    """
    rows = read_rows(path)
    names, tasks = _sorted({r.label for r in rows}), _in_order([r.task for r in rows])
    if rows[0].split:
        parts = [[i for i, r in enumerate(rows) if r.split == s] for s in SPLITS]
    else:
        groups = [(r.label, r.task) if r.task else r.label for r in rows]
        parts = list(hold_out(groups, test_share, split_seed, str(path)))
    number = {name: i for i, name in enumerate(names)}
    files = [tuple(File(rows[i].path, number[rows[i].label]) for i in part) for part in parts]
    listing = Listing("table", path.parent, names, files[0], files[1])
    data = prepared(listing, Treatment(size, channels, upright=True), progress)
    if not rows[0].task:
        return Table(data)
    order = {name: i for i, name in enumerate(tasks)}
    of = [torch.tensor([order[rows[i].task] for i in part]) for part in parts]
    return Table(data, tasks, of[0], of[1])


def read_rows(path: Path) -> list[_Row]:
    """Every line of the CSV, checked; an error names the line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            _check_columns(path, reader.fieldnames or ())
            rows = [_row(path, reader.line_num, entry) for entry in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a table: {error}") from error
    if not rows:
        raise DataError(f"{path} has a header and no lines")
    return rows


def _check_columns(path: Path, found: Sequence[str]) -> None:
    for name in found:
        if name not in COLUMNS:
            raise DataError(f"{path}: {unknown('column', name, COLUMNS)}")
    for name in COLUMNS[:2]:
        if name not in found:
            raise DataError(f"{path} has no column {name!r}; its first line should name them")


def _row(path: Path, number: int, entry: dict[str | None, str | None]) -> _Row:
    where = f"{path}, line {number}"
    if None in entry or None in entry.values():
        raise DataError(f"{where} does not have as many fields as the first line")
    values = {str(name): str(value).strip() for name, value in entry.items()}
    for name, value in values.items():
        if not value:
            raise DataError(f"{where}: {name!r} is empty")
    if values.get("split", "train") not in SPLITS:
        raise DataError(f"{where}: split is {values['split']!r}; should be train or test")
    file = path.parent / values["file"]
    if not file.is_file():
        raise DataError(f"{where}: there is no file {file}")
    return _Row(file, values["label"], values.get("task", ""), values.get("split", ""))


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _sorted(names: set[str]) -> tuple[str, ...]:
    """By number where all are numbers, else by letter."""
    if all(map(_is_number, names)):
        return tuple(sorted(names, key=int))
    return tuple(sorted(names))


def _in_order(names: Sequence[str]) -> tuple[str, ...]:
    found = dict.fromkeys(names)
    return tuple(sorted(found, key=int)) if all(map(_is_number, found)) else tuple(found)
