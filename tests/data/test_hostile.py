"""Nothing is trusted: every file that is broken or means harm ends in one clear line."""

import io
import os
import pickle
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linsep.data.sources import cifar
from linsep.data.sources.cifar import load_arrays
from linsep.data.sources.published import Limits, unpack
from linsep.errors import DataError
from tests.helpers.made_data import SMALL, noise, write_cifar, write_pickle

LIMITS = Limits(files=20, bytes=1_000_000)


class Runs:
    """What a malicious pickle does: name a function and its argument."""

    def __init__(self, function: Callable[..., Any], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, ...]]:
        return self.call


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_malicious_pickle_runs_nothing(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "owned"
    for bad in (Runs(os.system, f"touch {mark}"), Runs(eval, "1"), Runs(Path, "x")):
        write_pickle(tmp_path / "bad", {b"data": bad}, protocol)
        with pytest.raises(DataError, match="only arrays and plain containers are allowed"):
            load_arrays(tmp_path / "bad")
    assert not mark.exists()


def test_numpy_itself_is_not_reachable(tmp_path: Path) -> None:
    """`numpy.f2py`, `numpy.load` and the like are as dangerous as os.system."""
    write_pickle(tmp_path / "bad", {b"data": Runs(np.load, "file.npy")})
    with pytest.raises(DataError, match="asks for numpy"):
        load_arrays(tmp_path / "bad")
    write_pickle(tmp_path / "bad", {b"data": np.array([object, None])})
    with pytest.raises(DataError):
        load_arrays(tmp_path / "bad")


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_honest_arrays_come_through_every_protocol(tmp_path: Path, protocol: int) -> None:
    content = {
        b"data": noise(0, 5, 7),
        "floats": np.arange(6, dtype=">f4").reshape(2, 3),
        "columns": np.asfortranarray(noise(1, 3, 4)),
        b"labels": [1, 2],
        "nested": {"a": (1, "b")},
    }
    write_pickle(tmp_path / "good", content, protocol)
    found = load_arrays(tmp_path / "good")
    for name in ("data", "floats", "columns"):
        np.testing.assert_array_equal(found[name], content.get(name, content.get(name.encode())))
    assert found["labels"] == [1, 2]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x80\x02",
        b"not a pickle at all",
        b"\x80\x02}q\x00(U\x04dataq\x01",
        b"\x80\x02]q\x00.",  # a list
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f",  # a frame of eight exabytes
    ],
)
def test_broken_pickles_are_named(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "broken").write_bytes(raw)
    with pytest.raises(DataError, match="broken"):
        load_arrays(tmp_path / "broken")


def test_cut_pickle_is_named(tmp_path: Path) -> None:
    folder = write_cifar(tmp_path)
    file = folder / "data_batch_2"
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(DataError, match="data_batch_2"):
        cifar.read(tmp_path, SMALL)


def test_array_that_lies_about_its_shape(tmp_path: Path) -> None:
    raw = pickle.dumps({"data": noise(0, 4, 4)}, 2)
    assert raw.count(b"K\x04K\x04\x86") == 1
    (tmp_path / "liar").write_bytes(raw.replace(b"K\x04K\x04\x86", b"K\x04K\xff\x86"))
    with pytest.raises(DataError, match="do not fill the shape"):
        load_arrays(tmp_path / "liar")


def test_huge_pickle_is_not_opened(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 31)  # a hole: takes no space
    with pytest.raises(DataError, match="has 2147483648 bytes"):
        load_arrays(tmp_path / "huge")


def tar_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def plain(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    "info",
    [
        plain("../escaped"),
        plain("set/../../escaped"),
        plain("set/link", tarfile.SYMTYPE, "/etc"),
        plain("set/link", tarfile.SYMTYPE, "../../.."),
        plain("set/hard", tarfile.LNKTYPE, "../../a"),
        plain("set/null", tarfile.CHRTYPE),
        plain("set/pipe", tarfile.FIFOTYPE),
    ],
)
def test_tar_members_that_leave_or_are_devices(tmp_path: Path, info: tarfile.TarInfo) -> None:
    archive = tar_of(tmp_path / "set.tar.gz", (plain("set/a"), b"a"), (info, b""))
    with pytest.raises(DataError, match=r"set\.tar\.gz cannot be unpacked: '.*"):
        unpack(archive, tmp_path / "data" / "set", LIMITS)
    assert not list(tmp_path.rglob("escaped"))
    assert [p for p in (tmp_path / "data").iterdir() if not p.name.endswith(".lock")] == []


