"""What can be measured of a data set: counts, pixel statistics, images in both parts.

Knows Images. Reads them in chunks, so a memory-mapped set is never held as a whole.
"""

import warnings
from hashlib import blake2b
from typing import NamedTuple

import torch

from ..images import Dataset, Images

CHUNK = 2048
DIGEST = 16  # bytes per image


class DuplicateWarning(UserWarning):
    """Test images that are also training images."""


class PixelStatistics(NamedTuple):
    mean: tuple[float, ...]  # per channel, of pixels in [0, 1]
    std: tuple[float, ...]


def pixel_statistics(images: Images) -> PixelStatistics:
    """Measure mean and standard deviation over every pixel of every image."""
    c = images.shape[0]
    total, squares = torch.zeros(c, dtype=torch.float64), torch.zeros(c, dtype=torch.float64)
    for part in images.chunks(CHUNK):
        flat = part.pixels().transpose(0, 1).reshape(c, -1).double()
        total += flat.sum(1)
        squares += flat.square().sum(1)
    count = len(images) * images.shape[1] * images.shape[2]
    mean = total / count
    std = (squares / count - mean.square()).clamp(min=0).sqrt()
    return PixelStatistics(tuple((mean / 255).tolist()), tuple((std / 255).tolist()))


def class_counts(images: Images, classes: int) -> list[int]:
    return images.y.bincount(minlength=classes).tolist()


def duplicates(data: Dataset) -> int:
    """Count the test images that are also training images, pixel for pixel."""
    known = set(_digests(data.train))
    return sum(digest in known for digest in _digests(data.test))


def warn_of_duplicates(count: int, where: str) -> None:
    if count:
        message = f"{where}: {count} test images are also training images"
        warnings.warn(message, DuplicateWarning, stacklevel=3)


def digest_of(image: bytes) -> bytes:
    return blake2b(image, digest_size=DIGEST).digest()


def _digests(images: Images) -> list[bytes]:
    parts = (part.pixels().numpy() for part in images.chunks(CHUNK))
    return [digest_of(row.tobytes()) for part in parts for row in part]
