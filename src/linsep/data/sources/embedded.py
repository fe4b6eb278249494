"""Data that need no file of the user's: `fashion_mini`, which ships with the package, and `blobs`.

Knows where the package keeps its images. Knows nothing of tasks.
"""

from importlib.resources import files
from io import BytesIO

import numpy as np
import torch

from ...settings.sections import Count, Weight
from ..images import Dataset, Images
from .mnist import FASHION


def fashion_mini() -> Dataset:
    """500 training and 100 test images of each of Fashion-MNIST's ten classes, 28x28 grey."""
    content = files("linsep.data.sources").joinpath("fashion_mini.npz").read_bytes()
    with np.load(BytesIO(content)) as arrays:
        found = {name: torch.from_numpy(array) for name, array in arrays.items()}
    train = Images.of(found["train_x"].unsqueeze(1), found["train_y"])
    test = Images.of(found["test_x"].unsqueeze(1), found["test_y"])
    return Dataset(train, test, FASHION)


def blobs(
    *,
    classes: Count = 10,
    train: Count = 50,
    test: Count = 20,
    size: Count = 8,
    channels: Count = 1,
    noise: Weight = 0.15,
) -> Dataset:
    """Noisy copies of one random picture per class: `train` and `test` images of each."""
    rng = np.random.default_rng(0)
    centres = rng.random((classes, channels, size, size))

    def make(count: int) -> Images:
        y = np.repeat(np.arange(classes), count)
        x = centres[y] + noise * rng.standard_normal((len(y), channels, size, size))
        pixels = (x.clip(0, 1) * 255).round().astype(np.uint8)
        return Images.of(torch.from_numpy(pixels), torch.from_numpy(y))

    return Dataset(make(train), make(test), tuple(f"blob {c}" for c in range(classes)))
