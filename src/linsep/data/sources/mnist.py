"""MNIST and Fashion-MNIST from their idx files, and two data sets that need no download.

Both sets use the same file names, as they are or with .gz, so the number of images per class
tells them apart. `fashion_mini` ships with the package; `blobs` are synthetic.
"""

import gzip
from importlib.resources import files
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import DataError
from ...settings.sections import Count, Weight
from ..images import Dataset, Images
from .published import Published, Remote, path_of
from .reading import reading

# Images and labels, training and test; all four spellings of each are in use.
FILES = tuple(
    "|".join(f"{part}-{kind}{sign}{idx}-ubyte{end}" for sign in "-." for end in ("", ".gz"))
    for part in ("train", "t10k")
    for kind, idx in (("images", "idx3"), ("labels", "idx1"))
)
FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


class Layout(NamedTuple):
    published: Published
    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], tuple[int, ...]]  # images per class, training and test


def _remotes(base: str, *sums: tuple[str, int]) -> tuple[Remote, ...]:
    """Return the zipped files at an address, given the MD5 and the size of each."""
    names = (spellings.split("|")[1] for spellings in FILES)
    return tuple(Remote(f"{base}/{name}", *found) for name, found in zip(names, sums, strict=True))


MNIST = Layout(
    Published(
        "mnist",
        ("MNIST/raw", "mnist", "MNIST", "."),
        FILES,
        _remotes(
            "https://ossci-datasets.s3.amazonaws.com/mnist",
            ("f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
            ("d53e105ee54ea40749a09fcbcd1e9432", 28_881),
            ("9fb629c4189551a2d022fa330f9573f3", 1_648_877),
            ("ec29112dd5afa0611ce80d1b7f02629c", 4_542),
        ),
    ),
    names=tuple("0123456789"),
    counts=(
        (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
        (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    ),
)

FASHION_MNIST = Layout(
    Published(
        "fashion-mnist",
        (
            *("FashionMNIST/raw", "fashion-mnist", "FashionMNIST", "fashion_mnist", "."),
            "/usr/share/datasets/fashion-mnist",  # Debian's package
        ),
        FILES,
        _remotes(
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
            ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
            ("25c81989df183df01b3e8a0aad5dffbe", 29_515),
            ("bef4ecab320f06d8554ea6380940ec79", 4_422_102),
            ("bb300cfdad3c16e7a12a480ee83cd310", 5_148),
        ),
    ),
    names=FASHION,
    counts=((6000,) * 10, (1000,) * 10),
)


def mnist(root: str | PathLike[str]) -> Dataset:
    """70 000 handwritten digits, 28x28 grey: 60 000 for training and 10 000 for testing."""
    return read(root, MNIST)


def fashion_mnist(root: str | PathLike[str]) -> Dataset:
    """70 000 pictures of 10 kinds of clothes, 28x28 grey: 6000 and 1000 of each."""
    return read(root, FASHION_MNIST)


def read(root: str | PathLike[str], layout: Layout) -> Dataset:
    """Read the four files and check that they belong to this data set."""
    folder = layout.published.find(root)
    paths = [path_of(folder, name) or folder for name in FILES]
    parts = []
    for i, counts in enumerate(layout.counts):
        images, labels = paths[2 * i : 2 * i + 2]
        x = read_idx(images, (sum(counts), 28, 28))
        y = read_idx(labels, (sum(counts),)).astype(np.int64)
        found = np.bincount(y, minlength=len(counts))
        if tuple(found.tolist()) != counts:
            raise DataError(
                f"{labels} is not {layout.published.name}'s: images per class are "
                f"{found.tolist()}, should be {list(counts)}"
            )
        parts.append(Images.of(torch.from_numpy(x).unsqueeze(1), torch.from_numpy(y)))
    return Dataset(parts[0], parts[1], layout.names)


def read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Read an idx file of bytes with this shape; no more than that is ever decompressed."""
    header = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes()  # 8: unsigned bytes
    size = len(header) + int(np.prod(shape))
    with reading(path), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        content = file.read(size + 1)
    if not content.startswith(header):
        raise DataError(f"{path} should hold bytes of the shape {shape}: is it another file?")
    if len(content) != size:
        raise DataError(f"{path} is {'cut off' if len(content) < size else 'too long'}")
    return np.frombuffer(content, np.uint8, offset=len(header)).reshape(shape).copy()


def fashion_mini() -> Dataset:
    """500 training and 100 test images of each of Fashion-MNIST's ten classes, 28x28 grey."""
    content = files("linsep.data.sources").joinpath("fashion_mini.npz").read_bytes()
    with np.load(BytesIO(content)) as arrays:
        found = {name: torch.from_numpy(array) for name, array in arrays.items()}
    train, test = (
        Images.of(found[f"{part}_x"].unsqueeze(1), found[f"{part}_y"]) for part in ("train", "test")
    )
    return Dataset(train, test, FASHION)


def blobs(
    *,
    classes: Count = 10,
    train: Count = 50,
    test: Count = 20,
    size: Count = 8,
    channels: Count = 1,
    noise: Weight = 0.15,
) -> Dataset:
    """Noisy copies of one random picture per class: `train` and `test` images of each."""
    rng = np.random.default_rng(0)
    centres = rng.random((classes, channels, size, size))

    def make(count: int) -> Images:
        y = np.repeat(np.arange(classes), count)
        x = centres[y] + noise * rng.standard_normal((len(y), channels, size, size))
        pixels = (x.clip(0, 1) * 255).round().astype(np.uint8)
        return Images.of(torch.from_numpy(pixels), torch.from_numpy(y))

    return Dataset(make(train), make(test), tuple(f"blob {c}" for c in range(classes)))
