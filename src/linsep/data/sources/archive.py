"""Unpacking archives that nobody vouches for.

Members are taken one by one: plain files and folders only, inside the target only, no more and no
larger than the set can have. Everything goes into a folder beside the target, which gets its name
only when the last member is there: a half-unpacked folder is never taken for a data set.
"""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, cast

from filelock import FileLock

from ...errors import DataError

Progress = Callable[[int], None]  # called with the number of files that are out
BLOCK = 1 << 20

BROKEN = (EOFError, OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error)


class Limits(NamedTuple):
    files: int
    bytes: int  # of all files together, unpacked


class _Member(NamedTuple):
    name: str
    size: int
    folder: bool
    open: Callable[[], IO[bytes]]


def unpack(archive: Path, target: Path, limits: Limits, progress: Progress | None = None) -> Path:
    """Unpack the archive's top folder as `target`, unless it is there, and give it back."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.unpacking")
    with FileLock(target.with_name(f".{target.name}.lock")):
        if target.exists():
            return target
        shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
        try:
            _unpack(archive, part, limits, progress or (lambda _: None))
            top = part / target.name
            if not top.is_dir():
                raise DataError(f"{archive} has no folder {target.name!r}; is it another archive?")
            os.replace(top, target)
        except BROKEN as error:
            raise DataError(f"{archive} cannot be unpacked: {error or 'it is cut off'}") from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return target


def _unpack(archive: Path, into: Path, limits: Limits, progress: Progress) -> None:
    left = limits.bytes
    into.mkdir()
    for count, member in enumerate(_members(archive, limits), 1):
        if count > limits.files:
            raise DataError(f"{archive} has more than the {limits.files} files this set can have")
        place = into / _inside(archive, member.name)
        if member.folder:
            place.mkdir(parents=True, exist_ok=True)
            continue
        if member.size > left:
            raise DataError(f"{archive} unpacks to more than {limits.bytes} bytes: a bomb?")
        place.parent.mkdir(parents=True, exist_ok=True)
        with member.open() as source, place.open("xb") as out:
            left -= _copy(source, out, member.size, f"{archive}: {member.name}")
        progress(count)


def _copy(source: IO[bytes], out: IO[bytes], size: int, name: str) -> int:
    """Copy exactly `size` bytes; what a header promises is not taken on trust."""
    done = 0
    while block := source.read(min(BLOCK, size - done + 1)):
        done += len(block)
        if done > size:
            break
        out.write(block)
    if done != size:
        raise DataError(f"{name} does not have the {size} bytes that the archive says")
    return done


def _inside(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise DataError(f"{archive} has the member {name!r}, which would be written outside it")
    return path


def _members(archive: Path, limits: Limits) -> Iterator[_Member]:
    if zipfile.is_zipfile(archive):
        return _zip_members(archive)
    return _tar_members(archive, limits)


def _tar_members(archive: Path, limits: Limits) -> Iterator[_Member]:
    with archive.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        source = gzip.GzipFile(fileobj=raw) if zipped else raw
        most = limits.bytes + limits.files * 4 * tarfile.BLOCKSIZE  # contents, headers, padding
        bounded = cast(IO[bytes], _Bounded(source, most, archive))
        with tarfile.open(fileobj=bounded, mode="r|") as tar:
            for info in tar:
                if not (info.isreg() or info.isdir()):
                    raise DataError(f"{archive} has a link or device, {info.name!r}; none may be")
                yield _Member(info.name, info.size, info.isdir(), partial(_opened, tar, info))


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


def _opened(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    file = tar.extractfile(info)
    if file is None:
        raise tarfile.TarError(f"{info.name} cannot be read")
    return file


def _zip_members(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as zipped:
        for info in zipped.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise DataError(
                    f"{archive} has a link or device, {info.filename!r}; none is allowed"
                )
            if info.flag_bits & 1:
                raise DataError(f"{archive}: {info.filename!r} is encrypted")
            opened = partial(zipped.open, info)
            yield _Member(info.filename, info.file_size, info.is_dir(), opened)
