"""Data sets of image files: your own in folders or a CSV, and three published sets.

    DIR/train/<class>/*.jpg and DIR/test/<class>/*.jpg   (or val, valid, validation)
    DIR/<class>/*.jpg                                     a share of each class is held out

    file,label,task,split
    day1/0001.jpg,cat,0,train

In a CSV, `file` is relative to the CSV's own folder; `task` and `split` (train or test) are
optional. Tasks are learned in numerical order, or, if they are words, in the order of the file.
The columns may have other names, and there may be further ones.

TinyImageNet's official validation images are its test set, as the official test images have no
labels. They come with val_annotations.txt, or as people sort them: val/<class>/images.

ImageNet-100 is the list that class-incremental work uses: ImageNet's 1000 classes in the order of
their ids, shuffled by numpy's legacy generator with the seed 1993, the first hundred in that order,
which is their natural order here. Images are kept at 256x256 and read at 224x224.
"""

import csv
import warnings
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib.resources import files as packaged
from pathlib import Path
from typing import NamedTuple

import torch

from ..errors import DataError
from ..settings.sections import Count
from .cache import File, Listing, Treatment, labelled, prepared
from .decoding import Channels, reading
from .images import Dataset, Seed, Tasks, TestShare, hold_out
from .published import Progress, Published
from .reading import check_case, class_folders, images_below, parts_of

COLUMNS = {name: name for name in ("file", "label", "task", "split")}  # what each is usually called
NEEDED = ("file", "label")
SPLITS = ("train", "test")
IMAGENET100 = tuple(packaged("linsep.data").joinpath("imagenet100.txt").read_text().split())


def folder(
    root: Path,
    progress: Progress | None = None,
    *,
    image_size: Count | None = None,
    test_share: TestShare = 0.2,
    split_seed: Seed = 0,
    channels: Channels = 3,
    skip_unreadable: bool = False,
) -> Dataset:
    """Read images of your own, in folders named after their classes.

    `image_size`: resize the shorter side to this and crop the square in the middle (default: all
    images must already have the same size). `test_share` and `split_seed` only matter without a
    test folder. `skip_unreadable` leaves out files that cannot be read, with a warning that names
    them. Images are decoded once and then read from the cache.
    """
    how = Treatment(image_size, channels, upright=True, skip=skip_unreadable)
    return prepared(list_folder(root, test_share, split_seed), how, progress)


def list_folder(root: Path, test_share: float = 0.2, seed: int = 0) -> Listing:
    """List the images of a folder and their classes, which are numbered by name."""
    train, test = parts_of(root)
    names = class_folders(train)
    if not names:
        raise DataError(f"{train} has no folders in it; expected one per class")
    check_case(names, train)
    files = labelled(train / name for name in names)
    if test is None:
        rows = hold_out([names[file.label] for file in files], test_share, seed, str(root))
        return Listing("folder", root, names, *(tuple(files[i] for i in part) for part in rows))
    for name in class_folders(test):
        if name not in names:
            raise DataError(f"{test / name}: there is no training folder for that class")
    return Listing("folder", root, names, files, labelled(test / name for name in names))


class Row(NamedTuple):
    """A line of a CSV; `task` and `split` are empty where it has no such column."""

    path: Path
    label: str
    task: str
    split: str


def table(
    path: Path,
    progress: Progress | None = None,
    *,
    image_size: Count | None = None,
    test_share: TestShare = 0.2,
    split_seed: Seed = 0,
    channels: Channels = 3,
    skip_unreadable: bool = False,
    file: str = "file",
    label: str = "label",
    task: str = "task",
    split: str = "split",
) -> Dataset:
    """Read images listed in a CSV with the columns file, label and perhaps task and split.

    `file`, `label`, `task` and `split` name the columns if they differ; "" ignores task or split.
    Other columns are ignored. The other options work as for a folder of images.
    """
    rows = read_rows(path, {"file": file, "label": label, "task": task, "split": split})
    names = _in_order(sorted({r.label for r in rows}))
    check_case(names, path)
    tasks = _in_order(r.task for r in rows)
    if rows[0].split:
        parts = [[i for i, r in enumerate(rows) if r.split == s] for s in SPLITS]
    else:
        groups = [(r.label, r.task) if r.task else r.label for r in rows]
        parts = list(hold_out(groups, test_share, split_seed, str(path)))
    number = {name: i for i, name in enumerate(names)}
    files = [tuple(File(rows[i].path, number[rows[i].label]) for i in part) for part in parts]
    listing = Listing("table", path.parent, names, files[0], files[1])
    how = Treatment(image_size, channels, upright=True, skip=skip_unreadable)
    data = prepared(listing, how, progress)
    if not rows[0].task:
        return data
    order = {name: i for i, name in enumerate(tasks)}
    train, test = (torch.tensor([order[rows[i].task] for i in part]) for part in parts)
    return data._replace(tasks=Tasks(tasks, train, test))


def read_rows(path: Path, columns: Mapping[str, str] = COLUMNS) -> list[Row]:
    """Read every line of the CSV and check it; an error names the line."""
    with (
        reading(path, "cannot be read as a table"),
        path.open(encoding="utf-8-sig", newline="") as file,
    ):
        reader = csv.DictReader(file, strict=True)
        used = _found(path, reader.fieldnames or (), columns)
        rows = [_row(path, reader.line_num, entry, used) for entry in reader]
    if not rows:
        raise DataError(f"{path} has a header but no rows")
    return rows


def _found(path: Path, there: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """Return the columns to read: those that were named, and task and split if they exist."""
    used = {}
    for what, name in columns.items():
        close = get_close_matches(name, [n for n in there if n not in columns.values()], n=1)
        if name and there.count(name) > 1:
            raise DataError(f"{path} has the column {name!r} twice")
        if name and name in there:  # a data frame's index has no name
            used[what] = name
        elif what in NEEDED or name not in ("", COLUMNS[what]):
            listed = ", ".join(there) or "none"
            raise DataError(
                f"{path} has no column {name!r}; its columns, separated by commas, are: {listed}. "
                f"Choose one with --set scenario.{what}={close[0] if close else 'COLUMN'}"
            )
        elif name and close:
            warnings.warn(
                f"{path}: the column {close[0]!r} is ignored; did you mean {name!r}?", stacklevel=2
            )
    return used


def _row(
    path: Path, number: int, entry: dict[str | None, str | None], used: Mapping[str, str]
) -> Row:
    where = f"{path}, line {number}"
    if None in entry or None in entry.values():
        raise DataError(f"{where} does not have as many fields as the first line")
    values = {what: str(entry[name]).strip() for what, name in used.items()}
    if empty := [used[what] for what, value in values.items() if not value]:
        raise DataError(f"{where}: {empty[0]!r} is empty")
    if values.get("split", "train") not in SPLITS:
        raise DataError(f"{where}: split is {values['split']!r}; should be train or test")
    file = path.parent / values["file"]
    if not file.is_file():
        raise DataError(f"{where}: there is no file {file}")
    return Row(file, values["label"], values.get("task", ""), values.get("split", ""))


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Sort names numerically if all are whole numbers, otherwise keep their order."""
    found = tuple(dict.fromkeys(names))
    numbers = all(name.removeprefix("-").isdecimal() and len(name) < 20 for name in found)
    return tuple(sorted(found, key=int)) if numbers else found


# --- published sets ------------------------------------------------------------------------------


def grocery(
    root: Path,
    published: Published,
    progress: Progress | None = None,
    *,
    image_size: Count = 224,
) -> Dataset:
    """Read the Grocery Store Dataset; the folder with an image is its class.

    Klasson, Zhang and Kjellstroem, WACV 2019: 81 products photographed in shops with a phone. In
    the original, folders of products are below others such as Fruit/Apple.
    """
    folder = published.find(root)
    train, test = (images_below(folder / part) for part in published.files)
    names = tuple(sorted({path.parent.name for path in train}))
    number = {name: i for i, name in enumerate(names)}
    if wrong := [path for path in test if path.parent.name not in number]:
        raise DataError(f"{wrong[0]}: there is no training folder for that class")
    parts = (tuple(File(path, number[path.parent.name]) for path in p) for p in (train, test))
    listing = Listing("grocery", folder, names, *parts)
    return prepared(listing, Treatment(side=image_size, upright=True), progress)


def tinyimagenet(root: Path, published: Published, progress: Progress | None = None) -> Dataset:
    """Read TinyImageNet in either of its layouts."""
    return prepared(list_tinyimagenet(published.find(root)), Treatment(), progress)


def list_tinyimagenet(folder: Path, classes: int = 200) -> Listing:
    """List the images of either layout; classes are numbered in the order of their ids."""
    ids = sorted(line.strip() for line in _lines(folder / "wnids.txt"))
    if len(set(ids)) != len(ids) or len(ids) != classes:
        raise DataError(f"{folder / 'wnids.txt'} has {len(ids)} lines; should be {classes} classes")
    words = dict(line.split("\t", 1) for line in _lines(folder / "words.txt") if "\t" in line)
    names = tuple(words.get(wnid, wnid).split(",")[0].strip() for wnid in ids)
    train = labelled(folder / "train" / wnid for wnid in ids)
    return Listing("tinyimagenet", folder, names, train, _tiny_test(folder / "val", ids))


def _lines(path: Path) -> list[str]:
    with reading(path):
        return [line for line in path.read_text("utf-8").splitlines() if line.strip()]


def _tiny_test(folder: Path, ids: list[str]) -> tuple[File, ...]:
    notes = folder / "val_annotations.txt"
    if not notes.exists():
        if by_class := labelled(folder / wnid for wnid in ids):
            return by_class
        raise DataError(f"{notes} is missing: the labels of the validation images")
    labels: dict[str, int] = {}
    for number, line in enumerate(_lines(notes), 1):
        name, wnid = (*line.split("\t"), "")[:2]
        if wnid not in ids:
            raise DataError(f"{notes}, line {number}: {wnid!r} is not a class of wnids.txt")
        if name in labels:
            raise DataError(f"{notes}, line {number}: {name!r} has a label already")
        labels[name] = ids.index(wnid)
    there = {path.name: path for path in images_below(folder / "images")}
    if gone := sorted(labels.keys() - there.keys()):
        raise DataError(f"{folder / 'images' / gone[0]} is missing; {notes.name} labels it")
    if more := sorted(there.keys() - labels.keys()):
        raise DataError(f"{folder / 'images' / more[0]} has no label in {notes.name}")
    return tuple(File(path, labels[name]) for name, path in there.items())


def imagenet100(root: Path, published: Published, progress: Progress | None = None) -> Dataset:
    """Read ImageNet-100, resized to 256x256, from a copy of ImageNet."""
    folder = published.find(root)
    parts = (labelled(folder / p / wnid for wnid in published.names) for p in ("train", "val"))
    listing = Listing("imagenet100", folder, published.names, *parts)
    return prepared(listing, Treatment(side=256), progress)
