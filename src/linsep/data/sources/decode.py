"""From an image file to its pixels, with limits.

Knows Pillow. Knows nothing of labels or caches. The size is checked before anything is decoded or
resized, so a small file cannot ask for a large amount of memory; every error names the file.
"""

from io import BytesIO
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from ...errors import DataError
from .reading import reading

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".webp")
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "WEBP")
MOST_PIXELS = 50_000_000  # width x height; ImageNet's largest has 20 million
MOST_BYTES = 200_000_000  # of the file
Channels = Literal[1, 3]
MODES = {1: "L", 3: "RGB"}


def read_image(
    source: Path | bytes,
    *,
    channels: int = 3,
    side: int | None = None,
    upright: bool = False,
    name: str | None = None,
) -> NDArray[np.uint8]:
    """Return the pixels of a file, or of its bytes, as (channels, height, width).

    `side`: bring the shorter side to this length and cut the square in the middle.
    `upright`: turn photographs as the camera was held.
    `name`: what an error calls the image, where it has no path.
    """
    called = name or (str(source) if isinstance(source, Path) else "an image")
    if channels not in MODES:
        raise DataError(f"images can have 1 or 3 channels, not {channels}")
    with reading(source if isinstance(source, Path) else called, "cannot be read as an image"):
        if isinstance(source, Path) and source.stat().st_size > MOST_BYTES:
            raise DataError(f"{called} is larger than {MOST_BYTES} bytes")
        file = source if isinstance(source, Path) else BytesIO(source)
        with Image.open(file, formats=FORMATS) as opened:
            _check_size(opened.size, called)
            upright_one = ImageOps.exif_transpose(opened) if upright else opened
            picture = _plain(upright_one, channels, called)
            return pixels(picture if side is None else square(picture, side, called))


def pixels(picture: Image.Image) -> NDArray[np.uint8]:
    """Return a grey or RGB picture as (channels, height, width)."""
    array = np.array(picture, np.uint8)
    if array.ndim == 2:
        return array[None]
    return np.ascontiguousarray(array.transpose(2, 0, 1))


def square(picture: Image.Image, side: int, called: str) -> Image.Image:
    """Bring the shorter side to `side`, bilinear with antialiasing, and cut the middle square.

    A picture of 1x20000 would grow with the square of its ratio: it is refused, not resized.
    """
    short = min(picture.size)
    if short != side:
        width, height = (int(side * length / short) for length in picture.size)
        _check_size((width, height), f"{called}, resized,")
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    width, height = picture.size
    left, top = round((width - side) / 2), round((height - side) / 2)
    return picture.crop((left, top, left + side, top + side))


def _check_size(size: tuple[int, int], called: str) -> None:
    width, height = size
    if width * height > MOST_PIXELS:
        raise DataError(f"{called} has {width}x{height} pixels; at most {MOST_PIXELS} are allowed")


def _plain(picture: Image.Image, channels: int, called: str) -> Image.Image:
    """Convert to eight bits a channel, grey or RGB; transparency is dropped."""
    if picture.mode.startswith(("I", "F")):
        raise DataError(f"{called} has more than 8 bits a channel; save it with 8")
    if "transparency" in picture.info:
        picture = picture.convert("RGBA")
    return picture if picture.mode == MODES[channels] else picture.convert(MODES[channels])
