"""From a name to a stream of tasks: which images, which classes when, how pixels are treated.

Knows the sources and their usual protocols. Knows nothing of nets or losses. What a user's images
may get wrong is found here, before anything is trained on them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from ..errors import ConfigError, DataError, unknown
from ..settings import sections
from ..settings.signature import complete
from ..streams import Streams
from .augment import Augment
from .images import Dataset, Images
from .sources.cache import Progress
from .sources.embedded import blobs, fashion_mini
from .sources.measure import pixel_statistics
from .sources.places import data_folder
from .sources.registry import SOURCES, Source
from .sources.table import Table
from .tasks import Scenario, split, streamed

MEASURED = 10_000  # images that the pixel statistics of a user's data are taken from


@dataclass(frozen=True)
class Recipe:
    """A scenario by name. `load` takes the path of the data, if it reads any, and its options."""

    line: str  # for `linsep list`
    load: Callable[..., Dataset | Table]
    per_task: int | None = None  # classes; None: the user must say
    augment: Augment | None = None  # None: measured on the training images
    suggests: Mapping[str, Any] = field(default_factory=dict)  # what the config leaves open
    decodes: bool = False  # takes a while the first time, and says how far it is
    # Where its files are: nowhere, in the data folder unless told otherwise, or the user must say.
    reads: Literal["nothing", "data", "own"] = "nothing"


_SMALL = {"net": {"name": "cnn"}, "training": {"epochs": 5, "batch_size": 32}}
# At a constant rate the last steps of a task decide how it ends: now and then one ruins it.
_IDX = {
    "net": {"name": "cnn"},
    "training": {"epochs": 5, "batch_size": 32, "schedule": {"milestones": (0.8,)}},
}
_RESNET = {"name": "resnet18"}
# The paper's protocol on its own data; on others, what runs in reasonable time.
_SUGGESTS: Mapping[str, Mapping[str, Any]] = {
    "split-cifar10": {"net": _RESNET, "training": {"epochs": 50, "batch_size": 32}},
    "split-cifar100": {
        "net": _RESNET,
        "training": {"epochs": 50, "batch_size": 32, "schedule": {"milestones": (35, 45)}},
        "memory": {"rows": 500},
    },
    "split-tinyimagenet": {
        "net": _RESNET,
        "training": {"epochs": 100, "batch_size": 64, "schedule": {"milestones": (35, 60, 75)}},
        "memory": {"rows": 4000},
    },
    "split-imagenet100": {
        "net": _RESNET,
        "training": {
            "epochs": 65,
            "batch_size": 64,  # the paper does not say
            "lr": 0.1,
            "weight_decay": 5e-4,
            "schedule": {"warmup": 5, "milestones": (15, 30, 40, 45)},
        },
        "memory": {"rows": 2000},
    },
    "split-mnist": _IDX,
    "split-fashion-mnist": _IDX,
}


def _from_source(name: str, source: Source) -> Recipe:
    augment = None
    if source.size is not None and source.mean:
        augment = Augment(
            size=source.size, pad=source.pad, flip=source.flip, mean=source.mean, std=source.std,
            resized=source.resized,
        )  # fmt: skip
    own = {"net": _RESNET, "training": {"epochs": 10, "batch_size": 32}}
    return Recipe(
        source.line,
        source.load,
        None if source.own else source.per_task,
        augment,
        _SUGGESTS.get(name, own),
        decodes=source.prepares,
        reads="own" if source.own else "data",
    )


SCENARIOS: Mapping[str, Recipe] = {
    "fashion-mini": Recipe(
        "Fashion-MNIST, 500 + 100 images of each class, embedded: 5 tasks of 2 classes, 28x28",
        fashion_mini,
        per_task=2,
        augment=Augment(size=(28, 28), pad=2, flip=True, mean=(0.2873,), std=(0.3544,)),
        suggests={
            "net": {"name": "cnn"},
            "training": {
                "epochs": 5,
                "batch_size": 32,
                "lr": 0.2,
                "schedule": {"milestones": (0.8,)},
            },
            "memory": {"rows": 100},
        },
    ),
    **{name: _from_source(name, source) for name, source in SOURCES.items()},
    "blobs": Recipe(
        "synthetic noisy pictures, for tests: 5 tasks of 2 classes, 8x8",
        blobs,
        per_task=2,
        suggests=_SMALL,
    ),
}


def recipe(name: str) -> Recipe:
    if name not in SCENARIOS:
        raise ConfigError(f"scenario.name: {unknown('scenario', name, SCENARIOS)}")
    return SCENARIOS[name]


class Stream(NamedTuple):
    """A scenario ready to learn, with how its pixels reach the net and what identifies it."""

    scenario: Scenario
    augment: Augment
    fingerprint: str  # of the images and labels, whatever their path


def open_stream(
    wanted: sections.Scenario, data: Dataset | None = None, progress: Progress | None = None
) -> Stream:
    """Load, unless the data are handed in, check, and cut into tasks."""
    found = recipe(wanted.name)
    loaded = load(wanted, progress) if data is None else data
    given = loaded.data if isinstance(loaded, Table) else loaded
    check(given)
    digest = given.digest or fingerprint(given)
    augment = found.augment or measured(given.train)
    if isinstance(loaded, Table) and loaded.tasks:
        return Stream(_as_listed(loaded, wanted), augment, _with_tasks(digest, loaded))
    kept = reduced(given, wanted)
    counts = _counts(wanted, found, len(kept.names))
    order = None
    if wanted.order == "shuffled":
        order = Streams(wanted.order_seed).at("class order").permutation(len(kept.names)).tolist()
    return Stream(split(wanted.name, kept, counts, order), augment, digest)


def load(wanted: sections.Scenario, progress: Progress | None = None) -> Dataset | Table:
    found = recipe(wanted.name)
    chosen = complete(found.load, wanted.options, "scenario")
    path = None if wanted.data is None else Path(wanted.data)
    match found.reads:
        case "nothing":
            if path is not None:
                raise ConfigError(f"scenario.data: {wanted.name!r} reads no files; leave it out")
            return found.load(**chosen)
        case "data":
            place = data_folder(path)
        case "own":
            if path is None:
                raise ConfigError(f"scenario.data is missing: {wanted.name!r} is where? (--data)")
            place = path.expanduser()
    return found.load(place, *([progress] if found.decodes else []), **chosen)


def _as_listed(listed: Table, wanted: sections.Scenario) -> Scenario:
    """The stream that a table's own column `task` describes."""
    for name in ("per_task", "first_task", "per_class", "test_per_class", "validation"):
        if getattr(wanted, name):
            raise ConfigError(f"scenario.{name}: the table says which image comes in which task")
    assert listed.train_tasks is not None
    assert listed.test_tasks is not None
    parts = listed.train_tasks, listed.test_tasks
    return streamed(wanted.name, listed.data, *parts, len(listed.tasks))


