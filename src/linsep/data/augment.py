"""From stored uint8 images to the net's floats: augmentation and normalisation.

The caller hands in a generator, or the drawn numbers themselves.

A call first draws a handful of numbers per image (`Augment.draw`) and then processes the whole
batch on the images' device (`Augment.apply`), so the same numbers give the same images everywhere.
Padding is black in the stored image: after normalisation a padded pixel is (0 - mean) / std, as if
a decoded picture had been padded before it became a tensor.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ..errors import DataError
from .images import Shape

Size: TypeAlias = tuple[int, int]  # (height, width)
Whole: TypeAlias = NDArray[np.int64]
SCALE = (0.08, 1.0)  # share of the area that a random resized crop keeps
RATIO = (3 / 4, 4 / 3)  # width over height of that crop
TRIES = 10  # boxes drawn per image before falling back to the centre


class Draw(NamedTuple):
    """The random choices for one batch: the crop of each padded image, and which are flipped."""

    top: Whole  # (n,)
    left: Whole  # (n,)
    flip: NDArray[np.bool_]  # (n,)
    height: Whole | None = None  # (n,) only for boxes that are resized; other crops have one size
    width: Whole | None = None


@dataclass(frozen=True)
class Augment:
    """Batched random crop and flip, or random resized crop and flip; at evaluation the centre.

    `resized` crops a box of 8 % to 100 % of the area and a ratio of 3:4 to 4:3, and resizes it to
    `size` by bilinear interpolation without antialiasing (a stored 256 is at most 1.14 times the
    224 that is read, so there is next to nothing to smooth).
    """

    size: Size  # what the net reads; may be smaller than the stored images
    mean: tuple[float, ...]  # per channel, of pixels in [0, 1]
    std: tuple[float, ...]
    pad: int = 0  # black pixels on every side before the crop
    flip: bool = True  # left-right, half of the time
    resized: bool = False
    cut: Size | None = None  # of the crop that is resized to `size`; None: `size` itself
    still: bool = False  # training images are treated as in evaluation

    @property
    def reads(self) -> Shape:
        """The shape of what the net reads."""
        return (len(self.mean), *self.size)

    def train(self, raw: Tensor, rng: np.random.Generator) -> Tensor:
        """(n, c, h, w) uint8 -> (n, c, *size) float32, cropped and flipped at random."""
        return self.eval(raw) if self.still else self.apply(raw, self.draw(raw, rng))

    def eval(self, raw: Tensor) -> Tensor:
        """(n, c, h, w) uint8 -> (n, c, *size) float32: the centre of each image.

        The features of a frozen backbone, (n, d), stay what they are.
        """
        if raw.ndim == 2:
            return raw
        self._check(raw, pad=0)
        height, width = self.cut or self.size
        top, left = (raw.shape[2] - height) // 2, (raw.shape[3] - width) // 2
        cut = raw[:, :, top : top + height, left : left + width]
        return self._finished(cut.to(torch.float32, memory_format=torch.contiguous_format))

    def draw(self, raw: Tensor, rng: np.random.Generator) -> Draw:
        """Draw the random numbers for a batch; only the shape of `raw` matters."""
        n, _, h, w = raw.shape
        room = (h + 2 * self.pad, w + 2 * self.pad)
        if self.resized:
            return draw_boxes(rng, n, room, self.flip)
        return draw_crops(rng, n, room, self.cut or self.size, self.flip)

    def apply(self, raw: Tensor, draw: Draw) -> Tensor:
        """Crop, flip and normalise according to the drawn numbers, without any randomness."""
        self._check(raw, self.pad)
        padded = torch.constant_pad_nd(raw, [self.pad] * 4) if self.pad else raw
        if self.resized:
            return self._normalise(cut_boxes(padded, self.size, draw))
        cut = cut_crops_host if padded.device.type == "cpu" else cut_crops
        return self._finished(cut(padded, self.cut or self.size, draw))

    def _finished(self, x: Tensor) -> Tensor:
        """Resize crops to the net's size, antialiased where they shrink, and normalise them."""
        if x.shape[2:] != self.size:
            shrinks = x.shape[2] > self.size[0]
            x = F.interpolate(x, self.size, mode="bilinear", antialias=shrinks)
        return self._normalise(x)

    def _normalise(self, x: Tensor) -> Tensor:
        scale, shift = _affine(self.mean, self.std, x.device)
        return x.mul_(scale).add_(shift)

    def _check(self, raw: Tensor, pad: int) -> None:
        if raw.dtype != torch.uint8 or raw.dim() != 4:
            raise DataError(f"images are {raw.dtype} {tuple(raw.shape)}; need uint8 (n, c, h, w)")
        _, c, h, w = raw.shape
        if c != len(self.mean):
            raise DataError(f"images have {c} channels but the mean has {len(self.mean)} numbers")
        height, width = self.cut or self.size
        if not self.resized and (h + 2 * pad < height or w + 2 * pad < width):
            raise DataError(
                f"cannot cut {height}x{width} from images of {h}x{w} padded by {pad};"
                " store larger images or set a smaller input size"
            )


