"""From the name of a scenario to its tasks: load the images, check them, split them, augment them.

Mistakes in a user's data are found here, before any training.
"""

import warnings
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import torch

from ..errors import ConfigError, DataError
from ..randomness import Randomness
from ..settings import sections
from ..settings.signature import complete
from .augment import Augment, Columns
from .decoding import reading
from .images import Dataset, Images, Tasks, check, pixel_statistics
from .published import Progress, data_folder
from .registry import Source, source
from .tasks import Scenario, split, streamed

MEASURED = 10_000  # images used to measure the pixel statistics of a user's data


class TaskWarning(UserWarning):
    """A task that cannot be tested."""


class Opened(NamedTuple):
    """A scenario ready for training, its augmentation, and a fingerprint of the data."""

    scenario: Scenario
    augment: Augment
    fingerprint: str  # of images and labels, independent of their paths


def open_scenario(
    wanted: sections.Scenario, data: Dataset | None = None, progress: Progress | None = None
) -> Opened:
    """Load the data unless they are given, check them, and split them into tasks."""
    found = source(wanted.name)
    if data is None:
        data = load(wanted, progress)
    check(data)
    own = data.tasks
    scenario = _split(data, wanted, found) if own is None else _in_own_tasks(data, own, wanted)
    _check_tasks(scenario, own.names if own else ())
    usual = found.augment or measured(data.train)
    augment = adjusted(usual, wanted.augment, data.train.shape[0])
    return Opened(scenario, augment, fingerprint(data))


def load(wanted: sections.Scenario, progress: Progress | None = None) -> Dataset:
    """Read a scenario's images; an error names the file that cannot be read."""
    found = source(wanted.name)
    chosen = complete(found.load, wanted.options, "scenario")
    path = None if wanted.data is None else Path(wanted.data)
    if not found.layout:
        if path is not None:
            raise ConfigError(f"scenario.data: {wanted.name!r} reads no files; leave it out")
        return found.load(**chosen)
    if found.published is None and path is None:
        raise ConfigError(
            f"scenario.data is missing (--data): {wanted.name!r} reads your files: {found.layout}"
        )
    place = data_folder(path)
    given = [place, *filter(None, [found.published]), *([progress] if found.decodes else [])]
    with reading(place, "cannot be used", OSError):
        return found.load(*given, **chosen)


def _split(data: Dataset, wanted: sections.Scenario, found: Source) -> Scenario:
    kept, order = reduced(data, wanted), None
    if wanted.order == "shuffled":
        rng = Randomness(int(wanted.order_seed)).at("class order")
        order = rng.permutation(len(kept.names)).tolist()
    return split(wanted.name, kept, _counts(wanted, found, len(kept.names)), order)


def _in_own_tasks(data: Dataset, tasks: Tasks, wanted: sections.Scenario) -> Scenario:
    """Build the scenario whose tasks the data set itself defines."""
    given = ("per_task", "first_task", "per_class", "test_per_class", "validation")
    stated = [name for name in given if getattr(wanted, name)]
    for name in [*stated, *(["order"] if wanted.order == "shuffled" else [])]:
        raise ConfigError(
            f"scenario.{name}: the data already assign every image to a task; leave it out"
        )
    return streamed(wanted.name, data, tasks)


def _check_tasks(scenario: Scenario, names: tuple[str, ...]) -> None:
    """Refuse a task without training images, and warn about one without test images."""
    for task, group in zip(scenario.tasks, scenario.groups, strict=True):
        called = f"task {names[task.index]!r}" if names else f"task {task.index + 1}"
        if len(task.train) < 2:
            raise DataError(
                f"{called} has {len(task.train)} training images; at least 2 are needed to train on"
            )
        if not len(group.test):
            message = f"{called} has no test images: its accuracy, and any mean over it, is unknown"
            warnings.warn(message, TaskWarning, stacklevel=3)


