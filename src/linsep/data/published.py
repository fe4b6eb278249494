"""Published data sets: where they are on this machine, and how they are fetched and unpacked.

    LINSEP_DATA    the folder with the data sets, when no --data is given
    LINSEP_CACHE   the folder for everything that can be made again (default: the platform's cache)

A download is called `<name>.part` until its checksum is right. An archive is unpacked only if it is
the published one, by its checksum, and under another name, which changes when the last file is
there. (pooch cannot resume a download.)
"""

import hashlib
import http.client
import os
import shutil
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from filelock import FileLock

from ..errors import DataError
from .decoding import reading

Progress = Callable[[int, int], None]  # done, in all: bytes or images
BLOCK = 1 << 18
SECONDS = 30.0  # without data before giving up
LOCAL = ("127.0.0.1", "::1", "localhost")


def cache_home() -> Path:
    """Return linsep's folder in the platform's cache."""
    if given := os.environ.get("LINSEP_CACHE"):
        return Path(os.path.expanduser(given))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "linsep"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "linsep"


def data_folder(given: Path | None = None) -> Path:
    """Return --data if given, else LINSEP_DATA, else `data` in the cache folder."""
    named = given or os.environ.get("LINSEP_DATA")
    return Path(os.path.expanduser(named)) if named else cache_home() / "data"


class Remote(NamedTuple):
    """A published file: where it is, how long it is, and its MD5."""

    url: str
    md5: str
    size: int  # bytes

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[-1]

    def advice(self, folder: Path) -> str:
        """Say how to fetch the file by hand, in one line."""
        host, place = urlsplit(self.url).hostname, folder / self.name
        return f"Or take {self.name} from {host} and put it at {place} (md5 {self.md5})"


class Published(NamedTuple):
    """The files of a published data set, what is in them, and where they come from."""

    name: str
    folders: tuple[str, ...]  # to search below the data folder; the first is the usual one
    files: tuple[str, ...]  # all must be in one folder; "a|b" is either of two names
    remotes: tuple[Remote, ...] = ()
    archived: bool = False  # whether the first remote is an archive of all files
    names: tuple[str, ...] = ()  # of the classes, where the files do not have them
    counts: tuple[tuple[int, ...], ...] = ()  # images per class: training, test
    by_hand: str = ""  # how to get it, if nothing fetches it

    def find(self, root: Path) -> Path:
        """Return the folder that holds the files, unpacked from the archive if need be."""
        archive = self._archive(root)
        if archive and not self._complete(root):
            unpack(archive, self.remotes[0], root / self.folders[0])
        if found := self._complete(root):
            return found
        begun = [p for p in self._places(root) if len(self._missing(p)) < len(self.files)]
        lacks = f": {begun[0]} lacks {_few(self._missing(begun[0]))}" if begun else ""
        raise DataError(f"{self.name} is not in {root}{lacks}. {self.advice(root)}")

    def here(self, root: Path) -> bool:
        """Return whether its files or its archive are there; nothing is opened."""
        return bool(self._complete(root) or self._archive(root))

    def get(self, root: Path, progress: Progress | None = None) -> tuple[Path, ...]:
        """Download every file, check it, and unpack the archive."""
        files = tuple(fetch(remote, self._into(root), progress) for remote in self.remotes)
        self.find(root)
        return files

    def advice(self, root: Path) -> str:
        """Say how to get the files, in one line."""
        if not self.remotes:
            return f"It cannot be fetched: {self.by_hand}"
        by_hand = self.remotes[0].advice(self._into(root))
        more = f"; likewise its other {len(self.remotes) - 1} files" if self.remotes[1:] else ""
        return f"`linsep data get {self.name}` fetches it. {by_hand}{more}"

    def _into(self, root: Path) -> Path:
        return root if self.archived else root / self.folders[0]

    def _archive(self, root: Path) -> Path | None:
        return path_of(root, self.remotes[0].name) if self.archived else None

    def _places(self, root: Path) -> list[Path]:
        return [root / folder for folder in self.folders]

    def _complete(self, root: Path) -> Path | None:
        return next((place for place in self._places(root) if not self._missing(place)), None)

    def _missing(self, place: Path) -> list[str]:
        return [name.partition("|")[0] for name in self.files if path_of(place, name) is None]


