"""A plan reports training settings in which methods differ although nobody asked for it."""

from pathlib import Path
from typing import Any

import pytest

from linsep.grids.plan import differing, plan
from tests.helpers.command import command

BLOBS: dict[str, Any] = {"scenario": "blobs", "memory": 20, "compute": {"device": "cpu"}}


def lines(tmp_path: Path, **settings: Any) -> list[str]:
    return differing(plan(BLOBS | settings, tmp_path))


def test_rates_that_methods_suggest_are_reported(tmp_path: Path) -> None:
    methods = ["er", "er+bfp", "derpp", "derpp+bfp"]
    found = lines(tmp_path, over={"method": methods, "seed": [0, 1]})
    assert found == [
        "lr differs by default: 0.1 for er, 0.03 for derpp. Give --lr to set one for all."
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {"lr": 0.1, "over": {"method": ["er", "derpp"]}},
        {"over": {"method": ["er", "derpp"], "lr": [0.1, 0.2]}},
        {"over": {"method": ["er", "er+bfp", "ft"]}},
        {"method": "er", "over": {"epochs": [1, 2], "seed": [0, 1]}},
        {"over": {"scenario": ["blobs", "fashion-mini"]}},
    ],
    ids=["given", "varied", "the same", "one method", "scenarios"],
)
def test_nothing_is_reported_that_was_asked_for(settings: dict[str, Any], tmp_path: Path) -> None:
    assert lines(tmp_path, **settings) == []


def test_the_plan_on_the_command_line_has_the_line(tmp_path: Path) -> None:
    words = ("grid", "--scenario", "blobs", "--over", "method=er,derpp", "--dry-run")
    assert command(*words, cwd=tmp_path).stdout.splitlines()[1].startswith("lr differs by default")
