"""Fetching a published file: https only, resumed when cut, checked before it gets its name.

Knows HTTP and checksums. Knows nothing of data sets. What is there so far lies beside the target as
`<name>.part`, so a killed download resumes where it stopped; only a file whose checksum is the
published one is renamed to the target.
"""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from filelock import FileLock

from ...errors import DataError

Progress = Callable[[int, int], None]  # bytes there, bytes in all
BLOCK = 1 << 18
SECONDS = 30.0  # without a byte before the connection is given up
TRIES = 4  # per call, as long as each brings something
LOCAL = ("127.0.0.1", "::1", "localhost")


class Remote(NamedTuple):
    """A published file: where it is, how long it is, and its MD5."""

    url: str
    md5: str
    size: int  # bytes

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[-1]


def fetch(remote: Remote, folder: Path, progress: Progress | None = None) -> Path:
    """Return the file in `folder`, downloaded if it is not there yet and checked either way."""
    target = folder / remote.name
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name(f".{target.name}.lock")):
        if target.exists():
            return _checked(target, remote, target)
        part = target.with_name(target.name + ".part")
        try:
            _fetch(remote, part, progress or (lambda done, total: None))
        except (OSError, http.client.HTTPException) as error:
            raise DataError(
                f"could not download {remote.name}: {_reason(error)}. "
                f"Run the command again to resume. {advice(remote, folder)}"
            ) from error
        _checked(part, remote, target)
        os.replace(part, target)
    return target


def advice(remote: Remote, folder: Path) -> str:
    """Say how to fetch the file by hand, in one line."""
    host, place = urlsplit(remote.url).hostname, folder / remote.name
    return f"Or take {remote.name} from {host} and put it at {place} (md5 {remote.md5})"


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.URLError) and not isinstance(error, urllib.error.HTTPError):
        return str(error.reason)
    return str(error) or type(error).__name__


def _checked(file: Path, remote: Remote, target: Path) -> Path:
    with file.open("rb") as raw:
        found = hashlib.file_digest(raw, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found == remote.md5:
        return file
    if file != target:
        file.unlink()  # nothing to resume from
    raise DataError(
        f"{file} is not the published {remote.name}: md5 is {found}, should be {remote.md5}. "
        f"Put the right file at {target}"
    )


def _fetch(remote: Remote, part: Path, progress: Progress) -> None:
    for attempt in range(TRIES):
        there = part.stat().st_size if part.exists() else 0
        if there > remote.size:
            part.unlink()
            there = 0
        if there == remote.size:
            return
        try:
            _resume(remote, part, there, progress)
        except (OSError, http.client.HTTPException):
            now = part.stat().st_size if part.exists() else 0
            if now <= there or attempt == TRIES - 1:
                raise


def _resume(remote: Remote, part: Path, there: int, progress: Progress) -> None:
    request = urllib.request.Request(remote.url, headers={"User-Agent": "linsep"})
    if there:
        request.add_header("Range", f"bytes={there}-")
    _secure(remote.url)
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
    if there < remote.size:
        raise ConnectionError(f"the connection was cut after {there} of {remote.size} bytes")


class _SecureRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any
    ) -> Any:
        _secure(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _secure(url: str) -> None:
    """Refuse an address that is neither https nor this machine."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOCAL):
        raise DataError(f"{url} is not https; nothing is downloaded from it")
