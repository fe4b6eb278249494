"""The data sets by name: how each is read, fetched and usually treated.

A dict literal and what one needs to look things up in it. Knows nothing of runs: a scenario is made
of a source elsewhere. Images of the user's own have no statistics here; they are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...errors import ConfigError, DataError, unknown
from ..images import Dataset
from .adapters import from_code, huggingface
from .arrays import arrays
from .cifar import CIFAR10, CIFAR100, cifar10, cifar100
from .cifar import find as find_cifar
from .download import Progress, Remote, fetch
from .folder import folder
from .imagenet100 import CLASSES, imagenet100
from .mnist import FASHION_MNIST, MNIST, fashion_mnist, mnist
from .mnist import find as find_mnist
from .table import Table, table
from .tinyimagenet import REMOTE as TINY
from .tinyimagenet import find as find_tiny
from .tinyimagenet import tinyimagenet


@dataclass(frozen=True)
class Source:
    """A data set that can be asked for by name. `load(root)` takes further options by keyword."""

    name: str
    line: str  # what it is, for lists
    load: Callable[..., Dataset | Table]
    classes: int = 0  # 0: whatever the user's images have
    per_task: int = 2  # classes, usually
    size: tuple[int, int] | None = None  # that the net reads; None: as stored
    mean: tuple[float, ...] = ()  # empty: to be measured
    std: tuple[float, ...] = ()
    pad: int = 0
    flip: bool = True
    resized: bool = False  # random resized crops instead of padded ones
    prepares: bool = False  # decodes into the cache, so the first load takes a while
    remotes: tuple[Remote, ...] = ()
    into: str = "."  # where downloads go, below the data folder
    locate: Callable[[Path], object] | None = None  # finds, and unpacks what was fetched
    marks: tuple[str, ...] = ()  # any of these, in the data folder, means that it is there
    layout: str = ""  # what to have on disk

    @property
    def own(self) -> bool:
        return self.classes == 0

    def places(self, root: Path) -> tuple[Path, ...]:
        """Where it would be; nothing is opened."""
        return tuple(root / mark for mark in self.marks)


IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

SOURCES: Mapping[str, Source] = {
    "split-cifar10": Source(
        name="cifar10",
        line="CIFAR-10: 5 tasks of 2 classes, 32x32",
        load=cifar10,
        classes=10,
        per_task=2,
        size=(32, 32),
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2615),
        pad=4,
        remotes=(CIFAR10.remote,),
        locate=partial(find_cifar, layout=CIFAR10),
        marks=(CIFAR10.folder, CIFAR10.remote.name),
        layout="cifar-10-batches-py/ or cifar-10-python.tar.gz",
    ),
    "split-cifar100": Source(
        name="cifar100",
        line="CIFAR-100: 10 tasks of 10 classes, 32x32",
        load=cifar100,
        classes=100,
        per_task=10,
        size=(32, 32),
        mean=(0.5071, 0.4867, 0.4408),
        std=(0.2675, 0.2565, 0.2761),
        pad=4,
        remotes=(CIFAR100.remote,),
        locate=partial(find_cifar, layout=CIFAR100),
        marks=(CIFAR100.folder, CIFAR100.remote.name),
        layout="cifar-100-python/ or cifar-100-python.tar.gz",
    ),
    "split-tinyimagenet": Source(
        name="tinyimagenet",
        line="TinyImageNet: 10 tasks of 20 classes, 64x64",
        load=tinyimagenet,
        classes=200,
        per_task=20,
        size=(64, 64),
        mean=(0.4802, 0.4480, 0.3975),
        std=(0.2770, 0.2691, 0.2821),
        pad=4,
        prepares=True,
        remotes=(TINY,),
        locate=find_tiny,
        marks=("tiny-imagenet-200", TINY.name, "wnids.txt"),
        layout="tiny-imagenet-200/ or tiny-imagenet-200.zip",
    ),
    "split-imagenet100": Source(
        name="imagenet100",
        line="ImageNet-100: 10 tasks of 10 classes, 224x224",
        load=imagenet100,
        classes=100,
        per_task=10,
        size=(224, 224),
        mean=IMAGENET[0],
        std=IMAGENET[1],
        resized=True,
        prepares=True,
        marks=("imagenet100", "imagenet", "ILSVRC", f"train/{CLASSES[0]}"),
        layout="train/n01.../ and val/n01.../, perhaps below imagenet/",
    ),
    "split-mnist": Source(
        name="mnist",
        line="MNIST: 5 tasks of 2 classes, 28x28 grey",
        load=mnist,
        classes=10,
        per_task=2,
        size=(28, 28),
        mean=(0.1307,),
        std=(0.3081,),
        pad=2,
        flip=False,
        remotes=MNIST.remotes,
        into=MNIST.folders[0],
        locate=partial(find_mnist, layout=MNIST),
        marks=MNIST.folders[:-1],
        layout="MNIST/raw/ or mnist/ with the four idx files, .gz or not",
    ),
    "split-fashion-mnist": Source(
        name="fashion-mnist",
        line="Fashion-MNIST: 5 tasks of 2 classes, 28x28 grey",
        load=fashion_mnist,
        classes=10,
        per_task=2,
        size=(28, 28),
        mean=(0.2860,),
        std=(0.3530,),
        pad=2,
        remotes=FASHION_MNIST.remotes,
        into=FASHION_MNIST.folders[0],
        locate=partial(find_mnist, layout=FASHION_MNIST),
        marks=FASHION_MNIST.folders[:-1] + FASHION_MNIST.elsewhere,
        layout="FashionMNIST/raw/ or fashion-mnist/ with the four idx files, .gz or not",
    ),
    "folder": Source(
        name="folder",
        line="your images, in folders named after their classes",
        load=folder,
        prepares=True,
        layout="DIR/train/<class>/ and DIR/test/<class>/, or DIR/<class>/",
    ),
    "table": Source(
        name="table",
        line="your images, in a CSV of file, label and perhaps task",
        load=table,
        prepares=True,
        layout="FILE.csv",
    ),
    "arrays": Source(
        name="arrays",
        line="your arrays: an .npz file, or a folder of .npy files",
        load=arrays,
        layout="FILE.npz, or DIR/x_train.npy and so on",
    ),
    "huggingface": Source(
        name="huggingface",
        line="a Hugging Face data set that save_to_disk wrote",
        load=huggingface,
        layout="DIR",
    ),
    "code": Source(
        name="code",
        line="the torch Dataset that a function of yours returns",
        load=from_code,
        layout="FILE.py:FUNCTION or MODULE:FUNCTION",
    ),
}


def source(name: str) -> Source:
    """By the scenario's name or the data set's: split-cifar10 or cifar10."""
    for key, found in SOURCES.items():
        if name in (key, found.name):
            return found
    raise ConfigError(unknown("data set", name, [s.name for s in SOURCES.values()]))


def get(wanted: Source, root: Path, progress: Progress | None = None) -> tuple[Path, ...]:
    """Fetch what a source is published as, check it, and unpack it."""
    if not wanted.remotes:
        how = "it is yours to bring" if wanted.own else "its terms ask for an account"
        raise DataError(f"{wanted.name} cannot be fetched: {how}. Expected: {wanted.layout}")
    files = tuple(fetch(remote, root / wanted.into, progress) for remote in wanted.remotes)
    if wanted.locate is not None:
        wanted.locate(root)
    return files