@dataclass(frozen=True)
class Columns(Augment):
    """Standardises the columns of vectors, (n, d); nothing is varied."""

    @property
    def reads(self) -> Shape:
        return (len(self.mean),)

    @classmethod
    def of(cls, rows: NDArray[np.float32]) -> "Columns":
        """Measure means and deviations; a column that never varies is only centred."""
        mean, std = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
        spread = np.where(std > 0, std, 1.0)
        return cls((1, rows.shape[1]), tuple(mean.tolist()), tuple(spread.tolist()), flip=False)

    @classmethod
    def plain(cls, count: int) -> "Columns":
        """Leave columns as they are."""
        return cls((1, count), (0.0,) * count, (1.0,) * count, flip=False)

    def train(self, raw: Tensor, rng: np.random.Generator) -> Tensor:
        return self.eval(raw)

    def eval(self, raw: Tensor) -> Tensor:
        """Return (n, d) float32."""
        mean, std = (torch.tensor(v, dtype=torch.float64) for v in (self.mean, self.std))
        return ((raw.double() - mean.to(raw.device)) / std.to(raw.device)).float()


def draw_crops(rng: np.random.Generator, n: int, room: Size, size: Size, flip: bool) -> Draw:
    """Draw n crops of `size`, uniformly placed in `room` (the padded image)."""
    u = rng.random((3, n))
    top = (u[0] * (room[0] - size[0] + 1)).astype(np.int64)
    left = (u[1] * (room[1] - size[1] + 1)).astype(np.int64)
    return Draw(top, left, (u[2] < 0.5) & flip)


