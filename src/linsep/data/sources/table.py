"""A CSV of files and labels, and with a column of tasks any stream one can think of.

    file,label,task,split
    day1/0001.jpg,cat,0,train

`file` is taken from the CSV's own folder; `task` and `split` (train or test) may be left out. Tasks
are learned in the order of their numbers, or, where they are words, in that of the file.
"""

import csv
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import torch

from ...errors import DataError, unknown
from ...settings.sections import Count
from ..images import Dataset, Tasks
from .cache import File, Listing, Progress, Treatment, prepared
from .decode import Channels
from .holdout import Seed, TestShare, hold_out
from .reading import reading

COLUMNS = ("file", "label", "task", "split")
SPLITS = ("train", "test")


class _Row(NamedTuple):
    path: Path
    label: str
    task: str
    split: str


def table(
    path: str | PathLike[str],
    progress: Progress | None = None,
    *,
    size: Count | None = None,
    test_share: TestShare = 0.2,
    split_seed: Seed = 0,
    channels: Channels = 3,
) -> Dataset:
    """Read images listed in a CSV with the columns file, label and perhaps task and split.

    `size`, `test_share` and the rest are those of a folder of images.
    """
    path = Path(path)
    rows = read_rows(path)
    names = _in_order(sorted({r.label for r in rows}))
    tasks = _in_order(r.task for r in rows)
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
        return data
    order = {name: i for i, name in enumerate(tasks)}
    train, test = (torch.tensor([order[rows[i].task] for i in part]) for part in parts)
    return data._replace(tasks=Tasks(tasks, train, test))


def read_rows(path: Path) -> list[_Row]:
    """Read every line of the CSV and check it; an error names the line."""
    with (
        reading(path, "cannot be read as a table"),
        path.open(encoding="utf-8-sig", newline="") as file,
    ):
        reader = csv.DictReader(file, strict=True)
        _check_columns(path, reader.fieldnames or ())
        rows = [_row(path, reader.line_num, entry) for entry in reader]
    if not rows:
        raise DataError(f"{path} has a header and no lines")
    return rows


def _check_columns(path: Path, found: Sequence[str]) -> None:
    for name in found:
        if name not in COLUMNS:
            raise DataError(f"{path}: {unknown('column', name, COLUMNS)}")
        if found.count(name) > 1:
            raise DataError(f"{path} has the column {name!r} twice")
    if gone := [name for name in COLUMNS[:2] if name not in found]:
        raise DataError(f"{path} has no column {gone[0]!r}; its first line should name them")


def _row(path: Path, number: int, entry: dict[str | None, str | None]) -> _Row:
    where = f"{path}, line {number}"
    if None in entry or None in entry.values():
        raise DataError(f"{where} does not have as many fields as the first line")
    values = {str(name): str(value).strip() for name, value in entry.items()}
    if empty := [name for name, value in values.items() if not value]:
        raise DataError(f"{where}: {empty[0]!r} is empty")
    if values.get("split", "train") not in SPLITS:
        raise DataError(f"{where}: split is {values['split']!r}; should be train or test")
    file = path.parent / values["file"]
    if not file.is_file():
        raise DataError(f"{where}: there is no file {file}")
    return _Row(file, values["label"], values.get("task", ""), values.get("split", ""))


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Sort names by number where all are whole numbers, else leave them in order."""
    found = tuple(dict.fromkeys(names))
    numbers = all(name.removeprefix("-").isdecimal() and len(name) < 20 for name in found)
    return tuple(sorted(found, key=int)) if numbers else found
