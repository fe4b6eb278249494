"""The plug is pulled: what had reached the disk is enough to end as the uninterrupted run does."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from linsep.classifier.teaching import Teaching
from linsep.storage import manifest
from linsep.storage.folder import RunFolder
from linsep.storage.manifest import Params
from linsep.storage.resumable import Resumable
from tests.helpers.made_data import noise
from tests.helpers.real_runs import contents, model_contents, straight

CUTS = 20
IMAGES, LABELS = noise(0, 20, 8, 8), ["ant", "bee"] * 10
WAYS = ("old names", "new names")


class Disk:
    """Remembers what a folder would hold after a power cut.

    A file's bytes last from its fsync on. A name, new, replaced or removed, lasts from the fsync
    of its folder on ("old names"); many file systems write names earlier than bytes, so that files
    are there and empty ("new names"). Both are tried.
    """

    def __init__(self, root: Path, images: Path) -> None:
        self.root, self.images = root, images
        self.moments = self.saves = 0
        self.wanted: set[int] = set()
        self.taken: list[tuple[Path, int]] = []  # an image, and how many saves had ended by then
        self._bytes: dict[int, bytes] = {}  # by inode, as last flushed
        self._names: dict[Path, dict[str, int]] = {}  # by folder, as last flushed
        self._handles: list[int] = []  # kept open, so that no inode is used twice

    @contextmanager
    def recording(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        replace, save = os.replace, Resumable.save

        def noted_replace(source: Any, target: Any) -> None:
            self._moment()
            replace(source, target)
            self._moment()

        def noted_save(session: Resumable) -> None:
            save(session)
            self.saves += 1
            self._moment()

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", self._fsync)
            patch.setattr(os, "replace", noted_replace)
            patch.setattr(Resumable, "save", noted_save)
            yield
        for handle in self._handles:
            os.close(handle)

    def _fsync(self, handle: int) -> None:
        self._moment()
        path, found = Path(os.readlink(f"/proc/self/fd/{handle}")), os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            self._names[path] = {e.name: e.inode() for e in os.scandir(path)}
        else:
            self._handles.append(os.dup(handle))
            self._bytes[found.st_ino] = path.read_bytes()
        self._moment()

    def _moment(self) -> None:
        self.moments += 1
        if self.moments in self.wanted:
            for way in WAYS:
                image = self.images / f"{self.moments} {way}"
                self._image(self.root, image, way)
                self.taken.append((image, self.saves))

    def _image(self, folder: Path, image: Path, way: str) -> None:
        image.mkdir()
        now = {entry.name: entry.inode() for entry in os.scandir(folder)}
        for name, inode in (self._names.get(folder, {}) if way == "old names" else now).items():
            path = folder / name
            if path.is_dir():
                self._image(path, image / name, way)
            else:
                (image / name).write_bytes(self._bytes.get(inode, b""))


def run(place: Path) -> tuple[Path, dict[str, Any]]:
    folder = straight(place)
    return folder, contents(folder)


def lesson(place: Path) -> tuple[Path, dict[str, Any]]:
    """One more task for a classifier, with a save at every event."""
    params = Params(method="er", net="mlp", memory=4, epochs=2, batch_size=8)
    with Teaching(place / "model", IMAGES, LABELS, new=params, save_every=0.0) as teaching:
        for _ in teaching:
            pass
    return place / "model", model_contents(place / "model")


@pytest.mark.slow
@pytest.mark.parametrize("work", [run, lesson])
def test_a_run_and_a_lesson_survive_power_cuts(
    work: Callable[[Path], tuple[Path, dict[str, Any]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def disk(name: str) -> Disk:
        for part in ("runs", "images"):
            (tmp_path / name / part).mkdir(parents=True)
        return Disk(tmp_path / name / "runs", tmp_path / name / "images")

    counted = disk("counted")
    with counted.recording(monkeypatch):
        folder, expected = work(counted.root)
    cut = disk("cut")
    cut.wanted = {counted.moments * i // CUTS for i in range(1, CUTS + 1)}
    with cut.recording(monkeypatch):
        work(cut.root)
    assert len(cut.taken) == CUTS * len(WAYS)
    for image, saves in cut.taken:
        found = RunFolder(image / folder.name)
        begun = found.begun or found.finished or found.has(manifest.NAME)
        assert begun >= (saves > 0), f"{image.name}: {saves} saves are lost"
        assert work(image)[1] == expected, image.name