def path_of(folder: Path, name: str) -> Path | None:
    """Return the file in a folder under any of its spellings."""
    spelt = (folder / spelling for spelling in name.split("|"))
    return next((path for path in spelt if os.path.exists(path)), None)


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def fetch(remote: Remote, folder: Path, progress: Progress | None = None) -> Path:
    """Return the file in `folder`, downloaded if it is not there yet and checked either way."""
    target = folder / remote.name
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name(f".{target.name}.lock")):
        if target.exists():
            _check(target, remote, target)
            return target
        part = target.with_name(target.name + ".part")
        try:
            _download(remote, part, progress or (lambda done, total: None))
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            if isinstance(error, URLError) and not isinstance(error, HTTPError):
                reason = str(error.reason)
            raise DataError(
                f"could not download {remote.name}: {reason}. "
                f"Run the command again to resume. {remote.advice(folder)}"
            ) from error
        _check(part, remote, target)
        os.replace(part, target)
    return target


def _check(file: Path, remote: Remote, target: Path) -> None:
    with file.open("rb") as raw:
        found = hashlib.file_digest(raw, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != remote.md5:
        if file != target:
            file.unlink()  # nothing to resume from
        raise DataError(
            f"{file} is not the published {remote.name}: md5 is {found}, should be {remote.md5}. "
            f"Put the right file at {target}"
        )


def _download(remote: Remote, part: Path, progress: Progress) -> None:
    there, before = part.stat().st_size if part.exists() else 0, -1
    while before < there < remote.size:  # reconnect as long as something arrives
        before, there = there, _append(remote, part, there, progress)
    if there < remote.size:
        raise ConnectionError(f"the connection was cut after {there} of {remote.size} bytes")


def _append(remote: Remote, part: Path, there: int, progress: Progress) -> int:
    """Append to the part, or start over if the server cannot resume; return the new size."""
    _secure(remote.url)
    headers = {"User-Agent": "linsep"} | ({"Range": f"bytes={there}-"} if there else {})
    request = urllib.request.Request(remote.url, headers=headers)
    opener = urllib.request.build_opener(_SecureRedirects)
    with opener.open(request, timeout=SECONDS) as response:
        span = response.headers.get("Content-Range", "")
        resumed = response.status == 206 and span.startswith(f"bytes {there}-")
        there = there if resumed else 0
        with part.open("ab" if resumed else "wb") as out:
            while block := response.read(BLOCK):
                there += len(block)
                if there > remote.size:
                    raise DataError(
                        f"{remote.url} sends more than the {remote.size} bytes that were published"
                    )
                out.write(block)
                progress(there, remote.size)
    return there


class _SecureRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, to: Any
    ) -> Any:
        _secure(to)
        return super().redirect_request(req, fp, code, msg, headers, to)


def _secure(url: str) -> None:
    """Refuse an address that is neither https nor this machine."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOCAL):
        raise DataError(f"{url} is not https; nothing is downloaded from it")


def unpack(archive: Path, remote: Remote, target: Path) -> Path:
    """Unpack a published archive's top folder as `target`, unless it is there, and return it."""
    part = target.with_name(f".{target.name}.unpacking")
    with reading(archive, "cannot be unpacked"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{target.name}.lock")):
            if target.exists():
                return target
            _check(archive, remote, archive)
            shutil.rmtree(part, ignore_errors=True)  # left by a process that was killed
            try:
                zipped = archive.suffix == ".zip"
                shutil.unpack_archive(archive, part, filter=None if zipped else "data")
                os.replace(part / target.name, target)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return target
