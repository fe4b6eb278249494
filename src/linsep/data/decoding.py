"""Safe decoding of one untrusted image: a file, its bytes or a Pillow image, as bytes of pixels.

Any error while a file is read becomes one line that names it. The size of an image is checked
before it is decoded or resized, so a small file cannot demand a large amount of memory. This module
imports no torch: a server decodes without it.
"""

import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from io import BytesIO
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from ..errors import DataError, LinsepError

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "WEBP")
MOST_PIXELS = 50_000_000  # width x height; ImageNet's largest has 20 million
MOST_BYTES = 200_000_000  # of the file
ANIMATED = ("GIF", "PNG", "WEBP")  # a JPEG may hold several pictures too, the first as a preview
Pixels: TypeAlias = NDArray[np.uint8]  # (channels, height, width)
Channels = Literal[1, 3]
MODES = {1: "L", 3: "RGB"}


@contextmanager
def reading(
    place: object, problem: str = "cannot be read", only: type[Exception] = Exception
) -> Iterator[None]:
    """Report any error inside as a DataError that names the file; our own pass through.

    Parsers raise almost anything on a broken file, from KeyError to RecursionError.
    """
    try:
        if isinstance(place, Path) and place.exists():
            mode = place.stat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # reading a pipe would wait for ever
                raise DataError(f"{place} {problem}: it is neither a file nor a folder")
        yield
    except LinsepError:
        raise
    except only as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, OSError) and error.filename and error.strerror:
            place, reason = error.filename, error.strerror
        raise DataError(f"{place} {problem}: {reason}") from error


def read_image(
    source: Path | bytes | Image.Image,
    *,
    channels: int = 3,
    side: int | None = None,
    upright: bool = False,
    name: str = "an image",
) -> Pixels:
    """Return the pixels of a file, its bytes or a Pillow image as (channels, height, width).

    `side`: resize the shorter side to this length and crop the square in the middle.
    `upright`: rotate photographs as the camera was held.
    `name`: what an error calls the image, where it has no path.
    """
    called = str(source) if isinstance(source, Path) else name
    if channels not in MODES:
        raise DataError(f"images can have 1 or 3 channels, not {channels}")
    with reading(source if isinstance(source, Path) else called, "cannot be read as an image"):
        if isinstance(source, Path) and source.stat().st_size > MOST_BYTES:
            raise DataError(f"{called} is larger than {MOST_BYTES} bytes")
        with _opened(source) as opened:
            _check_size(opened.size, called)
            if opened.format in ANIMATED and getattr(opened, "is_animated", False):
                warnings.warn("of animated images, the first frame is read", stacklevel=2)
            picture = ImageOps.exif_transpose(opened) if upright else opened
            if picture.mode.startswith(("I", "F")):
                picture = _eight_bits(picture, called)
            if "transparency" in picture.info:  # which is dropped
                picture = picture.convert("RGBA")
            if picture.mode != MODES[channels]:
                picture = picture.convert(MODES[channels])
            return pixels(picture if side is None else square(picture, side, called))


def size_of(content: bytes, name: str) -> tuple[int, int]:
    """Return the width and height of an image by its header, which may promise any."""
    try:
        with reading(name, "cannot be read as an image"), _opened(content) as opened:
            return opened.size
    except DataError as error:
        if isinstance(error.__cause__, Image.DecompressionBombError):
            return MOST_PIXELS, MOST_PIXELS  # Pillow has refused it before it told the size
        raise


def _opened(source: Path | bytes | Image.Image) -> Image.Image | nullcontext[Image.Image]:
    if isinstance(source, Image.Image):
        return nullcontext(source)
    try:
        return Image.open(BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS)
    except UnidentifiedImageError:
        raise ValueError(f"it is none of {', '.join(FORMATS)}, or is damaged") from None


def _eight_bits(picture: Image.Image, called: str) -> Image.Image:
    """Return the upper bytes of a grey picture of 16 bits, as Pillow does with those in colour."""
    values = np.asarray(picture)
    if picture.mode == "F" or values.min() < 0 or values.max() >= 1 << 16:
        raise DataError(f"{called} has more than 16 bits a channel; save it with 8 or 16")
    return Image.fromarray((values >> 8).astype(np.uint8))


def pixels(picture: Image.Image) -> Pixels:
    """Return a grey or RGB picture as (channels, height, width)."""
    array = np.array(picture, np.uint8)
    if array.ndim == 2:
        return array[None]
    return np.ascontiguousarray(array.transpose(2, 0, 1))


def square(picture: Image.Image, side: int, called: str) -> Image.Image:
    """Resize the shorter side to `side`, bilinear with antialiasing, and crop the centre.

    A very thin picture, such as 1x20000, would become huge: it is refused, not resized.
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
