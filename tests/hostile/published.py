"""Published data sets that are not what they should be: pickles, idx files, archives."""

import io
import pickle
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers.made_data import idx, noise

from .badness import CONTENTS, PLACES
from .case import Case, Spoil, putting, writing


def kinds() -> dict[str, list[Case]]:
    return {"pickles": list(_pickles()), "idx": list(_idx()), "archives": list(_archives())}


def commands(source: str, path: str) -> list[tuple[str, ...]]:
    data = ("--data", path)
    return [
        ("data", "check", source, *data),
        ("data", "prepare", source, *data),
        ("data", "draw", source, *data, "-o", "x.png", "--per-task", "1"),
        ("run", "--scenario", source, *data, "--set", "scenario.per_task=1", "--method", "ft",
         "--net", "mlp", "--epochs", "1", "--set", "training.batch_size=4", "-q"),
    ]  # fmt: skip


def spread(
    found: Iterator[tuple[str, Spoil]] | Sequence[tuple[str, Spoil]], source: str, path: str
) -> Iterator[Case]:
    """Each bad thing with the next of the commands that read data."""
    tried = commands(source, path)
    for i, (name, spoil) in enumerate(found):
        words = tried[i % len(tried)]
        yield Case(f"{source} {name}: {words[0]} {words[1]}", words, spoil)


def _pickles() -> Iterator[Case]:
    good: dict[Any, Any] = {b"data": noise(0, 4, 3072), b"labels": [0, 1, 0, 1]}
    wrong: tuple[Any, ...] = (
        None, True, -1, 10**30, float("nan"), "x", b"\xff", [], {}, [[]], {"a": 1}, (), [None],
        np.zeros(0), np.zeros((4, 3072)), np.zeros((4, 3071), np.uint8), np.array("x"), range(3),
        np.zeros(4, "M8[s]"), Path("x"), [0, 1, 0, 99], [0, 1, -1, 0], [0, 1], ["a"] * 4, [1.5] * 4,
    )  # fmt: skip
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta"]
    bad: list[tuple[str, Any]] = [(f"all {str(v)[:20]}", v) for v in wrong]
    for key in good:
        bad.append((f"{key} missing", {k: v for k, v in good.items() if k != key}))
        bad += [(f"{key} = {str(v)[:20]}", good | {key: v}) for v in wrong]

    def cifar(content: bytes, at: int) -> Spoil:
        def spoil(room: Path) -> None:
            (room / "c").mkdir()
            whole = [pickle.dumps(good, 2)] * 6 + [pickle.dumps({b"label_names": [b"a"] * 10}, 2)]
            for name, made in zip(names, [*whole[:at], content, *whole[at + 1 :]], strict=True):
                (room / "c" / name).write_bytes(made)

        return spoil

    found = [
        (name, cifar(pickle.dumps(value, i % 6), (0, 5, 6)[i % 3]))
        for i, (name, value) in enumerate(bad)
    ]
    whole = pickle.dumps(good, 2)
    found += [(f"{n} bytes", cifar(make(whole), 0)) for n, make in CONTENTS.items()]
    yield from spread(found, "cifar10", "c")


def _idx() -> Iterator[Case]:
    files = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte",
             "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")  # fmt: skip
    good = [idx(noise(i, *shape)) for i, shape in enumerate(((4, 28, 28), (4,)) * 2)]
    ways: dict[str, Callable[[bytes], bytes]] = {
        **CONTENTS,
        "as it is": lambda whole: whole,
        "of floats": lambda whole: b"\0\0\x0d" + whole[3:],
        "many": lambda whole: whole[:4] + b"\xff" * 4 + whole[8:],
        "60000": lambda whole: whole[:4] + (60_000).to_bytes(4, "big") + whole[8:],
        "no header": lambda whole: whole[8:],
        "header alone": lambda whole: whole[:6],
        "gzip": lambda whole: b"\x1f\x8b\x08" + whole,
    }
    for source in ("mnist", "fashion-mnist"):
        found = []
        for end in ("", ".gz"):
            for i, (name, make) in enumerate(ways.items()):
                contents = [make(c) if k == i % 4 else c for k, c in enumerate(good)]
                places = [f"m/{file}{end}" for file in files]
                found.append((f"{name}{end}", _all(dict(zip(places, contents, strict=True)))))
        yield from spread(found, source, "m")


def _all(contents: dict[str, bytes]) -> Spoil:
    def spoil(room: Path) -> None:
        for path, content in contents.items():
            writing(path, content)(room)

    return spoil


def _archives() -> Iterator[Case]:
    """None of these has the checksum of the published archive."""
    whole = zipped({"tiny-imagenet-200/wnids.txt": b"a"})
    archives = (("cifar10", "cifar-10-python.tar.gz"), ("tinyimagenet", "tiny-imagenet-200.zip"))
    for source, name in archives:
        path = f"z/{name}"
        found = [(f"archive {n}", writing(path, make(whole))) for n, make in CONTENTS.items()]
        found += [(f"archive {n}", putting(path, make)) for n, make in PLACES.items()]
        yield from spread(found, source, "z")


def zipped(contents: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return out.getvalue()