def _with_tasks(digest: str, listed: Table) -> str:
    assert listed.train_tasks is not None
    assert listed.test_tasks is not None
    content = digest.encode() + listed.train_tasks.numpy().tobytes()
    return blake2b(content + listed.test_tasks.numpy().tobytes(), digest_size=16).hexdigest()


def check(data: Dataset) -> None:
    """Refuse images or labels that no run should be made of."""
    for part, images in (("training", data.train), ("test", data.test)):
        if not len(images):
            raise DataError(f"there are no {part} images")
        low, high = int(images.y.min()), int(images.y.max())
        if low < 0 or high >= len(data.names):
            wrong = low if low < 0 else high
            raise DataError(
                f"{part} labels: found {wrong}, but there are {len(data.names)} classes "
                f"(labels 0 to {len(data.names) - 1})"
            )
        for source in images.sources:
            if source.dtype != torch.uint8 or source.ndim != 4:
                raise DataError(
                    f"{part} images: need uint8 of shape (n, channels, height, width), "
                    f"not {source.dtype} of shape {tuple(source.shape)}"
                )
        empty = sorted(set(range(len(data.names))) - set(images.y.unique().tolist()))
        if empty:
            raise DataError(f"class {data.names[empty[0]]!r} has no {part} image")
    if data.train.shape != data.test.shape:
        raise DataError(
            f"training images are {data.train.shape}, test images {data.test.shape}: "
            "they must have one shape"
        )


def reduced(data: Dataset, wanted: sections.Scenario) -> Dataset:
    """A validation split instead of the test images, and fewer images per class, as asked for."""
    train, test = data.train, data.test
    streams = Streams(0)  # the same images whatever the run's seed
    if wanted.validation:
        rows = _rows_by_class(train, len(data.names), streams, "validation")
        held = {c: max(1, round(wanted.validation * len(r))) for c, r in enumerate(rows)}
        if any(n >= len(rows[c]) for c, n in held.items()):
            raise ConfigError("scenario.validation: leaves a class without training images")
        test = train.take(torch.cat([r[: held[c]] for c, r in enumerate(rows)]).sort().values)
        train = train.take(torch.cat([r[held[c] :] for c, r in enumerate(rows)]).sort().values)
    train = _few(train, wanted.per_class, len(data.names), streams, "train")
    test = _few(test, wanted.test_per_class, len(data.names), streams, "test")
    return data._replace(train=train, test=test)


def fingerprint(data: Dataset) -> str:
    """Of the content: what an image or a label changes, and a path does not."""
    digest = blake2b(digest_size=16)
    for images in data[:2]:
        digest.update(repr(images.shape).encode())
        for part in images.chunks(4096):
            digest.update(part.pixels().numpy().tobytes())
        digest.update(images.y.numpy().tobytes())
    return digest.hexdigest()


def measured(train: Images) -> Augment:
    """For a user's images: their own mean and deviation, padding of an eighth, flips."""
    step = max(1, len(train) // MEASURED)
    found = pixel_statistics(train.take(torch.arange(0, len(train), step)))
    mean = tuple(round(v, 4) for v in found.mean)
    std = tuple(max(round(v, 4), 1e-3) for v in found.std)
    _, h, w = train.shape
    return Augment(size=(h, w), pad=min(h, w) // 8, flip=True, mean=mean, std=std)


def _counts(wanted: sections.Scenario, found: Recipe, classes: int) -> list[int]:
    per_task = wanted.per_task or found.per_task
    if per_task is None:
        raise ConfigError(
            f"scenario.per_task is missing: there are {classes} classes; how many come in a task? "
            "(--set scenario.per_task=2)"
        )
    first = wanted.first_task or per_task
    rest = classes - first
    if rest < 0 or rest % per_task:
        raise ConfigError(
            f"scenario.per_task: {classes} classes do not divide into "
            + (f"{first} and then " if first != per_task else "")
            + f"tasks of {per_task}"
        )
    return [first] + [per_task] * (rest // per_task)


def _few(images: Images, n: int | None, classes: int, streams: Streams, name: str) -> Images:
    if n is None:
        return images
    rows = _rows_by_class(images, classes, streams, f"subset/{name}")
    return images.take(torch.cat([r[:n] for r in rows]).sort().values)


def _rows_by_class(images: Images, classes: int, streams: Streams, name: str) -> list[torch.Tensor]:
    """Each class's rows in a random order of its own."""
    found = []
    for c in range(classes):
        rows = (images.y == c).nonzero()[:, 0]
        found.append(rows[torch.from_numpy(streams.at(name, c).permutation(len(rows)))])
    return found
