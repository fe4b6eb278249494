"""The registry of data sets: how each is found, read, augmented and split into tasks.

Everything that lists, fetches, checks, draws or trains on data looks here, so adding a data set
takes a loader and an entry.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .. import custom
from ..errors import ConfigError, DataError, unknown
from .augment import Augment
from .images import Dataset
from .sources import arrays, cifar, imagenet, listings, mnist
from .sources.published import Progress, Published


def _usual(
    net: str, epochs: int, batch_size: int = 32, rows: int | None = None, **training: Any
) -> dict[str, Any]:
    """Return the suggested sections of a configuration; `rows` is the size of the memory."""
    steps = {"epochs": epochs, "batch_size": batch_size, **training}
    memory = {"memory": {"size": rows}} if rows else {}
    return {"net": {"name": net}, "training": steps, **memory}


# At a constant rate the last steps of a task decide its result, and now and then one ruins it.
_LATE = {"milestones": (0.8,)}


class Source(NamedTuple):
    """A data set and its usual protocol.

    `load` takes the path, if there are files, then a progress callback, if it decodes, and its
    options by keyword. Files of a published set are searched for; the user must say where their
    own are.
    """

    load: Callable[..., Dataset]
    layout: str = ""  # expected on disk; empty: it reads no files
    published: Published | None = None
    decodes: bool = False  # the first load decodes images into the cache
    per_task: int | None = None  # classes; None: the user must state it
    augment: Augment | None = None  # None: measured on the training images
    suggests: Mapping[str, Any] = _usual("resnet18", 10)  # for what the configuration leaves open


SOURCES: Mapping[str, Source] = {
    "fashion-mini": Source(
        mnist.fashion_mini,
        per_task=2,
        augment=Augment((28, 28), (0.2873,), (0.3544,), pad=2),
        suggests=_usual("cnn", 5, rows=100, schedule=_LATE, lr=0.2),
    ),
    # The paper's protocol for the data sets it uses; for others, one that runs in reasonable time.
    "split-cifar10": Source(
        cifar.cifar10,
        "cifar-10-batches-py/ or cifar-10-python.tar.gz",
        cifar.CIFAR10.published,
        per_task=2,
        augment=Augment((32, 32), (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2615), pad=4),
        suggests=_usual("resnet18", 50),
    ),
    "split-cifar100": Source(
        cifar.cifar100,
        "cifar-100-python/ or cifar-100-python.tar.gz",
        cifar.CIFAR100.published,
        per_task=10,
        augment=Augment((32, 32), (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761), pad=4),
        suggests=_usual("resnet18", 50, rows=500, schedule={"milestones": (35, 45)}),
    ),
    "split-tinyimagenet": Source(
        imagenet.tinyimagenet,
        "tiny-imagenet-200/ or tiny-imagenet-200.zip",
        imagenet.TINYIMAGENET,
        decodes=True,
        per_task=20,
        augment=Augment((64, 64), (0.4802, 0.4480, 0.3975), (0.2770, 0.2691, 0.2821), pad=4),
        suggests=_usual("resnet18", 100, 64, rows=4000, schedule={"milestones": (35, 60, 75)}),
    ),
    "split-imagenet100": Source(
        imagenet.imagenet100,
        "train/n01.../ and val/n01.../, perhaps below imagenet/",
        imagenet.IMAGENET100,
        decodes=True,
        per_task=10,
        augment=Augment((224, 224), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), resized=True),
        suggests=_usual(
            "resnet18",
            65,
            batch_size=64,  # not stated in the paper
            rows=2000,
            lr=0.1,
            weight_decay=5e-4,
            schedule={"warmup": 5, "milestones": (15, 30, 40, 45)},
        ),
    ),
    "split-mnist": Source(
        mnist.mnist,
        "MNIST/raw/ or mnist/ with the four idx files, .gz or not",
        mnist.MNIST.published,
        per_task=2,
        augment=Augment((28, 28), (0.1307,), (0.3081,), pad=2, flip=False),
        suggests=_usual("cnn", 5, schedule=_LATE),
    ),
    "split-fashion-mnist": Source(
        mnist.fashion_mnist,
        "FashionMNIST/raw/ or fashion-mnist/ with the four idx files, .gz or not",
        mnist.FASHION_MNIST.published,
        per_task=2,
        augment=Augment((28, 28), (0.2860,), (0.3530,), pad=2),
        suggests=_usual("cnn", 5, schedule=_LATE),
    ),
    "folder": Source(
        listings.folder,
        "DIR/train/<class>/ and DIR/test/<class>/, or DIR/<class>/",
        decodes=True,
    ),
    "table": Source(
        listings.table,
        "FILE.csv",
        decodes=True,
    ),
    "arrays": Source(
        arrays.arrays,
        "FILE.npz, or DIR/x_train.npy and so on",
    ),
    "huggingface": Source(arrays.from_huggingface, "DIR"),
    "code": Source(
        arrays.from_code,
        "FILE.py:FUNCTION or MODULE:FUNCTION",
    ),
    "blobs": Source(
        mnist.blobs,
        per_task=2,
        suggests=_usual("cnn", 5),
    ),
}


def source(name: str) -> Source:
    """Look up a scenario, ours or one that an installed package offers.

    A package offers a `Source`, or a function as `from_code` calls it.
    """
    if name in SOURCES:
        return SOURCES[name]
    part = custom.take("scenarios", name, "scenario.name: ")
    if part is None:
        known = [*SOURCES, *custom.offered("scenarios")]
        raise ConfigError(f"scenario.name: {unknown('scenario', name, known)}")
    made: Any = part.make
    if isinstance(made, Source):
        return made
    return Source(arrays.converting(part.make, part.source))


def full_name(name: str) -> str:
    """Return the scenario's full name: split-cifar10 for cifar10."""
    return name if f"split-{name}" not in SOURCES else f"split-{name}"


def get(name: str, root: Path, progress: Progress | None = None) -> tuple[Path, ...]:
    """Download a published data set, check it and unpack it."""
    wanted = source(name)
    if not wanted.layout:
        raise DataError(f"{name} needs no files: there is nothing to fetch")
    if wanted.published is None or not wanted.published.remotes:
        how = "its publisher requires an account" if wanted.published else "it reads your own files"
        raise DataError(f"{name} cannot be fetched: {how}. Expected: {wanted.layout}")
    return wanted.published.get(root, progress)
