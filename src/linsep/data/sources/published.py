"""A published data set on this machine: find its files, unpack its archive, or fetch it.

Knows folders, archives and downloads. Knows nothing of what the files hold.
"""

import os
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from ...errors import DataError
from .archive import Limits, unpack
from .download import Progress, Remote, advice, fetch


class Published(NamedTuple):
    """The names that a published data set's files have, and where they come from."""

    name: str
    folders: tuple[str, ...]  # below the data folder, in which to look; the first is the usual one
    files: tuple[str, ...]  # that must be in one of them together; "a|b" is either of two names
    remotes: tuple[Remote, ...] = ()
    limits: Limits | None = None  # of the archive that the first remote is, if it is one

    def find(self, root: str | PathLike[str]) -> Path:
        """Return the folder that holds the files, unpacked from the archive if need be."""
        root = Path(root)
        archive = self._archive(root)
        if self.limits and archive and not self._complete(root):
            unpack(archive, root / self.folders[0], self.limits)
        if found := self._complete(root):
            return found
        begun = [p for p in self._places(root) if len(self._missing(p)) < len(self.files)]
        lacks = f": {begun[0]} lacks {_few(self._missing(begun[0]))}" if begun else ""
        raise DataError(f"{self.name} is not in {root}{lacks}. {self.advice(root)}")

    def here(self, root: Path) -> bool:
        """Whether its files or its archive are there; nothing is opened."""
        return bool(self._complete(root) or self._archive(root))

    def get(self, root: Path, progress: Progress | None = None) -> tuple[Path, ...]:
        """Download every file, check it, and unpack the archive."""
        files = tuple(fetch(remote, self._into(root), progress) for remote in self.remotes)
        self.find(root)
        return files

    def advice(self, root: Path) -> str:
        """Say how to get the files, in one line."""
        if not self.remotes:
            return "It cannot be fetched: its publisher asks for an account"
        by_hand = advice(self.remotes[0], self._into(root))
        more = f"; likewise its other {len(self.remotes) - 1} files" if self.remotes[1:] else ""
        return f"`linsep data get {self.name}` fetches it. {by_hand}{more}"

    def _into(self, root: Path) -> Path:
        return root if self.limits else root / self.folders[0]

    def _archive(self, root: Path) -> Path | None:
        return path_of(root, self.remotes[0].name) if self.limits else None

    def _places(self, root: Path) -> list[Path]:
        return [root / folder for folder in self.folders]

    def _complete(self, root: Path) -> Path | None:
        return next((place for place in self._places(root) if not self._missing(place)), None)

    def _missing(self, place: Path) -> list[str]:
        return [name.partition("|")[0] for name in self.files if path_of(place, name) is None]


def path_of(folder: Path, name: str) -> Path | None:
    """Return the file of that name in a folder, under any of its spellings."""
    spelt = (folder / spelling for spelling in name.split("|"))
    return next((path for path in spelt if os.path.exists(path)), None)


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
