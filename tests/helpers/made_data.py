"""Small data sets in the public layouts, written by the tests that read them."""

import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from linsep.data.published import Published, Remote

SMALL = Published(
    "small",
    ("small-py", "."),
    ("data_batch_1", "data_batch_2", "test_batch", "batches.meta"),
    (Remote("https://example.org/small-python.tar.gz", "0" * 32, 1000),),
    archived=True,
    counts=((4, 4), (2, 2)),
)


def noise(seed: int, *shape: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def write_pickle(path: Path, content: object, protocol: int = 2) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol))


def write_cifar(root: Path) -> Path:
    """Write the set that SMALL describes."""
    folder = root / SMALL.folders[0]
    for i, name in enumerate(SMALL.files[:3]):
        write_pickle(folder / name, {b"data": noise(i, 4, 3072), b"labels": [0, 1] * 2})
    write_pickle(folder / "batches.meta", {b"label_names": [b"cat", b"dog"]})
    return folder


def write_image(path: Path, seed: int, size: tuple[int, int] = (12, 12), mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (*size, 3) if mode == "RGB" else size
    Image.fromarray(noise(seed, *shape)).save(path)
    return path


def write_folder(root: Path, parts: tuple[str, ...] = ("train", "test"), count: int = 3) -> Path:
    for p, part in enumerate(parts):
        for c, name in enumerate(("ant", "bee")):
            for i in range(count):
                write_image(root / part / name / f"{i}.png", 100 * p + 10 * c + i)
    return root


def write_tiny(root: Path, classes: int = 3) -> Path:
    folder = root / "tiny-imagenet-200"
    ids = [f"n{i:08d}" for i in range(classes)]
    notes = []
    for c, wnid in enumerate(ids):
        for i in range(2):
            write_image(folder / "train" / wnid / "images" / f"{wnid}_{i}.png", 10 * c + i)
        write_image(folder / "val" / "images" / f"val_{c}.png", 500 + c)
        notes.append(f"val_{c}.png\t{wnid}\t0\t0\t1\t1\n")
    (folder / "wnids.txt").write_text("\n".join(reversed(ids)) + "\n")
    (folder / "words.txt").write_text("".join(f"{w}\tword {w}, other\n" for w in ids))
    (folder / "val" / "val_annotations.txt").write_text("".join(notes))
    return folder


def idx(array: np.ndarray[Any, np.dtype[np.uint8]]) -> bytes:
    return (
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )
