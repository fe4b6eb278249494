"""Decoded images on disk: made once, memory-mapped afterwards.

A prepared set is a folder whose name is a hash of the listing (paths, sizes, times, labels) and of
how the images are processed, so a changed file or option gives another one:

    pixels.u8       every image, training then test, (channels, height, width) bytes each
    digests.bin     16 bytes of BLAKE2 per image
    manifest.json   counts, shape, names, skipped files, duplicates, the checksum of the digests

Until it is complete it is called `<name>.part` and has no manifest. Digests are written after their
pixels have reached the disk, so whatever a killed process left behind is verified and kept, and
only the rest is decoded.
"""

import json
import math
import os
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from ..errors import DataError
from .decoding import Pixels, read_image, reading
from .images import DIGEST, Dataset, Images, digest_of, warn_of_duplicates
from .published import Progress, cache_home
from .reading import check_shape, images_below, warn_of_skipped

FORMAT = 1
STEP = 1 << 24  # bytes that are decoded and flushed to disk at a time


class File(NamedTuple):
    path: Path
    label: int


def labelled(folders: Iterable[Path]) -> tuple[File, ...]:
    """List the images of all classes, given each one's folder; a missing folder counts as empty."""
    return tuple(File(path, i) for i, place in enumerate(folders) for path in images_below(place))


class Listing(NamedTuple):
    """The files of a data set and their labels, whatever its layout on disk."""

    name: str
    root: Path
    names: tuple[str, ...]  # of the classes
    train: tuple[File, ...]
    test: tuple[File, ...]


class Treatment(NamedTuple):
    """How each file is decoded."""

    side: int | None = None  # None: keep the size, which must be the same for all
    channels: int = 3
    upright: bool = False
    skip: bool = False  # leave out files that cannot be read

    def read(self, path: Path) -> Pixels:
        return read_image(path, side=self.side, channels=self.channels, upright=self.upright)


def prepared(listing: Listing, how: Treatment, progress: Progress | None = None) -> Dataset:
    """Return the images of a listing, decoding them unless that was done before."""
    for part, files in (("training", listing.train), ("test", listing.test)):
        if empty := set(range(len(listing.names))) - {file.label for file in files}:
            name = listing.names[min(empty)]
            raise DataError(f"{listing.root}: class {name!r} has no {part} image")
    folder = folder_of(listing, how)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(folder.name + ".lock")):
            if not folder.exists():
                _prepare(listing, how, folder, progress or (lambda done, total: None))
    return _open(folder, listing)


def folder_of(listing: Listing, how: Treatment) -> Path:
    """Return where the prepared images of this listing are, or would be."""
    key = sha256(json.dumps([FORMAT, how._asdict(), listing.names]).encode())
    for mark, files in ((b"", listing.train), (b"\0test", listing.test)):
        key.update(mark)
        for path, label in files:
            with reading(path):
                found = path.stat()
            place = os.path.relpath(path, listing.root)
            entry = f"{place}\0{label}\0{found.st_size}\0{found.st_mtime_ns}\n"
            key.update(entry.encode(errors="surrogateescape"))  # a name need not be UTF-8
    return cache_home() / "prepared" / f"{listing.name}-{key.hexdigest()[:20]}"


def verify(folder: Path) -> int:
    """Compare every prepared image with its digest, and return the number of images."""
    manifest = _manifest(folder)
    with reading(folder), (folder / "pixels.u8").open("rb") as pixels:
        raw = (folder / "digests.bin").read_bytes()
        if sha256(raw).hexdigest() != manifest["sha256"]:
            raise DataError(f"{folder / 'digests.bin'} was changed; delete {folder}")
        good = _verified(pixels, raw, int(np.prod(manifest["shape"])))
    if good * DIGEST != len(raw):
        raise DataError(f"image {good} in {folder} was changed; delete it and prepare again")
    return good


def _prepare(listing: Listing, how: Treatment, folder: Path, progress: Progress) -> None:
    part = folder.with_name(folder.name + ".part")
    part.mkdir(exist_ok=True)
    files = listing.train + listing.test
    shape = _first_shape(files, how)
    size = int(np.prod(shape))
    with (part / "pixels.u8").open("a+b") as out, (part / "digests.bin").open("a+b") as log:
        out.seek(0)
        log.seek(0)
        done = _verified(out, log.read(len(files) * DIGEST), size)
        out.truncate(done * size)
        log.truncate(done * DIGEST)
        progress(done, len(files))
        for first in range(done, len(files), step := max(1, STEP // size)):
            images = _decode(files[first : first + step], how, shape)
            _written(out, b"".join(images))
            _written(log, b"".join(map(digest_of, images)))
            progress(first + len(images), len(files))
    _finish(listing, how, part, shape)
    os.replace(part, folder)


def _first_shape(files: Sequence[File], how: Treatment) -> tuple[int, ...]:
    for file in files:
        if (image := _read(file.path, how)) is not None:
            return image.shape
    raise DataError(f"none of the {len(files)} images can be read")


def _read(path: Path, how: Treatment) -> Pixels | None:
    """Return the image in a file; None if it cannot be read and such files are to be skipped."""
    try:
        return how.read(path)
    except DataError as error:
        if how.skip:
            return None
        advice = "scenario.skip_unreadable=true (--skip-unreadable) leaves such files out"
        raise DataError(f"{error}; {advice}") from error


def _decode(files: Sequence[File], how: Treatment, shape: tuple[int, ...]) -> list[bytes]:
    """Decode files in threads: Pillow releases the interpreter lock while decoding.

    A file that is skipped is black.
    """
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        images = list(pool.map(partial(_read, how=how), (file.path for file in files)))
    for file, image in zip(files, images, strict=True):
        if image is not None:
            check_shape(image.shape, shape, str(file.path))
    return [bytes(math.prod(shape)) if image is None else image.tobytes() for image in images]


def _written(file: IO[bytes], content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _verified(pixels: IO[bytes], digests: bytes, size: int) -> int:
    """Count the leading images whose digests are right."""
    count = len(digests) // DIGEST
    for i in range(count):
        image = pixels.read(size)
        if digest_of(image) != digests[i * DIGEST : (i + 1) * DIGEST] or len(image) != size:
            return i
    return count


def _finish(listing: Listing, how: Treatment, part: Path, shape: tuple[int, ...]) -> None:
    raw = (part / "digests.bin").read_bytes()
    each = [raw[i : i + DIGEST] for i in range(0, len(raw), DIGEST)]
    files, first = listing.train + listing.test, len(listing.train)
    black = digest_of(bytes(math.prod(shape)))
    dark = [i for i, digest in enumerate(each) if how.skip and digest == black]
    skipped = {i for i in dark if _read(files[i].path, how) is None}
    kept = {i: digest for i, digest in enumerate(each) if i not in skipped}
    learned = {digest: i for i, digest in kept.items() if i < first}
    pairs = [(i, learned[d]) for i, d in kept.items() if i >= first and d in learned]
    manifest = {
        "format": FORMAT,
        "name": listing.name,
        "shape": shape,
        "train": first,
        "test": len(listing.test),
        "names": listing.names,
        "skipped": sorted(skipped),
        "duplicates": pairs,  # places of test images, and of the training images they equal
        "sha256": sha256(raw).hexdigest(),
    }
    with (part / "manifest.json").open("wb") as out:
        _written(out, json.dumps(manifest, indent=1).encode())


def _manifest(folder: Path) -> dict[str, Any]:
    with reading(folder, "is not a readable prepared data set; delete it"):
        found = dict(json.loads((folder / "manifest.json").read_bytes()))
        size = int(np.prod(found["shape"])) * (found["train"] + found["test"])
        whole = found["format"] == FORMAT and (folder / "pixels.u8").stat().st_size == size
    if not whole:
        raise DataError(f"{folder} was changed after it was made; delete it and prepare again")
    return found


def _open(folder: Path, listing: Listing) -> Dataset:
    manifest = _manifest(folder)
    files, first = listing.train + listing.test, len(listing.train)
    if pairs := manifest["duplicates"]:
        one, other = (_below(listing, files[i]) for i in pairs[0])
        warn_of_duplicates(len(pairs), str(listing.root), f", such as {one} ({other})")
    skipped = manifest["skipped"]
    warn_of_skipped([_below(listing, files[i]) for i in skipped], listing.root)
    shape = (len(files), *manifest["shape"])
    labels = [file.label for file in files]
    whole = Images.of(_mapped(folder / "pixels.u8", shape), torch.tensor(labels))
    rows = torch.arange(len(files))
    kept = rows[~torch.isin(rows, torch.tensor(skipped, dtype=torch.int64))]
    train, test = (whole.take(kept[part]) for part in (kept < first, kept >= first))
    content = f"{manifest['sha256']} {shape} {labels} {listing.names}{skipped or ''}"
    digest = sha256(content.encode())
    return Dataset(train, test, listing.names, digest.hexdigest()[:32], cached=folder)


def _below(listing: Listing, file: File) -> str:
    return os.path.relpath(file.path, listing.root)


def _mapped(path: Path, shape: tuple[int, ...]) -> Tensor:
    """Map the file as a read-only tensor, loaded page by page on demand."""
    pages = np.memmap(path, np.uint8, "r", shape=shape)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(pages)