def draw_boxes(rng: np.random.Generator, n: int, room: Size, flip: bool) -> Draw:
    """Draw n boxes that fit into `room`, with uniform area and log-uniform ratio.

    The first of ten attempts that fits is used, otherwise the largest centred box with an allowed
    ratio.
    """
    h, w = room
    area = rng.uniform(*SCALE, (TRIES, n)) * (h * w)
    ratio = np.exp(rng.uniform(np.log(RATIO[0]), np.log(RATIO[1]), (TRIES, n)))
    u = rng.random((3, n))
    widths, heights = np.rint(np.sqrt(area * ratio)), np.rint(np.sqrt(area / ratio))
    fits = (widths >= 1) & (widths <= w) & (heights >= 1) & (heights <= h)
    first, columns, found = fits.argmax(0), np.arange(n), fits.any(0)
    whole = min(max(w / h, RATIO[0]), RATIO[1])
    spare_h, spare_w = min(h, round(w / whole)), min(w, round(h * whole))
    height = np.where(found, heights[first, columns], spare_h).astype(np.int64)
    width = np.where(found, widths[first, columns], spare_w).astype(np.int64)
    top = np.where(found, u[0] * (h - height + 1), (h - height) // 2).astype(np.int64)
    left = np.where(found, u[1] * (w - width + 1), (w - width) // 2).astype(np.int64)
    return Draw(top, left, (u[2] < 0.5) & flip, height, width)


def cut_crops(padded: Tensor, size: Size, draw: Draw) -> Tensor:
    """Return the drawn windows of (n, c, h, w), flipped where drawn, as floats of 0..255.

    Every line of every window is `width` adjacent bytes of the flat batch, so a single selection of
    overlapping windows fetches them all; the flip then picks each image or its mirror image.
    """
    n, c, h, w = padded.shape
    starts = _lines(n, c, h, w, size[0]) + (draw.top * w + draw.left)[:, None]  # (n, c * height)
    windows = padded.reshape(-1).unfold(0, size[1], 1)
    picked = torch.from_numpy(starts.reshape(-1)).to(padded.device)
    cut = windows.index_select(0, picked).view(n, c, *size)
    if not draw.flip.any():
        return cut.float()
    either = torch.from_numpy(np.arange(n) + n * draw.flip).to(padded.device)
    return torch.cat([cut, cut.flip(-1)]).index_select(0, either).float()


def cut_crops_host(padded: Tensor, size: Size, draw: Draw) -> Tensor:
    """Return what `cut_crops` does, with fewer passes over memory: faster on a CPU.

    A slice is a view, even a mirrored one, so each window is converted and copied in one pass.
    """
    n, c = padded.shape[:2]
    (height, width), (top, left, flip) = size, draw[:3]
    out = np.empty((n, c, height, width), np.float32)
    places = zip(out, padded.numpy(), top.tolist(), left.tolist(), flip.tolist(), strict=True)
    for place, image, t, start, mirrored in places:
        window = image[:, t : t + height, start : start + width]
        place[...] = window[:, :, ::-1] if mirrored else window
    return torch.from_numpy(out)


def cut_boxes(padded: Tensor, size: Size, draw: Draw) -> Tensor:
    """Return the drawn boxes resized to `size`, flipped where drawn, as floats of 0..255.

    Sampling points are clamped to the box, so no pixel outside it is ever mixed in: the result is
    the same as cropping first and resizing afterwards.
    """
    if draw.height is None or draw.width is None:
        raise DataError("a random resized crop needs the height and width of every box")
    n, _, h, w = padded.shape
    y = _points(draw.top, draw.height, size[0], h)
    x = _points(draw.left, draw.width, size[1], w)
    x = np.where(draw.flip[:, None], x[:, ::-1], x)
    grid = torch.empty(n, *size, 2, device=padded.device)
    grid[..., 0] = torch.from_numpy(x).to(padded.device)[:, None, :]
    grid[..., 1] = torch.from_numpy(y).to(padded.device)[:, :, None]
    return F.grid_sample(padded.float(), grid, padding_mode="border", align_corners=False)


def _points(start: Whole, length: Whole, count: int, side: int) -> NDArray[np.float32]:
    """Return where `count` output pixels sample one side, in grid_sample's -1..1, (n, count)."""
    step = (np.arange(count) + 0.5) / count
    inside = np.clip(step * length[:, None] - 0.5, 0, length[:, None] - 1)
    points = (2 * (inside + start[:, None]) + 1) / side - 1
    return points.astype(np.float32)


@lru_cache(maxsize=64)
def _lines(n: int, c: int, h: int, w: int, height: int) -> Whole:
    """Return where each line of a top left crop starts in the flat batch, (n, c * height)."""
    lines = np.arange(c)[:, None] * (h * w) + np.arange(height) * w
    return np.arange(n)[:, None] * (c * h * w) + lines.reshape(1, -1)


@lru_cache(maxsize=64)
def _affine(
    mean: tuple[float, ...], std: tuple[float, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return scale and shift, (c, 1, 1) each, that map a byte to (byte / 255 - mean) / std."""
    scale = torch.tensor([1 / (255 * s) for s in std], device=device)
    shift = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)], device=device)
    return scale.view(-1, 1, 1), shift.view(-1, 1, 1)
