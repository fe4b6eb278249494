"""Cost of data: augmenting whole batches against one image at a time, and loading CIFAR-10.

The plain pipeline is what most training code does: for every image a Pillow picture, a random crop
(padded, or resized at 224), perhaps a flip, a tensor, normalised; then stack them. CPU time, in one
process, on one thread; rounds of the two take turns, and the least of each counts.
"""

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from linsep.compare.tables import Table
from linsep.data.augment import Augment, draw_boxes
from linsep.data.published import data_folder
from linsep.storage.resumable import threads

from .timing import least

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2615)
ROWS = 32
CIFAR10_BYTES = 60_000 * 3072

# In a process of its own: the peak of this one has been and gone.
LOAD = """
import json, sys, time
from benchmarks.data import memory
from linsep.data.scenarios import load
from linsep.settings.sections import Scenario
wanted = Scenario(name="split-cifar10", data=sys.argv[1])
before, start = memory("VmRSS"), time.perf_counter()
load(wanted)
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "bytes": memory("VmHWM") - before}))
"""


class Figure(NamedTuple):
    what: str
    ours: float  # CPU milliseconds a batch of 32
    plain: float
    bound: float | None  # how many times cheaper ours should be


class Loading(NamedTuple):
    seconds: float
    peak: float  # extra memory, as a multiple of the images' bytes


def measure(repeats: int = 9) -> list[Figure]:
    """Batches of 32 colour images at 32, 64 and 224."""
    small, middle = (Augment((side, side), MEAN, STD, pad=4) for side in (32, 64))
    large = Augment((224, 224), MEAN, STD, resized=True)
    with threads(1):
        return [
            _figure("32x32, pad 4", small, 32, repeats, 40, 20.0),
            _figure("64x64, pad 4", middle, 64, repeats, 20),
            _figure("224 of 256", large, 256, repeats, 1),
        ]


def load(root: Path | None = None) -> Loading:
    """CIFAR-10 from its folder, in a fresh process."""
    command = [sys.executable, "-c", LOAD, str(data_folder(root).resolve())]
    here = Path(__file__).parents[1]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, cwd=here).stdout)
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
        (what, ours, plain, f"{plain / ours:.1f}x", "" if bound is None else f"{bound:.0f}x")
        for what, ours, plain, bound in figures
    ]
    return Table(
        ("augmenting 32 images", "ms CPU", "plain, ms", "cheaper", "bound"), rows, digits=2
    )


def _figure(
    what: str, augment: Augment, side: int, rounds: int, calls: int, bound: float | None = None
) -> Figure:
    rng = np.random.default_rng(0)
    raw = torch.from_numpy(rng.integers(0, 256, (ROWS, 3, side, side), dtype=np.uint8))
    stored = [np.ascontiguousarray(image.permute(1, 2, 0).numpy()) for image in raw]

    def ours() -> None:
        for _ in range(calls):
            augment.train(raw, rng)

    def plain() -> None:
        for _ in range(calls):
            torch.stack([_plain(Image.fromarray(array), augment, rng) for array in stored])

    a, b = (1000 * times.cpu / calls for times in least(ours, plain, rounds=rounds))
    return Figure(what, a, b, bound)


def _plain(picture: Image.Image, augment: Augment, rng: np.random.Generator) -> Tensor:
    """Augment one picture, step by step."""
    height, width = augment.size
    if augment.resized:
        draw = draw_boxes(rng, 1, (picture.height, picture.width), False)
        top, left, _, h, w = (int(values[0]) for values in draw if values is not None)
        box = picture.crop((left, top, left + w, top + h))
        picture = box.resize((width, height), Image.Resampling.BILINEAR)
    else:
        picture = ImageOps.expand(picture, augment.pad)
        left = int(rng.integers(picture.width - width + 1))
        top = int(rng.integers(picture.height - height + 1))
        picture = picture.crop((left, top, left + width, top + height))
    if rng.random() < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    x = torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous().float().div(255)
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (augment.mean, augment.std))
    return x.sub_(mean).div_(std)
