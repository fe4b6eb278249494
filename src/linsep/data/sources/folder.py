"""Images in folders named after their classes.

    DIR/train/<class>/*.jpg and DIR/test/<class>/*.jpg   (or val, valid, validation)
    DIR/<class>/*.jpg                                     a share of each class is held out

Knows that layout. Files that are not images by their suffix, and hidden ones, are passed over.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ...errors import DataError
from ...settings.sections import Count
from ..images import Dataset
from .cache import File, Listing, Progress, Treatment, prepared
from .decode import SUFFIXES
from .holdout import hold_out

TESTS = ("test", "val", "valid", "validation")
TestShare = Annotated[float, Field(gt=0, lt=1)]
Seed = Annotated[int, Field(ge=0)]
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
    """Images of your own, in folders named after their classes.

    `size`: bring the shorter side to this and cut the square in the middle (default: all images
    must have one size already). `test_share` and `split_seed` only matter where there is no test
    folder. Decoded once, then read from the cache.
    """
    how = Treatment(size, channels, upright=True)
    return prepared(list_folder(root, test_share, split_seed), how, progress)


def list_folder(root: Path, test_share: float = 0.2, seed: int = 0) -> Listing:
    if not root.is_dir():
        raise DataError(f"{root} is not a folder; expected train/<class>/ or <class>/ in it")
    train = root / "train" if (root / "train").is_dir() else root
    tests = [root / name for name in TESTS if (root / name).is_dir()] if train != root else []
    names = class_folders(train)
    if not names:
        raise DataError(f"{train} has no folders in it; expected one per class")
    files = [File(p, y) for y, name in enumerate(names) for p in image_files(train / name)]
    if tests:
        held = _labelled(tests[0], names)
        return Listing("folder", root, names, tuple(files), held)
    _no_empty(files, names, train)
    keep, held_out = hold_out([names[f.label] for f in files], test_share, seed, str(root))
    chosen = tuple(tuple(files[i] for i in rows) for rows in (keep, held_out))
    return Listing("folder", root, names, *chosen)


def class_folders(root: Path) -> tuple[str, ...]:
    with os.scandir(root) as entries:
        return tuple(sorted(e.name for e in entries if e.is_dir() and not e.name.startswith(".")))


def image_files(place: Path) -> list[Path]:
    """The images right in a folder, by name."""
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


def _no_empty(files: list[File], names: tuple[str, ...], root: Path) -> None:
    """A folder without images is a mistake, not a class."""
    seen = {file.label for file in files}
    for label, name in enumerate(names):
        if label not in seen:
            raise DataError(f"{root / name} has no image ({', '.join(SUFFIXES)})")
