"""The prepared images: made once, right, whole or not there at all."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from linsep.data import cache
from linsep.data.cache import Listing, Treatment, folder_of, prepared, verify
from linsep.data.decoding import read_image
from linsep.data.images import DuplicateWarning
from linsep.data.listings import list_folder
from linsep.errors import DataError
from tests.helpers.made_data import write_folder, write_image

HOW = Treatment()


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LINSEP_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "d", count=8)


def test_images_are_those_of_the_files_in_order(root: Path) -> None:
    listing = list_folder(root)
    data = prepared(listing, HOW)
    for part, files in ((data.train, listing.train), (data.test, listing.test)):
        want = np.stack([read_image(file.path) for file in files])
        assert torch.equal(part.pixels(), torch.from_numpy(want))
    rows = torch.tensor([3, 1, 1])
    assert torch.equal(data.test.take(rows).pixels(), data.test.pixels()[rows])


def test_decoded_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    first = prepared(list_folder(root), HOW, lambda done, total: seen.append((done, total)))
    assert seen == [(0, 32), (32, 32)]
    monkeypatch.setattr(cache, "read_image", lambda *_, **__: pytest.fail("decoded again"))
    second = prepared(list_folder(root), HOW)
    assert torch.equal(first.train.pixels(), second.train.pixels())
    assert first.digest == second.digest


def test_digest_is_of_the_content_not_the_place(root: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(root, tmp_path / "elsewhere", copy_function=shutil.copy)
    one, two = (prepared(list_folder(place), HOW).digest for place in (root, moved))
    assert one == two
    write_image(moved / "train" / "ant" / "0.png", 999)
    assert prepared(list_folder(moved), HOW).digest != one
    grey = prepared(list_folder(root), Treatment(channels=1)).digest
    assert grey != one


def test_duplicates_are_counted_and_warned_of(root: Path) -> None:
    for i in range(2):
        shutil.copy(root / "train" / "ant" / f"{i}.png", root / "test" / "ant" / f"{i}.png")
    with pytest.warns(DuplicateWarning, match="2 test images are also training images"):
        prepared(list_folder(root), HOW)
    with pytest.warns(DuplicateWarning, match="2 test images"):  # from the cache, too
        prepared(list_folder(root), HOW)


KILLED = """
import os, sys
from pathlib import Path
from linsep.data import cache
from linsep.data.listings import list_folder
cache.STEP = 12 * 12 * 3 * 4  # four images at a time
stop = int(sys.argv[2])
def progress(done, total):
    if done >= stop:
        os.kill(os.getpid(), 9)
cache.prepared(list_folder(Path(sys.argv[1])), cache.Treatment(), progress)
"""


def stopped(listing: Listing, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin to prepare, four images at a time, and stop after so many."""

    def progress(done: int, total: int) -> None:
        if done >= after:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(cache, "STEP", 12 * 12 * 3 * 4)
        with pytest.raises(KeyboardInterrupt):
            prepared(listing, HOW, progress)


@pytest.mark.parametrize(("stop", "kill"), [(12, True), (32, False)])
def test_a_stopped_prepare_goes_on(
    root: Path, monkeypatch: pytest.MonkeyPatch, stop: int, kill: bool
) -> None:
    listing = list_folder(root)
    if kill:
        killed = subprocess.run([sys.executable, "-c", KILLED, str(root), str(stop)])
        assert killed.returncode == -9
    else:
        stopped(listing, stop, monkeypatch)
    target = folder_of(listing, HOW)
    assert not target.exists()
    assert target.with_name(target.name + ".part").exists()
    read: list[Path] = []

    def counted(path: Path, **how: object) -> object:
        read.append(path)
        return read_image(path)

    monkeypatch.setattr(cache, "read_image", counted)
    data = prepared(listing, HOW)
    assert len(read) == 32 - stop + 1  # the first one for its shape
    want = np.stack([read_image(file.path) for file in listing.train])
    assert torch.equal(data.train.pixels(), torch.from_numpy(want))
    assert verify(target) == 32


def test_what_was_left_behind_is_verified(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that were never flushed, or flipped since, are decoded again."""
    listing = list_folder(root)
    stopped(listing, 12, monkeypatch)
    part = folder_of(listing, HOW).with_name(folder_of(listing, HOW).name + ".part")
    raw = bytearray((part / "pixels.u8").read_bytes())
    raw[5 * 432] ^= 1  # in the sixth image
    (part / "pixels.u8").write_bytes(raw + b"half an image")
    data = prepared(listing, HOW)
    want = np.stack([read_image(file.path) for file in listing.train])
    assert torch.equal(data.train.pixels(), torch.from_numpy(want))


@pytest.mark.parametrize("name", ["pixels.u8", "manifest.json", "digests.bin"])
def test_damage_to_a_prepared_set_is_found(root: Path, name: str) -> None:
    listing = list_folder(root)
    target = folder_of(listing, HOW)
    assert prepared(listing, HOW).cached == target
    raw = bytearray((target / name).read_bytes())
    raw[len(raw) // 2] ^= 1
    (target / name).write_bytes(raw)
    if name != "manifest.json":
        with pytest.raises(DataError, match="changed"):
            verify(target)
    (target / name).write_bytes(raw[:10])
    with pytest.raises(DataError, match=r"changed|not a readable prepared data set"):
        verify(target)
    if name != "digests.bin":
        with pytest.raises(DataError, match=r"changed|not a readable prepared data set"):
            prepared(listing, HOW)
