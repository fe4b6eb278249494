"""MNIST and Fashion-MNIST: four idx files, as they are or with .gz.

Knows the idx format and where people keep these files, Debian's package included. Both sets use the
same file names, so which of the two was found is told by the number of images per class.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import DataError
from ..images import Dataset, Images
from .download import Remote, advice

PARTS = ("train", "t10k")
NAMES = ("{part}-{kind}-{idx}-ubyte", "{part}-{kind}.{idx}-ubyte")  # both are about
KINDS = {"images": "idx3", "labels": "idx1"}
CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


@dataclass(frozen=True)
class Layout:
    name: str
    folders: tuple[str, ...]  # where the files may be, below the data folder
    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], tuple[int, ...]]  # images per class, training and test
    remotes: tuple[Remote, ...]
    elsewhere: tuple[str, ...] = ()  # folders that a system package fills


def _remotes(base: str, files: tuple[tuple[str, str, int], ...]) -> tuple[Remote, ...]:
    return tuple(Remote(f"{base}/{name}.gz", md5, size) for name, md5, size in files)


MNIST = Layout(
    name="mnist",
    folders=("MNIST/raw", "mnist", "MNIST", "."),
    names=tuple("0123456789"),
    counts=(
        (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
        (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    ),
    remotes=_remotes(
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        (
            ("train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
            ("train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432", 28_881),
            ("t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3", 1_648_877),
            ("t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c", 4_542),
        ),
    ),
)

FASHION_MNIST = Layout(
    name="fashion-mnist",
    folders=("FashionMNIST/raw", "fashion-mnist", "FashionMNIST", "fashion_mnist", "."),
    names=CLOTHES,
    counts=((6000,) * 10, (1000,) * 10),
    remotes=_remotes(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
        (
            ("train-images-idx3-ubyte", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
            ("train-labels-idx1-ubyte", "25c81989df183df01b3e8a0aad5dffbe", 29_515),
            ("t10k-images-idx3-ubyte", "bef4ecab320f06d8554ea6380940ec79", 4_422_102),
            ("t10k-labels-idx1-ubyte", "bb300cfdad3c16e7a12a480ee83cd310", 5_148),
        ),
    ),
    elsewhere=("/usr/share/datasets/fashion-mnist",),
)


def mnist(root: Path) -> Dataset:
    """70 000 handwritten digits, 28x28 grey: 60 000 for training and 10 000 for testing."""
    return read(root, MNIST)


def fashion_mnist(root: Path) -> Dataset:
    """70 000 pictures of 10 kinds of clothes, 28x28 grey: 6000 and 1000 of each."""
    return read(root, FASHION_MNIST)


def read(root: Path, layout: Layout) -> Dataset:
    files = find(root, layout)
    parts = []
    for part, counts in zip(PARTS, layout.counts, strict=True):
        x = read_idx(files[part, "images"], (sum(counts), 28, 28))
        y = read_idx(files[part, "labels"], (sum(counts),)).astype(np.int64)
        found = np.bincount(y, minlength=len(counts))
        if tuple(found.tolist()) != counts:
            raise DataError(
                f"{files[part, 'labels']} is not {layout.name}'s: images per class are "
                f"{found.tolist()}, should be {list(counts)}"
            )
        parts.append(Images.of(torch.from_numpy(x).unsqueeze(1), torch.from_numpy(y)))
    return Dataset(parts[0], parts[1], layout.names)


def find(root: Path, layout: Layout) -> dict[tuple[str, str], Path]:
    """The four files, all from the first folder that has them."""
    for folder in [*(root / f for f in layout.folders), *map(Path, layout.elsewhere)]:
        files = {(p, k): _first(folder, p, k) for p in PARTS for k in KINDS}
        found = {key: path for key, path in files.items() if path is not None}
        if len(found) == len(files):
            return found
        if found:
            gone = ", ".join(f"{part}-{kind}" for part, kind in files if (part, kind) not in found)
            raise DataError(f"{folder} lacks the files {gone} of {layout.name}")
    place = root / layout.folders[0]
    raise DataError(
        f"{layout.name} is not in {root}. `linsep data get {layout.name}` fetches it. "
        + advice(layout.remotes[0], place)
        + f"; and so for the other {len(layout.remotes) - 1} files"
    )


def _first(folder: Path, part: str, kind: str) -> Path | None:
    def places() -> Iterator[Path]:
        for name in NAMES:
            plain = folder / name.format(part=part, kind=kind, idx=KINDS[kind])
            yield plain
            yield plain.with_name(plain.name + ".gz")

    return next((path for path in places() if path.exists()), None)


def read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """An idx file of bytes that must have this shape; no more than that is ever unpacked."""
    size, header = int(np.prod(shape)), 4 + 4 * len(shape)
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(header + size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be unpacked: {error}") from error
    magic = bytes([0, 0, 8, len(shape)])  # 8: unsigned bytes
    if content[:4] != magic:
        raise DataError(f"{path} starts with {content[:4].hex()}, not {magic.hex()}: another file?")
    if len(content) >= header and (found := _dimensions(content, len(shape))) != shape:
        raise DataError(f"{path} has the shape {found}; should be {shape}")
    if len(content) != header + size:
        raise DataError(f"{path} is {'cut off' if len(content) < header + size else 'too long'}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()


def _dimensions(content: bytes, count: int) -> tuple[int, ...]:
    return struct.unpack(f">{count}I", content[4 : 4 + 4 * count])
