"""From an image file to its pixels, with limits.

Knows Pillow. Knows nothing of labels or caches. The size is looked at before anything is decoded,
so a small file cannot ask for a large amount of memory; whatever is wrong names the file.
"""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from ...errors import DataError

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".webp")
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "WEBP")
MOST_PIXELS = 50_000_000  # width x height; ImageNet's largest has 20 million
MOST_BYTES = 200_000_000  # of the file
MODES = {1: "L", 3: "RGB"}

BROKEN = (
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
    EOFError,
    IndexError,
    KeyError,
    MemoryError,
    OSError,
    OverflowError,
    SyntaxError,  # Pillow's word for a broken PNG
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)


def read_image(
    source: Path | bytes,
    *,
    channels: int = 3,
    side: int | None = None,
    upright: bool = False,
    name: str | None = None,
) -> NDArray[np.uint8]:
    """The pixels of a file, or of its bytes, as (channels, height, width).

    `side`: bring the shorter side to this length and cut the square in the middle.
    `upright`: turn photographs as their camera says they were held.
    `name`: what an error calls the image, where it has no path.
    """
    called = name or (str(source) if isinstance(source, Path) else "an image")
    if channels not in MODES:
        raise DataError(f"images can have 1 or 3 channels, not {channels}")
    if isinstance(source, Path) and source.stat().st_size > MOST_BYTES:
        raise DataError(f"{called} is larger than {MOST_BYTES} bytes")
    try:
        file = source if isinstance(source, Path) else BytesIO(source)
        with Image.open(file, formats=FORMATS) as opened:
            _check_size(opened, called)
            picture = _plain(
                ImageOps.exif_transpose(opened) if upright else opened, channels, called
            )
            return pixels(picture if side is None else square(picture, side))
    except BROKEN as error:
        raise DataError(
            f"{called} cannot be read as an image: {error or 'it is broken'}"
        ) from error


def pixels(picture: Image.Image) -> NDArray[np.uint8]:
    """(channels, height, width) of a grey or RGB picture."""
    array = np.array(picture, np.uint8)
    if array.ndim == 2:
        return array[None]
    return np.ascontiguousarray(array.transpose(2, 0, 1))


def square(picture: Image.Image, side: int) -> Image.Image:
    """The shorter side to `side`, bilinear with antialiasing, then the square in the middle."""
    width, height = picture.size
    short = min(width, height)
    if short != side:
        size = (int(side * width / short), int(side * height / short))
        picture = picture.resize(size, Image.Resampling.BILINEAR)
    width, height = picture.size
    left, top = round((width - side) / 2), round((height - side) / 2)
    return picture.crop((left, top, left + side, top + side))


def _check_size(picture: Image.Image, called: str) -> None:
    width, height = picture.size
    if width * height > MOST_PIXELS:
        raise DataError(
            f"{called} has {width}x{height} pixels; at most {MOST_PIXELS} are decoded: a bomb?"
        )


def _plain(picture: Image.Image, channels: int, called: str) -> Image.Image:
    """Eight bits a channel, grey or RGB; transparency is dropped."""
    if picture.mode.startswith(("I", "F")):
        raise DataError(f"{called} has more than 8 bits a channel; save it with 8")
    if "transparency" in picture.info:
        picture = picture.convert("RGBA")
    return picture if picture.mode == MODES[channels] else picture.convert(MODES[channels])
