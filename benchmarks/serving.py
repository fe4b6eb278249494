"""Load on `linsep serve`: speed against a bare onnxruntime loop, and lessons swapped meanwhile.

A CNN reads 28x28 pixels of fashion-mini, so that the server's own work is most of the time. Clients
are threads of this process, each with one connection and one image in a request; the server is a
process of its own on 127.0.0.1. Every answer is compared with what the model of its digest predicts
for that image.
"""

import itertools
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from io import BytesIO
from json import loads
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from PIL import Image

from linsep import IncrementalClassifier
from linsep.compare.tables import Table
from linsep.data.decoding import read_image
from linsep.data.standard import fashion_mini
from linsep.serving.model import opened
from linsep.storage import manifest

IMAGES, EDGE = 50, "edge-of-a-part"
START, PATIENCE = 180.0, 180.0  # seconds for a server to start, and to pick up a lesson
WITHIN = 1e-4
Expected = Mapping[str, Sequence[tuple[str, float]]]  # by digest: class and probability of images


class Load(NamedTuple):
    """What clients saw."""

    seconds: list[float]  # of each request
    wall: float
    lost: int  # requests without an answer, or with an error
    mixed: int  # answers that are not those of the model that they name
    models: int  # digests in answers
    cpu: float  # seconds of the process that answers

    @property
    def per_second(self) -> float:
        return len(self.seconds) / self.wall

    @property
    def p99(self) -> float:
        return float(np.percentile(self.seconds, 99)) if self.seconds else float("nan")


class Found(NamedTuple):
    bare: Load
    quiet: Load
    swapping: Load
    swaps: int


