"""One reader for images of every form, as tensors, and for folders of images."""

import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from ..errors import DataError
from .decoding import MODES, Pixels, read_image

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".webp")
TRAINS, TESTS = ("train", "training"), ("test", "val", "valid", "validation")
SHOWN = 10  # skipped files that a warning names
SIZES = "set `image_size` to bring all to one size"
Array: TypeAlias = NDArray[Any] | Tensor


class UnreadableWarning(UserWarning):
    """Files that were left out because they cannot be read."""


def picture_of(image: Tensor) -> Image.Image:
    """Return (channels, height, width) bytes as a grey or RGB picture."""
    return Image.fromarray(image[0].numpy() if len(image) == 1 else image.permute(1, 2, 0).numpy())


def image_of(
    picture: Any, called: str, side: int | None = None, channels: int | None = None
) -> Pixels:
    """Return any single image as bytes: a path, a file's bytes, a Pillow image, or an array.

    Without `channels`, files and pictures are read in colour and arrays keep what they have.
    """
    picture = Path(picture) if isinstance(picture, str) else picture
    if isinstance(picture, Path | bytes | Image.Image):
        turned = not isinstance(picture, Image.Image)
        return read_image(picture, channels=channels or 3, side=side, upright=turned, name=called)
    array = np.asarray(picture)
    array = array[None] if array.ndim == 2 else array
    return images_of(array[None], called, side, channels)[0].numpy()


def read_all(
    pictures: Iterable[Any],
    count: int,
    where: str,
    side: int | None = None,
    channels: int | None = None,
    remedy: str = SIZES,
) -> Tensor:
    """Read images of any form, which must have one size unless `side` is given, into one tensor."""
    out = torch.empty(0)
    for i, picture in enumerate(pictures):
        called = str(picture) if isinstance(picture, str | Path) else f"{where}[{i}]"
        image = image_of(picture, called, side, channels)
        if not i:
            out = torch.empty(count, *image.shape, dtype=torch.uint8)
        check_shape(image.shape, tuple(out.shape[1:]), called, remedy)
        out[i] = torch.from_numpy(image)
    if not count:
        raise DataError(f"{where} has no images")
    return out


def check_shape(
    shape: tuple[int, ...], first: tuple[int, ...], called: str, remedy: str = SIZES
) -> None:
    if shape != first:
        here, there = ("x".join(map(str, size[1:])) for size in (shape, first))
        raise DataError(f"{called} has {here} pixels where the first image has {there}; {remedy}")


def images_of(
    found: Array, where: str, side: int | None = None, channels: int | None = None
) -> Tensor:
    """Return an array of images as bytes, with as many channels and of the size that is wanted."""
    rows = pixels_of(found, where)
    if channels == 3 and rows.shape[1] == 1:
        rows = rows.expand(-1, 3, -1, -1).contiguous()
    if channels not in (None, rows.shape[1]):
        raise DataError(f"{where} has {rows.shape[1]} channels where {channels} are expected")
    if side is None or rows.shape[2:] == (side, side):
        return rows
    return read_all(map(picture_of, rows), len(rows), where, side, rows.shape[1])


def pixels_of(found: Array, where: str) -> Tensor:
    """Return images of any usual form as (n, c, h, w) bytes, without a copy if they are that."""
    x = found if isinstance(found, Tensor) else _tensor(np.asarray(found), where)
    shape = tuple(x.shape)
    if x.ndim not in (3, 4) or not x.numel():
        raise DataError(f"{where}: images of shape {shape}; expected (n, h, w, c) or similar")
    if x.ndim == 3 and shape[2] in MODES:
        raise DataError(
            f"{where} has shape {shape}: one image of {shape[0]}x{shape[1]} with {shape[2]} "
            f"channels, or {shape[0]} grey images of {shape[1]}x{shape[2]}? Give X[None] for the "
            "first, X[..., None] for the second"
        )
    if x.ndim == 4 and shape[1] in MODES and shape[3] in MODES:
        raise DataError(
            f"{where} has shape {shape}: channels first, images of {shape[2]}x{shape[3]}, or "
            f"channels last, images of {shape[1]}x{shape[2]}? Such small images are ambiguous"
        )
    x = x.unsqueeze(1) if x.ndim == 3 else x
    if x.shape[1] not in MODES and x.shape[3] in MODES:
        x = x.permute(0, 3, 1, 2)
    if x.shape[1] not in MODES:
        raise DataError(f"{where}: images of shape {tuple(x.shape)} must have 1 or 3 channels")
    if x.is_floating_point():
        low, high = float(x.min()), float(x.max())
        if not (low >= 0 and high <= 1):  # NaN is neither
            raise DataError(f"{where}: pixels from {low:g} to {high:g}; floats must be 0 to 1")
        x = (x * 255).round_().to(torch.uint8)
    if x.dtype != torch.uint8:
        raise DataError(f"{where}: pixels are {x.dtype}; expected uint8, or floats from 0 to 1")
    return x.contiguous()


