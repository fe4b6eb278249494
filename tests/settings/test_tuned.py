"""What all-fashion-mini says of each method is what the recorded search found best."""

import csv
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from linsep.grids.plan import expand, in_parts
from linsep.settings.catalogue import METHODS
from linsep.settings.layers import flat, read_config

RECORD = Path(__file__).parents[2] / "results" / "tuning" / "fashion-mini.csv"
NAMES = {entry.title: method for method, entry in METHODS.items()}
Tried = tuple[float, float, str, float]  # FAA on held-out images, rate, weight's name and value


def recorded() -> Iterator[tuple[str, Tried]]:
    with RECORD.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            title, _, option = row["method"].partition(", ")
            name, _, value = option.partition("=")
            rate = float(row["setting"].removeprefix("lr="))
            yield NAMES[title], (round(float(row["FAA"]), 2), rate, name, float(value or 0))


def parts() -> dict[str, dict[str, Any]]:
    """The settings of each method in the grid, with its first seed."""
    return {
        runs[0]["method"]: runs[0]
        for runs in map(expand, in_parts(read_config("all-fashion-mini")))
    }


def test_every_method_has_the_values_that_did_best() -> None:
    tried: dict[str, list[Tried]] = {}
    for method, one in recorded():
        tried.setdefault(method, []).append(one)
    assert tried.keys() == parts().keys() == set(METHODS)
    for method, settings in parts().items():
        # the best; of equals the one with the smallest rate, and then the smallest weight
        _, rate, name, value = min(tried[method], key=lambda one: (-one[0], one[1], one[3]))
        assert settings["training"]["lr"] == rate, method
        own = flat(settings.get("options", {}))
        assert own == ({f"{method}.{name}": value} if name else {}), method


def test_the_record_has_everything_that_was_tried() -> None:
    """But for what diverged: DER with the largest rate and the largest weight."""
    wanted = set()
    for grid in in_parts(read_config("tuning-fashion-mini")):
        for settings in expand(grid):
            own = flat(settings.get("options", {}))
            method, rate = settings["method"], settings["training"]["lr"]
            wanted.add((method, rate, next(iter(own.values()), 0.0)))
    found = {(method, rate, value) for method, (_, rate, _, value) in recorded()}
    assert wanted - found == {("der", 1.0, 3.0)}
    assert found <= wanted


def test_the_search_was_the_same_for_all_and_saw_no_test_image() -> None:
    grids = [list(expand(grid)) for grid in in_parts(read_config("tuning-fashion-mini"))]
    every = [settings for grid in grids for settings in grid]
    assert {settings["scenario"]["validation"] for settings in every} == {0.1}
    tuned = {settings["seed"] for settings in every}
    shown = {s["seed"] for grid in in_parts(read_config("all-fashion-mini")) for s in expand(grid)}
    assert not tuned & shown
    assert tuned == {100, 101}
    for settings, seed in product(every, tuned):
        assert {**settings, "seed": seed} in every
