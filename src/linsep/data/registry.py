"""The registry of data sets: how each is found, read, augmented and split into tasks.

Everything that lists, fetches, checks, draws or trains on data looks here, so adding a data set
takes an entry, and a reader if its files have a layout of their own.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .. import custom
from ..errors import ConfigError, DataError, unknown
from . import arrays, listings, objects, standard
from .augment import Augment
from .images import Dataset
from .published import Progress, Published, Remote


def _usual(
    net: str, epochs: int, batch_size: int = 32, rows: int | None = None, **training: Any
) -> dict[str, Any]:
    """Return the suggested sections of a configuration; `rows` is the size of the memory."""
    steps = {"epochs": epochs, "batch_size": batch_size, **training}
    memory = {"memory": {"size": rows}} if rows else {}
    return {"net": {"name": net}, "training": steps, **memory}


class Source(NamedTuple):
    """A data set and its usual protocol.

    `load` takes the path if there are files, then `published` if they are, then a progress callback
    if it decodes, and its options by keyword. Files of a published set are searched for; the user
    must say where their own are.
    """

    load: Callable[..., Dataset]
    layout: str = ""  # expected on disk; empty: it reads no files
    published: Published | None = None
    decodes: bool = False  # the first load decodes images into the cache
    per_task: int | None = None  # classes; None: the user must state it
    augment: Augment | None = None  # None: measured on the training images
    suggests: Mapping[str, Any] = _usual("resnet18", 10)  # for what the configuration leaves open


# At a constant rate the last steps of a task decide its result, and now and then one ruins it.
_LATE = {"milestones": (0.8,)}
_CIFAR = "https://www.cs.toronto.edu/~kriz/cifar-{}-python.tar.gz"
# Images and labels, training and test; all four spellings of each are in use.
_IDX = tuple(
    "|".join(f"{part}-{kind}{sign}{idx}-ubyte{end}" for sign in "-." for end in ("", ".gz"))
    for part in ("train", "t10k")
    for kind, idx in (("images", "idx3"), ("labels", "idx1"))
)


def _zipped(base: str, *sums: tuple[str, int]) -> tuple[Remote, ...]:
    """Return the zipped idx files at an address, given the MD5 and the size of each."""
    names = (spellings.split("|")[1] for spellings in _IDX)
    return tuple(Remote(f"{base}/{name}", *found) for name, found in zip(names, sums, strict=True))


SOURCES: Mapping[str, Source] = {
    "fashion-mini": Source(
        standard.fashion_mini,
        per_task=2,
        augment=Augment((28, 28), (0.2873,), (0.3544,), pad=2),
        suggests=_usual("cnn", 5, rows=100, schedule=_LATE, lr=0.2),
    ),
    # The paper's protocol for the data sets it uses; for others, one that runs in reasonable time.
    "split-cifar10": Source(
        standard.cifar,
        "cifar-10-batches-py/ or cifar-10-python.tar.gz",
        Published(
            "cifar10",
            ("cifar-10-batches-py", "."),
            (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta"),
            (Remote(_CIFAR.format(10), "c58f30108f718f92721af3b95e74349a", 170_498_071),),
            archived=True,
            counts=((5000,) * 10, (1000,) * 10),
        ),
        per_task=2,
        augment=Augment((32, 32), (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2615), pad=4),
        suggests=_usual("resnet18", 50),
    ),
    "split-cifar100": Source(
        standard.cifar,
        "cifar-100-python/ or cifar-100-python.tar.gz",
        Published(
            "cifar100",
            ("cifar-100-python", "."),
            ("train", "test", "meta"),
            (Remote(_CIFAR.format(100), "eb9058c3a382ffc7106e4002c42a8d85", 169_001_437),),
            archived=True,
            counts=((500,) * 100, (100,) * 100),
        ),
        per_task=10,
        augment=Augment((32, 32), (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761), pad=4),
        suggests=_usual("resnet18", 50, rows=500, schedule={"milestones": (35, 45)}),
    ),
    "split-tinyimagenet": Source(
        listings.tinyimagenet,
        "tiny-imagenet-200/ or tiny-imagenet-200.zip",
        Published(
            "tinyimagenet",
            ("tiny-imagenet-200", "."),
            ("wnids.txt", "train", "val"),
            (
                Remote(
                    "https://cs231n.stanford.edu/tiny-imagenet-200.zip",
                    "90528d7ca1a48142e341f4ef8d21d0de",
                    248_100_043,
                ),
            ),
            archived=True,
        ),
        decodes=True,
        per_task=20,
        augment=Augment((64, 64), (0.4802, 0.4480, 0.3975), (0.2770, 0.2691, 0.2821), pad=4),
        suggests=_usual("resnet18", 100, 64, rows=4000, schedule={"milestones": (35, 60, 75)}),
    ),
    "split-imagenet100": Source(
        listings.imagenet100,
        "train/n01.../ and val/n01.../, perhaps below imagenet/",
        Published(
            "imagenet100",
            (".", "imagenet100", "imagenet", "ILSVRC/Data/CLS-LOC"),
            tuple(f"{p}/{wnid}" for p in ("train", "val") for wnid in listings.IMAGENET100),
            names=listings.IMAGENET100,
            by_hand="its publisher requires an account",
        ),
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
        standard.mnist,
        "MNIST/raw/ or mnist/ with the four idx files, .gz or not",
        Published(
            "mnist",
            ("MNIST/raw", "mnist", "MNIST", "."),
            _IDX,
            _zipped(
                "https://ossci-datasets.s3.amazonaws.com/mnist",
                ("f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
                ("d53e105ee54ea40749a09fcbcd1e9432", 28_881),
                ("9fb629c4189551a2d022fa330f9573f3", 1_648_877),
                ("ec29112dd5afa0611ce80d1b7f02629c", 4_542),
            ),
            names=tuple("0123456789"),
            counts=(
                (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
                (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
            ),
        ),
        per_task=2,
        augment=Augment((28, 28), (0.1307,), (0.3081,), pad=2, flip=False),
        suggests=_usual("cnn", 5, schedule=_LATE),
    ),
    "split-fashion-mnist": Source(
        standard.mnist,
        "FashionMNIST/raw/ or fashion-mnist/ with the four idx files, .gz or not",
        Published(
            "fashion-mnist",
            (
                *("FashionMNIST/raw", "fashion-mnist", "FashionMNIST", "fashion_mnist", "."),
                "/usr/share/datasets/fashion-mnist",  # Debian's package
            ),
            _IDX,
            _zipped(
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
                ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
                ("25c81989df183df01b3e8a0aad5dffbe", 29_515),
                ("bef4ecab320f06d8554ea6380940ec79", 4_422_102),
                ("bb300cfdad3c16e7a12a480ee83cd310", 5_148),
            ),
            names=standard.FASHION,
            counts=((6000,) * 10, (1000,) * 10),
        ),
        per_task=2,
        augment=Augment((28, 28), (0.2860,), (0.3530,), pad=2),
        suggests=_usual("cnn", 5, schedule=_LATE),
    ),
    "grocery": Source(
        listings.grocery,
        "grocery/ or GroceryStoreDataset/dataset/, with train/ and test/",
        Published(
            "grocery",
            ("grocery", "GroceryStoreDataset/dataset", "dataset", "."),
            ("train", "test"),
            by_hand="clone https://github.com/marcusklasson/GroceryStoreDataset",
        ),
        decodes=True,
        per_task=9,
        suggests=_usual("efficientnet_lite0", 10, rows=500, lr=0.01),
    ),
    "folder": Source(
        listings.folder, "DIR/train/<class>/ and DIR/test/<class>/, or DIR/<class>/", decodes=True
    ),
    "table": Source(listings.table, "FILE.csv", decodes=True),
    "arrays": Source(arrays.arrays, "FILE.npz, or DIR/x_train.npy and so on"),
    "huggingface": Source(objects.from_huggingface, "DIR"),
    "code": Source(objects.from_code, "FILE.py:FUNCTION or MODULE:FUNCTION"),
    "blobs": Source(standard.blobs, per_task=2, suggests=_usual("cnn", 5)),
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
    return Source(objects.converting(part.make, part.source))


def full_name(name: str) -> str:
    """Return the scenario's full name: split-cifar10 for cifar10."""
    return name if f"split-{name}" not in SOURCES else f"split-{name}"


def get(name: str, root: Path, progress: Progress | None = None) -> tuple[Path, ...]:
    """Download a published data set, check it and unpack it."""
    wanted = source(name)
    if not wanted.layout:
        raise DataError(f"{name} needs no files: there is nothing to fetch")
    if wanted.published is None or not wanted.published.remotes:
        how = wanted.published.by_hand if wanted.published else "it reads your own files"
        raise DataError(f"{name} cannot be fetched: {how}. Expected: {wanted.layout}")
    return wanted.published.get(root, progress)
