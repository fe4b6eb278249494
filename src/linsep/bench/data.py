"""What data cost here: augmenting a batch against one picture at a time, and loading CIFAR-10.

The plain pipeline is what most training code does: for every image a Pillow picture, a random crop
(padded, or resized at 224), perhaps a flip, a tensor, normalised; then stack them. CPU time, in one
process, on one thread; rounds of the two take turns and the median ratio counts.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from ..compare.tables import Table
from ..data.augment import Augment, draw_boxes
from ..data.sources.places import data_folder

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2615)
ROWS = 32
CIFAR10_BYTES = 60_000 * 3072

# In a process of its own: the peak of this one has been and gone.
LOAD = """
import json, sys, time
from pathlib import Path
from linsep.bench.data import memory
from linsep.data.sources.cifar import cifar10
before, start = memory("VmRSS"), time.perf_counter()
cifar10(Path(sys.argv[1]))
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "bytes": memory("VmHWM") - before}))
"""


@dataclass(frozen=True)
class Figure:
    what: str
    ours: float  # CPU milliseconds a batch of 32
    plain: float
    ratio: float  # how many times cheaper
    bound: float | None  # that the ratio should reach


@dataclass(frozen=True)
class Loading:
    seconds: float
    peak: float  # extra memory, as a multiple of the images' bytes


def measure(repeats: int = 9) -> list[Figure]:
    """Batches of 32 colour images at 32, 64 and 224."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [
            _figure("32x32, pad 4", Augment((32, 32), MEAN, STD, pad=4), 32, repeats, 40, 20.0),
            _figure("64x64, pad 4", Augment((64, 64), MEAN, STD, pad=4), 64, repeats, 20, None),
            _figure(
                "224 of 256", Augment((224, 224), MEAN, STD, resized=True), 256, repeats, 1, None
            ),
        ]
    finally:
        torch.set_num_threads(threads)


def load(root: Path | None = None) -> Loading:
    """CIFAR-10 from its folder, in a fresh process."""
    command = [sys.executable, "-c", LOAD, str(data_folder(root))]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return Loading(found["seconds"], found["bytes"] / CIFAR10_BYTES)


def memory(field: str) -> int:
    """Bytes this process holds now (VmRSS) or held at most (VmHWM); elsewhere than on Linux the
    latter for both, so that growth below an earlier peak is not seen.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(lines[field].split()[0]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def table(figures: list[Figure]) -> Table:
    rows = [
        (f.what, f.ours, f.plain, f"{f.ratio:.1f}x", "" if f.bound is None else f"{f.bound:.0f}x")
        for f in figures
    ]
    return Table(
        ("augmenting 32 images", "ms CPU", "plain, ms", "cheaper", "bound"), rows, digits=2
    )


def _figure(
    what: str, augment: Augment, side: int, repeats: int, calls: int, bound: float | None
) -> Figure:
    rng = np.random.default_rng(0)
    raw = torch.from_numpy(rng.integers(0, 256, (ROWS, 3, side, side), dtype=np.uint8))
    one_by_one = plain_resized if augment.resized else plain_crops
    stored = [np.ascontiguousarray(image.permute(1, 2, 0).numpy()) for image in raw]
    ours, plain = [], []
    for turn in range(repeats + 1):
        a = _cpu(lambda: augment.train(raw, rng), calls)
        b = _cpu(lambda: one_by_one(stored, augment, rng), max(1, calls // 10))
        if turn:
            ours.append(1000 * a)
            plain.append(1000 * b)
    ratio = median(p / o for o, p in zip(ours, plain, strict=True))
    return Figure(what, median(ours), median(plain), ratio, bound)


def _cpu(work: Callable[[], Tensor], calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        work()
    return (time.process_time() - start) / calls


def plain_crops(stored: list[np.ndarray], augment: Augment, rng: np.random.Generator) -> Tensor:
    height, width = augment.size
    out = []
    for array in stored:
        picture = ImageOps.expand(Image.fromarray(array), augment.pad)
        left = int(rng.integers(picture.width - width + 1))
        top = int(rng.integers(picture.height - height + 1))
        out.append(_tensor(picture.crop((left, top, left + width, top + height)), augment, rng))
    return torch.stack(out)


def plain_resized(stored: list[np.ndarray], augment: Augment, rng: np.random.Generator) -> Tensor:
    out = []
    for array in stored:
        picture = Image.fromarray(array)
        draw = draw_boxes(rng, 1, (picture.height, picture.width), False)
        left, top = int(draw.left[0]), int(draw.top[0])
        height, width = (0 if side is None else int(side[0]) for side in (draw.height, draw.width))
        box = (left, top, left + width, top + height)
        size = (augment.size[1], augment.size[0])
        picture = picture.crop(box).resize(size, Image.Resampling.BILINEAR)
        out.append(_tensor(picture, augment, rng))
    return torch.stack(out)


def _tensor(picture: Image.Image, augment: Augment, rng: np.random.Generator) -> Tensor:
    if rng.random() < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    x = torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous().float().div(255)
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (augment.mean, augment.std))
    return x.sub_(mean).div_(std)