def measure(requests: int = 10_000, lessons: int = 10, clients: int = 8) -> Found:
    """Serve a model, and teach it lesson after lesson while clients go on asking."""
    sent = pictures()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "model")
        taught = teach()
        clf, digest, answers = next(taught)
        clf.save(folder)
        expected = {digest: answers}
        alone = bare(folder, sent, requests // 4)
        with served(folder) as (port, process):
            with Clients(port, process, sent, expected, clients) as running:
                quiet = running.seen(requests // 4)
            with Clients(port, process, sent, expected, clients) as running:
                for clf, digest, answers in itertools.islice(taught, lessons):
                    expected[digest] = answers  # before any client can see it
                    clf.save(folder)
                    await_model(port, digest)
                found = running.seen(requests)
    return Found(alone, quiet, found, lessons)


def table(found: Found) -> Table:
    rows = [
        (name, load.per_second, 1000 * load.p99, 1000 * load.cpu / len(load.seconds),
         len(load.seconds), load.lost, load.mixed)
        for name, load in (
            ("a bare onnxruntime loop", found.bare),
            ("linsep serve", found.quiet),
            (f"linsep serve, {found.swaps} lessons swapped", found.swapping),
        )
    ]  # fmt: skip
    columns = ("", "requests/s", "p99, ms", "CPU ms/request", "requests", "lost", "mixed")
    return Table(columns, rows, digits=2)


# --- the model ------------------------------------------------------------------------------------


def pictures() -> list[bytes]:
    """Test images as PNG files."""
    pixels = fashion_mini().test.pixels().numpy()[:IMAGES, 0]
    return [_png(one) for one in pixels]


def _png(pixels: Any) -> bytes:
    content = BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


def teach() -> Iterator[tuple[IncrementalClassifier, str, list[tuple[str, float]]]]:
    """A classifier after each lesson, with its digest and what it answers."""
    data = fashion_mini()
    x, y = data.train.pixels().numpy(), np.array(data.names)[data.train.y]
    test = data.test.pixels().numpy()[:IMAGES]
    clf = IncrementalClassifier("er", "cnn", memory=100, epochs=1, like="fashion-mini")
    kept = [c for c in data.names if c in set(y)]
    for lesson in itertools.count():
        shown = kept[:2] if not lesson else [kept[min(1 + lesson, len(kept) - 1)]]
        rows = np.isin(y, shown).nonzero()[0][lesson % 5 :: 5]
        clf.partial_fit(x[rows], y[rows])
        with tempfile.TemporaryDirectory() as beside:
            clf.save(beside)
            digest = manifest.read(Path(beside)).version
        p = clf.predict_proba(test)
        best = p.argmax(1)
        answers = [(str(clf.classes_[c]), float(row[c])) for c, row in zip(best, p, strict=True)]
        yield clf, digest, answers


def bare(folder: Path, sent: Sequence[bytes], count: int) -> Load:
    """Decode and run one image after the other with onnxruntime, in this process."""
    model = opened(folder)
    seconds, begun, cpu = [], time.perf_counter(), time.process_time()
    for content in itertools.islice(itertools.cycle(sent), count):
        start = time.perf_counter()
        model.answer(read_image(content, channels=1, side=28).transpose(1, 2, 0)[None])
        seconds.append(time.perf_counter() - start)
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    return Load(seconds, wall, 0, 0, 1, cpu)


# --- the server and its clients -------------------------------------------------------------------


@contextmanager
def served(model: Path) -> Iterator[tuple[int, int]]:
    """The port and process of a server, which is stopped at the end."""
    with tempfile.TemporaryFile("w+") as log:
        words = "from linsep.cli import main; main()", "serve", str(model), "--port", "0"
        process = subprocess.Popen([sys.executable, "-c", *words], stdout=log, stderr=log)
        try:
            yield _port(process, log), process.pid
        finally:
            process.terminate()
            process.wait()


def _port(process: "subprocess.Popen[bytes]", log: Any) -> int:
    end, text = time.monotonic() + START, ""
    while time.monotonic() < end and process.poll() is None:
        log.seek(0)
        text = log.read()
        if found := re.search(r"at http://127\.0\.0\.1:(\d+)\n", text):
            return int(found[1])
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start: {text}")


def await_model(port: int, digest: str) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        line = HTTPConnection("127.0.0.1", port, timeout=30)
        line.request("GET", "/healthz")
        now = loads(line.getresponse().read())["model"]
        line.close()
        if now == digest:
            return
        time.sleep(0.2)
    raise RuntimeError(f"the server did not pick up {digest}")


def cpu_of(process: int) -> float:
    """CPU seconds of a process without its children, where the system tells."""
    told = Path(f"/proc/{process}/stat")
    if not told.exists():
        return float("nan")
    fields = told.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Clients:
    """Threads that ask until they are told to end."""

    def __init__(
        self, port: int, process: int, sent: Sequence[bytes], expected: Expected, count: int
    ) -> None:
        self._port, self._process, self._sent, self._expected = port, process, sent, expected
        self._seconds: list[float] = []
        self._lost, self._mixed, self._models = 0, 0, set[str]()
        self._enough = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._ask, args=(i,)) for i in range(count)]

    def __enter__(self) -> Self:
        self._begun, self._cpu = time.perf_counter(), cpu_of(self._process)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join()

    def seen(self, least: int) -> Load:
        """What was seen, once there were so many requests."""
        while len(self._seconds) + self._lost < least:
            time.sleep(0.05)
        self.__exit__()
        wall = time.perf_counter() - self._begun
        cpu = cpu_of(self._process) - self._cpu
        return Load(self._seconds, wall, self._lost, self._mixed, len(self._models), cpu)

    def _ask(self, first: int) -> None:
        line = HTTPConnection("127.0.0.1", self._port, timeout=60)
        for i in itertools.count(first):
            if self._enough.is_set():
                break
            place = i % len(self._sent)
            start = time.perf_counter()
            try:
                line.request("POST", "/predict", _form(self._sent[place]), _KIND)
                answer = line.getresponse()
                status, body = answer.status, answer.read()
            except OSError:
                status, body = 0, b""
                line.close()
            self._note(place, status, body, time.perf_counter() - start)
        line.close()

    def _note(self, place: int, status: int, body: bytes, seconds: float) -> None:
        told = loads(body) if status == 200 else {}
        with self._lock:
            if not told:
                self._lost += 1
                return
            self._seconds.append(seconds)
            self._models.add(told["model"])
            (one,) = told["predictions"]
            wanted = self._expected.get(told["model"])
            self._mixed += wanted is None or not _agree(one, *wanted[place])


def _agree(told: Mapping[str, Any], label: str, p: float) -> bool:
    return told["class"] == label and abs(told["probability"] - p) < WITHIN


_KIND = {"Content-Type": f"multipart/form-data; boundary={EDGE}"}


def _form(content: bytes) -> bytes:
    head = f'--{EDGE}\r\nContent-Disposition: form-data; name="images"; filename="x.png"\r\n\r\n'
    return head.encode() + content + f"\r\n--{EDGE}--\r\n".encode()
