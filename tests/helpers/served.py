"""A server of `linsep serve` as a process of its own, on this machine alone, and how to ask it."""

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

START = 120  # seconds until a server must answer
EDGE = "edge-of-a-part"


class Reply(NamedTuple):
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Running(NamedTuple):
    process: "subprocess.Popen[str]"
    port: int
    log: Path

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body or None, named)
            answer = connection.getresponse()
            return Reply(answer.status, answer.read())
        finally:
            connection.close()

    def predict(self, *files: bytes, path: str = "/predict") -> Reply:
        return self.ask("POST", path, form(*files), Content_Type=FORM)

    def raw(self, *parts: bytes, pause: float = 0.0) -> bytes:
        """All that is answered to bytes, until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as line:
            try:
                for part in parts:
                    line.sendall(part)
                    time.sleep(pause)
            except OSError:  # refused before it ended
                pass
            found = b""
            while more := _received(line):
                found += more
            return found


def _received(line: socket.socket) -> bytes:
    try:
        return line.recv(1 << 16)
    except ConnectionResetError:
        return b""


FORM = f"multipart/form-data; boundary={EDGE}"


def part(content: bytes, disposition: str = 'form-data; name="images"; filename="x.png"') -> bytes:
    return f"--{EDGE}\r\nContent-Disposition: {disposition}\r\n\r\n".encode() + content + b"\r\n"


def form(*files: bytes) -> bytes:
    return b"".join(map(part, files)) + f"--{EDGE}--\r\n".encode()


def picture(seed: int = 0, size: tuple[int, int] = (12, 12), kind: str = "PNG") -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    content = BytesIO()
    Image.fromarray(pixels).save(content, kind)
    return content.getvalue()


@contextmanager
def serving(model: Path, *flags: str, log: Path) -> Iterator[Running]:
    """A server, which is stopped at the end."""
    words = "from linsep.cli import main; main()", "serve", str(model), "--port", "0", *flags
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", *words], stdout=output, stderr=output, text=True
        )
    try:
        yield Running(process, _port(process, log), log)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(process: "subprocess.Popen[str]", log: Path) -> int:
    end = time.monotonic() + START
    while time.monotonic() < end and process.poll() is None:
        if found := re.search(r"at http://127\.0\.0\.1:(\d+)\n", log.read_text()):
            return int(found[1])
        time.sleep(0.05)
    raise AssertionError(f"no server: {log.read_text()}")


def words_of(process: int) -> Sequence[str]:
    """The files that a process has mapped, where the system tells."""
    maps = Path(f"/proc/{process}/maps")
    return maps.read_text().split() if maps.exists() else ()
