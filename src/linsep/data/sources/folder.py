"""Images in folders named after their classes.

    DIR/train/<class>/*.jpg and DIR/test/<class>/*.jpg   (or val, valid, validation)
    DIR/<class>/*.jpg                                     a share of each class is held out

Knows that layout. Files that are not images by their suffix, and hidden ones, are passed over.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from ...errors import DataError
from ...settings.sections import Count
from ..images import Dataset
from .cache import File, Listing, Progress, Treatment, prepared
from .decode import SUFFIXES, Channels
from .holdout import Seed, TestShare, hold_out

TESTS = ("test", "val", "valid", "validation")


def folder(
    root: str | os.PathLike[str],
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
    return prepared(list_folder(Path(root), test_share, split_seed), how, progress)


def list_folder(root: Path, test_share: float = 0.2, seed: int = 0) -> Listing:
    """List the images of a folder and their classes, which are numbered by name."""
    if not root.is_dir():
        raise DataError(f"{root} is not a folder; expected train/<class>/ or <class>/ in it")
    train = root / "train" if (root / "train").is_dir() else root
    tests = [root / name for name in TESTS if (root / name).is_dir()] if train != root else []
    names = class_folders(train)
    if not names:
        raise DataError(f"{train} has no folders in it; expected one per class")
    files = labelled(train / name for name in names)
    if tests:
        for name in class_folders(tests[0]):
            if name not in names:
                raise DataError(f"{tests[0] / name}: there is no training folder of that class")
        return Listing("folder", root, names, files, labelled(tests[0] / name for name in names))
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


def images_below(place: Path) -> list[Path]:
    """Return the images in a folder and in those inside it, by path; hidden ones are passed over.

    macOS leaves a `._x.png` beside an x.png, which is no image.
    """
    below = ((path, path.relative_to(place).parts) for path in place.rglob("*"))
    shown = (path for path, parts in below if not any(part.startswith(".") for part in parts))
    return sorted(path for path in shown if path.suffix.lower() in SUFFIXES)


def labelled(folders: Iterable[Path]) -> tuple[File, ...]:
    """List the images of all classes, given each one's folder; one that is missing holds none."""
    there = [(label, place) for label, place in enumerate(folders) if place.is_dir()]
    return tuple(File(path, label) for label, place in there for path in image_files(place))
