"""Vectors on disk by the rows that they were made from: computed once, memory-mapped afterwards.

A table is a folder whose name says how its vectors are made:

    vectors.f32     each vector, float32
    digests.bin     16 bytes of BLAKE2 of the row, and 16 of the vector, for each

Digests are written after their vectors have reached the disk, so a killed process loses only what
it was computing. A vector that was damaged is made again.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from .decoding import reading
from .images import DIGEST, digest_of
from .published import Progress, cache_home

STEP = 240  # vectors that are made before they are written


class VectorTable:
    """The vectors of a width that were made in one way."""

    def __init__(self, key: str, width: int) -> None:
        self.folder, self.width = cache_home() / "features" / key, width

    def places(
        self,
        rows: Sequence[bytes],
        make: Callable[[list[int]], Tensor],
        progress: Progress | None = None,
    ) -> Tensor:
        """Return where the vector of each row is, given the rows' digests, (n,) int64.

        `make` computes those that are not there yet, (k, width), from the numbers of their rows.
        """
        with reading(self.folder, "cannot be used", OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with FileLock(self.folder / "lock"):
                known = self._known(set(rows))
                first = {digest: i for i, digest in reversed([*enumerate(rows)])}
                missing = sorted(i for digest, i in first.items() if digest not in known)
                done = len(rows) - len(missing)
                for start in range(0, len(missing), STEP):
                    if progress is not None:
                        progress(done + start, len(rows))
                    part = missing[start : start + STEP]
                    known |= self._append([rows[i] for i in part], make(part))
                if progress is not None and missing:
                    progress(len(rows), len(rows))
        return torch.tensor([known[digest] for digest in rows], dtype=torch.int64)

    def mapped(self) -> Tensor:
        """Map all vectors, (N, width), read-only; they are loaded page by page on demand."""
        with reading(self.folder), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            path = self.folder / "vectors.f32"
            count = path.stat().st_size // (4 * self.width)
            return torch.from_numpy(np.memmap(path, "<f4", "r", shape=(count, self.width)))

    def _known(self, wanted: set[bytes]) -> dict[bytes, int]:
        """Return the place of each wanted row's vector, and cut off what was half written."""
        vectors, digests = self.folder / "vectors.f32", self.folder / "digests.bin"
        for path in (vectors, digests):
            path.touch()
        pair, size = 2 * DIGEST, 4 * self.width
        count = min(vectors.stat().st_size // size, digests.stat().st_size // pair)
        os.truncate(vectors, count * size)
        os.truncate(digests, count * pair)
        noted, found = digests.read_bytes(), {}
        for i in range(count):
            if (row := noted[i * pair : i * pair + DIGEST]) in wanted:
                found[row] = i
        if not found:
            return {}
        there = self.mapped()
        good = {
            i
            for i in found.values()
            if digest_of(there[i].numpy().tobytes()) == noted[i * pair + DIGEST : (i + 1) * pair]
        }
        return {row: i for row, i in found.items() if i in good}

    def _append(self, rows: Sequence[bytes], vectors: Tensor) -> dict[bytes, int]:
        content = [vector.tobytes() for vector in vectors.numpy().astype("<f4")]
        path = self.folder / "vectors.f32"
        first = path.stat().st_size // (4 * self.width)
        _appended(path, b"".join(content))
        pairs = (row + digest_of(vector) for row, vector in zip(rows, content, strict=True))
        _appended(self.folder / "digests.bin", b"".join(pairs))
        return {row: first + i for i, row in enumerate(rows)}


def _appended(path: Path, content: bytes) -> None:
    with path.open("ab") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
