"""TinyImageNet as it is published: a zip, or its folder with val_annotations.txt.

Knows that layout, and the other one that people make of it (val/<class>/images). The official
validation images are the test set, as the official test images have no labels.
"""

from os import PathLike
from pathlib import Path

from ...errors import DataError
from ..images import Dataset
from .archive import Limits
from .cache import File, Listing, Progress, Treatment, prepared
from .download import Remote
from .folder import image_files, labelled
from .published import Published
from .reading import reading

URL = "https://cs231n.stanford.edu/tiny-imagenet-200.zip"
TINYIMAGENET = Published(
    "tinyimagenet",
    ("tiny-imagenet-200", "."),
    ("wnids.txt", "train", "val"),
    (Remote(URL, "90528d7ca1a48142e341f4ef8d21d0de", 248_100_043),),
    Limits(files=150_000, bytes=2_000_000_000),
)


def tinyimagenet(root: str | PathLike[str], progress: Progress | None = None) -> Dataset:
    """110 000 photographs of 200 things, 64x64: 500 for training and 50 for testing of each."""
    return prepared(list_tinyimagenet(root), Treatment(), progress)


def list_tinyimagenet(root: str | PathLike[str], classes: int = 200) -> Listing:
    """List the images of both layouts."""
    folder = TINYIMAGENET.find(root)
    ids = _ids(folder, classes)
    names = _words(folder / "words.txt", ids)
    train = labelled(_in_class(folder / "train" / wnid) for wnid in ids)
    return Listing("tinyimagenet", folder, names, train, _test(folder, ids))


def _lines(path: Path) -> list[str]:
    with reading(path):
        return [line for line in path.read_text("utf-8").splitlines() if line.strip()]


def _ids(folder: Path, classes: int) -> list[str]:
    """Return the classes in the order of their ids, which is the natural order of this set."""
    ids = [line.strip() for line in _lines(folder / "wnids.txt")]
    if len(set(ids)) != len(ids) or len(ids) != classes:
        raise DataError(f"{folder / 'wnids.txt'} has {len(ids)} lines; should be {classes} classes")
    for wnid in ids:
        if not (folder / "train" / wnid).is_dir():
            raise DataError(f"{folder / 'train' / wnid} is missing; wnids.txt names that class")
    return sorted(ids)


def _words(path: Path, ids: list[str]) -> tuple[str, ...]:
    words = dict(line.split("\t", 1) for line in _lines(path) if "\t" in line)
    return tuple(words.get(wnid, wnid).split(",")[0].strip() for wnid in ids)


def _in_class(folder: Path) -> Path:
    return folder / "images" if (folder / "images").is_dir() else folder


def _test(folder: Path, ids: list[str]) -> tuple[File, ...]:
    place = {wnid: label for label, wnid in enumerate(ids)}
    notes = folder / "val" / "val_annotations.txt"
    if not notes.exists():
        if by_class := labelled(_in_class(folder / "val" / wnid) for wnid in ids):
            return by_class
        raise DataError(f"{notes} is missing: the labels of the validation images")
    labels: dict[str, int] = {}
    for number, line in enumerate(_lines(notes), 1):
        name, _, rest = line.partition("\t")
        wnid = rest.partition("\t")[0]
        if wnid not in place:
            raise DataError(f"{notes}, line {number}: {wnid!r} is not a class of wnids.txt")
        if name in labels:
            raise DataError(f"{notes}, line {number}: {name!r} has a label already")
        labels[name] = place[wnid]
    found = image_files(folder / "val" / "images")
    there = {path.name for path in found}
    if gone := sorted(labels.keys() - there):
        raise DataError(f"{folder / 'val' / 'images' / gone[0]} is missing; {notes.name} labels it")
    if more := sorted(there - labels.keys()):
        raise DataError(f"{folder / 'val' / 'images' / more[0]} has no label in {notes.name}")
    return tuple(File(path, labels[path.name]) for path in found)
