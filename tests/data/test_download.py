"""Fetching against a server of our own: cut, killed, refused, wrong, redirected."""

import hashlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from linsep.data.sources.published import Remote, fetch
from linsep.errors import DataError

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
from linsep.data.sources.published import Remote, fetch
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


def test_part_of_another_file_is_not_taken(server: str, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(b"x" * 1000)
    with pytest.raises(DataError, match="not the published"):
        fetch(remote(server), tmp_path)
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT


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
