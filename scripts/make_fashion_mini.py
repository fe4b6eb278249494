"""Make the embedded `fashion-mini` from Fashion-MNIST's official idx files.

    python scripts/make_fashion_mini.py FOLDER

FOLDER holds train-images-idx3-ubyte.gz and its three siblings. Takes the first 500 training and the
first 100 test images of each class, in their official order, and writes
src/linsep/data/fashion_mini.npz. The same input gives the same bytes.
"""

import gzip
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TARGET = Path(__file__).parent.parent / "src/linsep/data/fashion_mini.npz"
Bytes = NDArray[np.uint8]


def read_idx(path: Path, header: int) -> Bytes:
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def first_of_each_class(folder: Path, part: str, count: int) -> tuple[Bytes, Bytes]:
    x = read_idx(folder / f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
    y = read_idx(folder / f"{part}-labels-idx1-ubyte.gz", 8)
    rows = np.concatenate([np.flatnonzero(y == c)[:count] for c in range(10)])
    return x[rows], y[rows]


def write(path: Path, arrays: dict[str, Bytes]) -> None:
    """An .npz with fixed time stamps, so that it is a function of its content."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            buffer = BytesIO()
            np.save(buffer, array)
            entry = zipfile.ZipInfo(f"{name}.npy")
            archive.writestr(entry, buffer.getvalue(), zipfile.ZIP_DEFLATED, 9)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    train_x, train_y = first_of_each_class(folder, "train", 500)
    test_x, test_y = first_of_each_class(folder, "t10k", 100)
    write(TARGET, {"train_x": train_x, "train_y": train_y, "test_x": test_x, "test_y": test_y})
    print(f"{TARGET.name}: {len(train_x)} + {len(test_x)} images, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
