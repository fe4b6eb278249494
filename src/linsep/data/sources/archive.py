"""Unpacking archives that nobody vouches for.

Members are taken one by one: plain files and folders only, inside the target only, no more and no
larger than the set can have. Everything goes into a folder beside the target, which gets its name
only when the last member is there: a half-unpacked folder is never taken for a data set.
"""

import gzip
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, cast

from filelock import FileLock

from ...errors import DataError
from .reading import reading

BLOCK = 1 << 20


class Limits(NamedTuple):
    files: int
    bytes: int  # of all files together, unpacked


class _Member(NamedTuple):
    name: str
    size: int
    folder: bool
    special: bool  # a link or a device
    open: Callable[[], IO[bytes]]


def unpack(archive: Path, target: Path, limits: Limits) -> Path:
    """Unpack the archive's top folder as `target`, unless it is there, and return it."""
    part = target.with_name(f".{target.name}.unpacking")
    with reading(archive, "cannot be unpacked"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{target.name}.lock")):
            if target.exists():
                return target
            shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
            try:
                _unpack(archive, part, limits)
                if not (part / target.name).is_dir():
                    raise DataError(f"{archive} is another archive: it has no {target.name}/")
                os.replace(part / target.name, target)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return target


def _unpack(archive: Path, into: Path, limits: Limits) -> None:
    left = limits.bytes
    into.mkdir()
    zipped = zipfile.is_zipfile(archive)
    members = _zip_members(archive) if zipped else _tar_members(archive, limits)
    for count, member in enumerate(members, 1):
        if count > limits.files:
            raise DataError(f"{archive} has more than the {limits.files} files this set can have")
        if member.special:
            raise DataError(f"{archive} has a link or device, {member.name!r}; none is allowed")
        place = into / _inside(archive, member.name)
        if member.folder:
            place.mkdir(parents=True, exist_ok=True)
            continue
        if member.size > left:
            raise DataError(f"{archive} unpacks to more than {limits.bytes} bytes: a bomb?")
        place.parent.mkdir(parents=True, exist_ok=True)
        with member.open() as source, place.open("xb") as out:
            _copy(source, out, member.size, f"{archive}: {member.name}")
        left -= member.size


def _copy(source: IO[bytes], out: IO[bytes], size: int, name: str) -> None:
    """Copy exactly `size` bytes, whatever the header promises."""
    done = 0
    while block := source.read(min(BLOCK, size - done + 1)):
        done += len(block)
        if done > size:
            break
        out.write(block)
    if done != size:
        raise DataError(f"{name} does not have the {size} bytes that its header gives")


def _inside(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise DataError(f"{archive} has the member {name!r}, which would be written outside it")
    return path


def _tar_members(archive: Path, limits: Limits) -> Iterator[_Member]:
    with archive.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        source = gzip.GzipFile(fileobj=raw) if zipped else raw
        most = limits.bytes + limits.files * 4 * tarfile.BLOCKSIZE  # contents, headers, padding
        bounded = cast(IO[bytes], _Bounded(source, most, archive))
        with tarfile.open(fileobj=bounded, mode="r|") as tar:
            for info in tar:
                opened = cast(Callable[[], IO[bytes]], partial(tar.extractfile, info))
                special = not (info.isreg() or info.isdir())
                yield _Member(info.name, info.size, info.isdir(), special, opened)


class _Bounded:
    """A stream that ends with an error where it becomes longer than it may be."""

    def __init__(self, source: IO[bytes] | gzip.GzipFile, most: int, archive: Path) -> None:
        self.source, self.left, self.archive = source, most, archive

    def read(self, size: int) -> bytes:
        block = self.source.read(size)
        self.left -= len(block)
        if self.left < 0:
            raise DataError(f"{self.archive} unpacks to far more than this set has: a bomb?")
        return block


def _zip_members(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as zipped:
        for info in zipped.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            special = kind not in (0, stat.S_IFREG, stat.S_IFDIR)
            opened = partial(zipped.open, info)
            yield _Member(info.filename, info.file_size, info.is_dir(), special, opened)