def reduced(data: Dataset, wanted: sections.Scenario) -> Dataset:
    """Replace the test images by validation images and keep fewer per class, as configured."""
    train, test = data.train, data.test
    if wanted.validation:
        rows = _rows_by_class(train, len(data.names), "validation", Randomness(0))
        held = {c: max(1, round(wanted.validation * len(r))) for c, r in enumerate(rows)}
        if any(n >= len(rows[c]) for c, n in held.items()):
            raise ConfigError("scenario.validation: leaves a class without training images")
        test = train.take(torch.cat([r[: held[c]] for c, r in enumerate(rows)]).sort().values)
        train = train.take(torch.cat([r[held[c] :] for c, r in enumerate(rows)]).sort().values)
    randomness = Randomness(int(wanted.subset_seed))
    train = _few(train, wanted.per_class, len(data.names), "train", randomness)
    test = _few(test, wanted.test_per_class, len(data.names), "test", randomness)
    return data._replace(train=train, test=test)


def fingerprint(data: Dataset) -> str:
    """Return a digest of images, labels and tasks; paths do not matter."""
    found = data.digest
    if found is None:
        digest = blake2b(digest_size=16)
        for images in data[:2]:
            digest.update(repr(images.shape).encode())
            for part in images.chunks(4096):
                digest.update(part.pixels().numpy().tobytes())
            digest.update(images.y.numpy().tobytes())
        found = digest.hexdigest()
    if data.tasks is None:
        return found
    content = b"".join(part.numpy().tobytes() for part in data.tasks[1:])
    return blake2b(found.encode() + content, digest_size=16).hexdigest()


def measured(train: Images) -> Augment:
    """Normalise by the images' own statistics, pad by an eighth, and flip; standardise vectors."""
    step = max(1, len(train) // MEASURED)
    some = train.take(torch.arange(0, len(train), step))
    if len(train.shape) == 1:
        return Columns.of(some.pixels().numpy())
    found = pixel_statistics(some)
    mean = tuple(round(v, 4) for v in found.mean)
    std = tuple(max(round(v, 4), 1e-3) for v in found.std)
    _, h, w = train.shape
    return Augment(size=(h, w), pad=min(h, w) // 8, flip=True, mean=mean, std=std)


def adjusted(usual: Augment, wanted: sections.Augmentation | None, channels: int) -> Augment:
    """Apply the settings of the user, or of a pretrained net, to the usual augmentation."""
    if wanted is None:
        return usual
    if isinstance(usual, Columns):
        if wanted.crop == 0 and wanted.flip is False and wanted.size is None:
            return usual
        raise ConfigError(
            "scenario.augment: is for images, and these rows are vectors; leave it out, and choose "
            "a net that reads vectors, mlp or identity"
        )
    size = usual.size if wanted.size is None else (wanted.size, wanted.size)
    return replace(
        usual,
        size=size,
        cut=None if size == usual.size else usual.size,
        pad=usual.pad if wanted.crop is None else wanted.crop,
        flip=usual.flip if wanted.flip is None else wanted.flip,
        mean=_per_channel(wanted.mean or usual.mean, channels, "mean"),
        std=_per_channel(wanted.std or usual.std, channels, "std"),
        still=wanted.crop == 0 and wanted.flip is False,
    )


def _per_channel(numbers: tuple[float, ...], channels: int, name: str) -> tuple[float, ...]:
    """Return one number per channel; grey images get the mean of three colours' numbers."""
    if len(numbers) == 1:
        return numbers * channels
    if channels == 1 and len(numbers) == 3:
        return (round(sum(numbers) / 3, 6),)
    if len(numbers) != channels:
        should = f"the images have {channels} channels; {len(numbers)} numbers were given"
        raise ConfigError(f"scenario.augment.{name}: {should}")
    return numbers


def _counts(wanted: sections.Scenario, found: Source, classes: int) -> list[int]:
    per_task = wanted.per_task or found.per_task
    if per_task is None:
        raise ConfigError(
            f"scenario.per_task is missing: there are {classes} classes; how many per task? "
            "(run: --set scenario.per_task=2; data draw: --per-task 2)"
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


def _few(images: Images, n: int | None, classes: int, name: str, randomness: Randomness) -> Images:
    if n is None:
        return images
    rows = _rows_by_class(images, classes, f"subset/{name}", randomness)
    return images.take(torch.cat([r[:n] for r in rows]).sort().values)


def _rows_by_class(
    images: Images, classes: int, name: str, randomness: Randomness
) -> list[torch.Tensor]:
    """Return each class's rows in a random order of its own."""
    found = []
    for c in range(classes):
        rows = (images.y == c).nonzero()[:, 0]
        found.append(rows[torch.from_numpy(randomness.at(name, c).permutation(len(rows)))])
    return found
