"""The maps of EfficientNet-Lite0's first blocks, which tail.py reads, computed once for an image.

    python -m studies maps --data DIR -o maps

As long as the blocks before `stage7` stay frozen, their maps are the same in every epoch, method
and seed. They are computed for every image, and for its mirror image if it is for training, and
written as grey pictures whose bytes are float32 numbers, one row for each channel.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from linsep.data.augment import Augment
from linsep.data.images import Images
from linsep.data.scenarios import load, reduced
from linsep.nets.efficientnet import efficientnet_lite0
from linsep.nets.net import Blocks
from linsep.settings.sections import Scenario

from .tail import FIRST, SIDE

AT_ONCE = 16  # images that pass the blocks together
HELD_OUT = 0.2  # share of the training images that settings are chosen on
SETS: dict[str, dict[str, Any]] = {
    "grocery": {"name": "grocery", "options": {"image_size": SIDE}},
    "cifar100": {"name": "split-cifar100", "per_class": 50, "test_per_class": 50},
}


@torch.no_grad()
def maps(images: Images, *, mirrored: bool) -> NDArray[np.uint8]:
    """Return the maps as pictures, (n, channels, 4 h w); those of mirror images come last."""
    whole = efficientnet_lite0((3, SIDE, SIDE)).eval()
    assert isinstance(whole, Blocks)
    whole.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    height, width = images.shape[1:]
    cut = None if (height, width) == (SIDE, SIDE) else (height, width)
    augment = Augment((SIDE, SIDE), (0.5,) * 3, (0.5,) * 3, cut=cut)  # as the weights expect
    names = list(whole.blocks)
    found = []
    for flip in (False, True) if mirrored else (False,):
        for part in images.chunks(AT_ONCE):
            x = augment.eval(part.pixels())
            x = (x.flip(3) if flip else x).contiguous(memory_format=torch.channels_last)
            for name in names[: names.index(FIRST)]:
                x = whole.blocks[name](x)
            found.append(x.contiguous().flatten(2).numpy().view(np.uint8))
    return np.concatenate(found)


def write(name: str, data: str | None, into: Path) -> Iterator[Path]:
    """Write a set's maps as arrays, and once more with training images held out to test on."""
    wanted = Scenario.model_validate(SETS[name] | {"data": data})
    chosen = reduced(load(wanted), wanted)
    held_out = reduced(chosen, Scenario(name=wanted.name, validation=HELD_OUT))
    train, test = maps(chosen.train, mirrored=True), maps(chosen.test, mirrored=False)
    place = {row: i for i, row in enumerate(chosen.train.rows.tolist())}
    kept, held = ([place[r] for r in part.rows.tolist()] for part in held_out[:2])
    both = [*kept, *(len(place) + i for i in kept)]  # with their mirror images
    y = chosen.train.y.numpy()
    yield _saved(into / name, chosen.names, train, np.tile(y, 2), test, chosen.test.y.numpy())
    folder = into / f"{name}-held-out"
    yield _saved(folder, chosen.names, train[both], np.tile(y[kept], 2), train[held], y[held])


def _saved(folder: Path, names: Sequence[str], *arrays: NDArray[Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    files = ("x_train", "y_train", "x_test", "y_test")
    for file, array in zip(files, arrays, strict=True):
        np.save(folder / f"{file}.npy", array)
    np.save(folder / "names.npy", np.array(names))
    return folder
