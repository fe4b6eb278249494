"""Avalanche's benchmarks as data and settings of linsep's runs."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from ..data.images import Dataset
from ..data.sources.arrays import from_torch
from ..errors import ConfigError


def from_benchmark(benchmark: Any, **options: Any) -> tuple[Dataset, dict[str, Any]]:
    """Read a class-incremental benchmark: its images, and the settings of the scenario.

        data, scenario = from_benchmark(SplitMNIST(n_experiences=5))
        linsep.train({"scenario": scenario, "method": "derpp+bfp"}, data=data)

    Classes are numbered in the order of the experiences. `options` are those of
    `linsep.from_torch`. Images are taken without random augmentation, from the test stream's
    transformations, which must not normalise: linsep does both itself.
    """
    groups = [sorted(map(int, e.classes_in_this_experience)) for e in benchmark.train_stream]
    order = list(chain.from_iterable(groups))
    if len(set(order)) < len(order):
        raise ConfigError("this benchmark shows a class twice; a task's classes should be its own")
    sizes = [len(group) for group in groups]
    if len(set(sizes[1:])) > 1:
        raise ConfigError(
            f"this benchmark has experiences of {sizes} classes; all but the first should be alike"
        )
    number = {label: place for place, label in enumerate(order)}
    train, test = (
        _Rows([e.dataset.eval() for e in stream], number)
        for stream in (benchmark.train_stream, benchmark.test_stream)
    )
    names = options.pop("names", None) or [str(label) for label in order]
    scenario: dict[str, Any] = {"per_task": sizes[-1]}
    if sizes[0] != sizes[-1]:
        scenario["first_task"] = sizes[0]
    return from_torch(train, test, names=names, **options), scenario


class _Rows:
    """The rows of several Avalanche data sets as (image, label), with labels of our own."""

    def __init__(self, parts: Sequence[Any], number: dict[int, int]) -> None:
        self.places = [(part, i) for part in parts for i in range(len(part))]
        self.number = number

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        part, i = self.places[index]
        image, label, *_ = part[i]
        return image, self.number[int(label)]
