"""Nothing is trusted: downloads, archives and pickles that are broken or mean harm are one line."""

import hashlib
import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from linsep.data.published import Remote, fetch, unpack
from linsep.data.standard import load_arrays
from linsep.errors import DataError
from tests.helpers.made_data import noise, write_pickle

CONTENT = bytes(range(256)) * 4000  # 1 024 000 bytes
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


class Server(BaseHTTPRequestHandler):
    ranges: ClassVar[list[str | None]] = []
    cut: ClassVar[int | None] = None  # bytes after which every answer breaks off
    resumes: ClassVar[bool] = True

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        Server.ranges.append(wanted)
        if self.path == "/moved.bin":
            self.send_response(302)
            self.send_header("Location", "http://example.org/set.bin")
            self.end_headers()
            return
        if self.path == "/none.bin":
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.resumes else 0
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        end = len(CONTENT) if Server.cut is None else start + Server.cut
        self.wfile.write(CONTENT[start:end])
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    Server.ranges, Server.cut, Server.resumes = [], None, True
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.server_port}"
    listening.shutdown()
    listening.server_close()
    thread.join()


def remote(server: str, md5: str = MD5, size: int = len(CONTENT), name: str = "set.bin") -> Remote:
    return Remote(f"{server}/{name}", md5, size)


def test_fetched_checked_and_not_fetched_again(server: str, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    path = fetch(remote(server), tmp_path / "deep", lambda done, total: seen.append((done, total)))
    assert path == tmp_path / "deep" / "set.bin"
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert fetch(remote(server), tmp_path / "deep") == path
    assert len(Server.ranges) == 1
    assert not list((tmp_path / "deep").glob("*.part"))


def test_a_cut_connection_goes_on_where_it_stopped(server: str, tmp_path: Path) -> None:
    Server.cut = 400_000
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT
    assert Server.ranges == [None, "bytes=400000-", "bytes=800000-"]


KILLED = """
import os, sys
from pathlib import Path
from linsep.data.published import Remote, fetch
url, md5, size, folder = sys.argv[1:]
def progress(done, total):
    if done > 300_000:
        os.kill(os.getpid(), 9)
fetch(Remote(url, md5, int(size)), Path(folder), progress)
"""


def test_a_killed_download_goes_on(server: str, tmp_path: Path) -> None:
    arguments = [f"{server}/set.bin", MD5, str(len(CONTENT)), str(tmp_path)]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments])
    assert killed.returncode == -9
    assert not (tmp_path / "set.bin").exists()
    there = (tmp_path / "set.bin.part").stat().st_size
    assert 0 < there < len(CONTENT)
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT
    assert Server.ranges == [None, f"bytes={there}-"]


def test_a_server_that_cannot_resume_starts_over(server: str, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(CONTENT[:1000])
    Server.resumes = False
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT


def test_wrong_content_never_gets_the_name(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"md5 is {MD5}, should be {'0' * 32}"):
        fetch(remote(server, md5="0" * 32), tmp_path)
    assert not (tmp_path / "set.bin").exists()
    assert not (tmp_path / "set.bin.part").exists()
    (tmp_path / "set.bin").write_bytes(b"something else")
    with pytest.raises(DataError, match=r"not the published set\.bin"):
        fetch(remote(server), tmp_path)
    assert (tmp_path / "set.bin").read_bytes() == b"something else"  # the user's: left alone


def test_more_than_was_published_is_not_read(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="more than the 500000 bytes"):
        fetch(remote(server, size=500_000), tmp_path)
    assert not (tmp_path / "set.bin").exists()


def test_refused_connection_is_one_line_with_file_place_and_checksum(tmp_path: Path) -> None:
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    port = listening.server_port
    listening.server_close()  # nobody answers there now
    with pytest.raises(DataError, match="Connection refused") as error:
        fetch(Remote(f"http://127.0.0.1:{port}/set.bin", MD5, 10), tmp_path)
    line = str(error.value)
    assert "\n" not in line
    assert "set.bin" in line
    assert f"put it at {tmp_path / 'set.bin'} (md5 {MD5})" in line


def test_missing_file_and_insecure_places(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"404.*again to resume.*put it at"):
        fetch(remote(server, name="none.bin"), tmp_path)
    with pytest.raises(DataError, match="not https"):
        fetch(Remote("http://example.org/set.bin", MD5, 10), tmp_path)
    with pytest.raises(DataError, match=r"http://example\.org/set\.bin is not https"):
        fetch(remote(server, name="moved.bin"), tmp_path)
    with pytest.raises(DataError, match="not https"):
        fetch(Remote("file:///etc/passwd", MD5, 10), tmp_path)


class Runs:
    """What a malicious pickle does: name a function and its argument."""

    def __init__(self, function: Callable[..., Any], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, ...]]:
        return self.call


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_malicious_pickle_runs_nothing(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "owned"
    calls = (Runs(os.system, f"touch {mark}"), Runs(eval, "1"), Runs(np.load, "file.npy"))
    for bad in calls:
        write_pickle(tmp_path / "bad", {b"data": bad}, protocol)
        with pytest.raises(DataError, match="only arrays and plain containers are allowed"):
            load_arrays(tmp_path / "bad")
    assert not mark.exists()
    write_pickle(tmp_path / "bad", {b"data": np.array([object, None])}, protocol)
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


def packed(path: Path, *names: str) -> Remote:
    """An archive of small files, and how it would be published."""
    whole = path.parent / "whole"
    for name in names:
        (whole / name).parent.mkdir(parents=True, exist_ok=True)
        (whole / name).write_bytes(b"new")
    kind = "zip" if path.suffix == ".zip" else "gztar"
    shutil.make_archive(str(path.parent / path.name.partition(".")[0]), kind, whole)
    shutil.rmtree(whole)
    md5 = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    return Remote(f"https://example.org/{path.name}", md5, path.stat().st_size)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_good_archives_unpack_once_and_over_a_killed_try(tmp_path: Path, kind: str) -> None:
    archive = tmp_path / f"set.{kind}"
    remote = packed(archive, "set/a", "set/deep/b")
    killed = tmp_path / "data" / ".set.unpacking"
    (killed / "set").mkdir(parents=True)
    (killed / "set" / "a").write_bytes(b"half")
    target = unpack(archive, remote, tmp_path / "data" / "set")
    assert (target / "a").read_bytes() == b"new"
    assert (target / "deep" / "b").exists()
    assert not killed.exists()
    archive.unlink()
    assert unpack(archive, remote, target) == target


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive_that_is_not_the_published_one_is_not_unpacked(
    tmp_path: Path, kind: str
) -> None:
    """Another set's, one that was cut off, one with a changed bit: nothing of it is written."""
    archive = tmp_path / f"set.{kind}"
    remote = packed(archive, "set/a")
    whole = archive.read_bytes()
    for content in (b"", whole[:40], whole[:-1], bytes([whole[0] ^ 1]) + whole[1:], whole + b"x"):
        archive.write_bytes(content)
        with pytest.raises(DataError, match=rf"not the published set\.{kind}: md5 is"):
            unpack(archive, remote, tmp_path / "data" / "set")
        assert [p.name for p in (tmp_path / "data").iterdir()] == [".set.lock"]
        assert archive.read_bytes() == content  # the user's: left alone
