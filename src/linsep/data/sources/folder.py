"""Images in folders named after their classes.

    DIR/train/<class>/*.jpg and DIR/test/<class>/*.jpg   (or val, valid, validation)
    DIR/<class>/*.jpg                                     a share of each class is held out

Knows that layout. Files that are not images by their suffix, and hidden ones, are passed over.
"""

import os
from pathlib import Path
from typing import Literal

from ...errors import DataError
from ...settings.sections import Count
from ..images import Dataset
from .cache import File, Listing, Progress, Treatment, prepared
from .decode import SUFFIXES
from .holdout import Seed, TestShare, hold_out

TESTS = ("test", "val", "valid", "validation")
Channels = Literal[1, 3]


def folder(
    root: Path,
    progress: Progress | None = None,
    *,
    size: Count | None = None,
    test_share: TestShare = 0.2,
    split_seed: Seed = 0,
    channels: Channels = 3,
) -> Dataset:
    """Read images of your own, in folders named after their classes.

    `size`: bring the shorter side to this and cut the square in the middle (default: all images
    must have one size already). `test_share` and `split_seed` only matter where there is no test
    folder. Decoded once, then read from the cache.
    """
    how = Treatment(size, channels, upright=True)
    return prepared(list_folder(root, test_share, split_seed), how, progress)


def list_folder(root: Path, test_share: float = 0.2, seed: int = 0) -> Listing:
    """List the images of a folder and their classes, which are numbered by name."""
    if not root.is_dir():
        raise DataError(f"{root} is not a folder; expected train/<class>/ or <class>/ in it")
    train = root / "train" if (root / "train").is_dir() else root
    tests = [root / name for name in TESTS if (root / name).is_dir()] if train != root else []
    names = class_folders(train)
    if not names:
        raise DataError(f"{train} has no folders in it; expected one per class")
    files = _labelled(train, names)
    if tests:
        return Listing("folder", root, names, files, _labelled(tests[0], names))
    if empty := set(range(len(names))) - {file.label for file in files}:
        raise DataError(f"{train / names[min(empty)]} has no image ({', '.join(SUFFIXES)})")
    rows = hold_out([names[file.label] for file in files], test_share, seed, str(root))
    return Listing("folder", root, names, *(tuple(files[i] for i in part) for part in rows))


def class_folders(root: Path) -> tuple[str, ...]:
    """Return the names of the folders in a folder."""
    with os.scandir(root) as entries:
        return tuple(sorted(e.name for e in entries if e.is_dir() and not e.name.startswith(".")))


def image_files(place: Path) -> list[Path]:
    """Return the images right in a folder, by name."""
    with os.scandir(place) as entries:
        names = [e.name for e in entries if not e.name.startswith(".") and e.is_file()]
    return [place / name for name in sorted(names) if name.lower().endswith(SUFFIXES)]


def _labelled(root: Path, names: tuple[str, ...]) -> tuple[File, ...]:
    place = {name: label for label, name in enumerate(names)}
    for name in class_folders(root):
        if name not in place:
            raise DataError(f"{root / name}: there is no training folder of that class")
    folders = [name for name in names if (root / name).is_dir()]
    return tuple(File(p, place[name]) for name in folders for p in image_files(root / name))