def test_a_zip_writes_nothing_outside_and_no_links(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("set/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as zipped:
        zipped.writestr("../../escaped", b"a")
        zipped.writestr(f"{tmp_path}/escaped", b"a")
        zipped.writestr(link, "/etc/passwd")
    unpack(tmp_path / "set.zip", tmp_path / "in" / "set", LIMITS)
    assert not (tmp_path / "in" / "set" / "link").is_symlink()
    assert not list(tmp_path.rglob("escaped"))


def test_bombs_are_not_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("set/zeros", bytes(5_000_000))
    archive = tar_of(tmp_path / "b.tar.gz", (plain("set/zeros"), bytes(5_000_000)))
    for bomb in (tmp_path / "b.zip", archive):
        assert bomb.stat().st_size < 20_000
        with pytest.raises(DataError, match="bomb"):
            unpack(bomb, tmp_path / "set", LIMITS)
    many = tar_of(tmp_path / "m.tar.gz", *((plain(f"set/{i}"), b"") for i in range(30)))
    with pytest.raises(DataError, match="more than the 20 files"):
        unpack(many, tmp_path / "set", LIMITS)
    assert not (tmp_path / "set").exists()


def test_bomb_in_a_header_is_not_unpacked(tmp_path: Path) -> None:
    """A long name of many megabytes is read before the member is known."""
    long = plain("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    archive = tar_of(tmp_path / "b.tar.gz", (long, b"a" * 30_000_000), (plain("set/a"), b"a"))
    with pytest.raises(DataError, match="bomb"):
        unpack(archive, tmp_path / "set", LIMITS)


def test_member_longer_than_it_says(tmp_path: Path) -> None:
    path = tmp_path / "liar.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("set/a", bytes(500_000))
    raw = path.read_bytes()
    path.write_bytes(raw.replace((500_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(DataError, match=r"set/a|cannot be unpacked"):
        unpack(path, tmp_path / "set", LIMITS)
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize("keep", [0, 40, 300])
def test_cut_archives_are_named(tmp_path: Path, keep: int) -> None:
    archive = tar_of(tmp_path / "set.tar.gz", (plain("set/a"), noise(0, 5000).tobytes()))
    archive.write_bytes(archive.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"set\.tar\.gz"):
        unpack(archive, tmp_path / "set", LIMITS)
    assert not (tmp_path / "set").exists()


def test_archive_of_another_set(tmp_path: Path) -> None:
    archive = tar_of(tmp_path / "other.tar.gz", (plain("other/a"), b"a"))
    with pytest.raises(DataError, match="it has no set/"):
        unpack(archive, tmp_path / "set", LIMITS)


def test_good_archives_unpack_once_and_over_a_killed_try(tmp_path: Path) -> None:
    archive = tar_of(
        tmp_path / "set.tar.gz",
        (plain("set", tarfile.DIRTYPE), b""),
        (plain("set/a"), b"new"),
        (plain("set/deep/b"), b""),
    )
    killed = tmp_path / ".set.unpacking"
    (killed / "set").mkdir(parents=True)
    (killed / "set" / "a").write_bytes(b"half")
    target = unpack(archive, tmp_path / "set", LIMITS)
    assert (target / "a").read_bytes() == b"new"
    assert (target / "deep" / "b").exists()
    assert not killed.exists()
    archive.unlink()
    assert unpack(archive, tmp_path / "set", LIMITS) == target


def test_zip_with_an_unknown_compression_method(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as zipped:
        zipped.writestr("set/a", b"a")
    raw = bytearray((tmp_path / "set.zip").read_bytes())
    for header, offset in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        raw[raw.find(header) + offset] = 99
    (tmp_path / "set.zip").write_bytes(raw)
    with pytest.raises(DataError, match=r"set\.zip cannot be unpacked: .*compression"):
        unpack(tmp_path / "set.zip", tmp_path / "set", LIMITS)