def vectors_of(found: Array, where: str) -> Tensor:
    """Return a table of numbers as (n, d) float32, each of them finite."""
    array = found.detach().cpu().numpy() if isinstance(found, Tensor) else np.asarray(found)
    if array.ndim != 2 or not array.size or array.dtype.kind not in "buif":
        form = f"{array.dtype} of shape {array.shape}"
        raise DataError(f"{where}: vectors are {form}; expected numbers (n, d)")
    x = torch.from_numpy(np.array(array, np.float32, order="C"))
    if len(bad := (~x.isfinite().all(1)).nonzero()[:, 0]):
        raise DataError(f"{where}: row {int(bad[0])} has a number that is missing or too large")
    return x


def _tensor(array: NDArray[Any], where: str) -> Tensor:
    """Convert to a tensor, from other byte orders and wider floats too."""
    if array.dtype.kind not in "buif":
        raise DataError(f"{where}: pixels are {array.dtype}; expected uint8, or floats from 0 to 1")
    kind = np.dtype(np.float64) if array.dtype.char == "g" else array.dtype.newbyteorder("=")
    return torch.from_numpy(np.asarray(array, kind, order="C"))


def parts_of(root: Path) -> tuple[Path, Path | None]:
    """Return the folder with the training classes, and the one with the test classes if any.

    DIR/train/<class> and DIR/test/<class> (or val, valid, validation, in any case), or DIR/<class>
    alone. A folder `train` that has images and no folders in it is a class.
    """
    if not root.is_dir():
        raise DataError(f"{root} is not a folder; expected train/<class>/ or <class>/ in it")
    there = {name.lower(): root / name for name in class_folders(root)}
    train, test = (
        next((there[name] for name in names if name in there), None) for names in (TRAINS, TESTS)
    )
    if train is None or (images_below(train) and not class_folders(train)):
        return root, None
    return train, test


def class_folders(root: Path) -> tuple[str, ...]:
    """Return the names of the folders in a folder; hidden ones are skipped."""
    with os.scandir(root) as entries:
        return tuple(sorted(e.name for e in entries if e.is_dir() and not e.name.startswith(".")))


def labelled_files(root: Path) -> dict[Path, str]:
    """Return the training images in folders named after their classes, each with its class."""
    train, _ = parts_of(root)
    names = class_folders(train)
    check_case(names, train)
    files = {file: name for name in names for file in images_below(train / name)}
    if not files:
        known = ", ".join(SUFFIXES)
        raise DataError(f"{train} has no class folders with images ({known}) in them")
    return files


def readable(files: Iterable[Path], where: object) -> list[Path]:
    """Return the files that can be read as images, and warn of the others."""
    kept, skipped = [], []
    for file in files:
        try:
            read_image(file)
            kept.append(file)
        except DataError:
            skipped.append(str(file))
    warn_of_skipped(skipped, where)
    return kept


def warn_of_skipped(files: Sequence[str], where: object) -> None:
    if files:
        more = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
        text = f"{where}: skipped, as they cannot be read: {', '.join(files[:SHOWN])}{more}"
        warnings.warn(text, UnreadableWarning, stacklevel=3)


def check_case(names: Iterable[str], where: object) -> None:
    """Refuse class names that differ only in case: one of them is most likely a slip."""
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.casefold(), name)
        if other != name:
            raise DataError(
                f"{where}: the classes {other!r} and {name!r} differ only in case; rename one"
            )


def images_below(root: Path) -> list[Path]:
    """Return the images in a folder and in those inside it, by path; hidden ones are skipped.

    macOS leaves a `._x.png` beside an x.png, which is not an image.
    """
    found = []
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(place, n) for n in names if n.lower().endswith(SUFFIXES) and n[0] != "."]
    return sorted(found)
