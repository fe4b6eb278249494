"""Figures of variants compared: looks, gains with their intervals, and accuracy against cost."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from linsep.methods import ADDONS, METHODS
from linsep.report.canvas import MARKERS, Figure, looks
from linsep.report.draw_comparison import cost
from linsep.report.draw_comparison import gains as figures
from linsep.report.gather import LoadedRuns, load_runs
from linsep.report.words import costs
from linsep.storage.store import Store
from linsep.testing import BACKWARD
from tests.helpers.made_runs import make_run, spend

BASE = [50.0, 52.0, 47.0, 55.0]
GAINS = {"er+bfp": [5.0, 4.0, 7.0, 6.0], "er+fd": [-1.0, 2.0, 0.5, 0.0]}


def gains(runs: Path, seeds: int = 4) -> Figure:
    for seed in range(seeds):
        make_run(runs, "er", seed, BASE[seed])
        for method, more in GAINS.items():
            make_run(runs, method, seed, BASE[seed] + more[seed])
    (one,) = figures(load_runs(Store(runs).select()))
    return one


def rows(one: Figure) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(one.data.to_csv())))


def test_every_gain_is_the_mean_difference_with_its_interval(tmp_path: Path) -> None:
    found = rows(gains(tmp_path))
    assert len(found) == 2 * 3 * 2  # settings, metrics, variants
    scale = {"FAA": 1.0, "FF": -1.0, "ALA": 0.5}  # as the made-up runs have them
    for row in found:
        method = {"ER + BFP": "er+bfp", "ER + FD": "er+fd"}[row["method"]]
        each = scale[row["metric"]] * np.array(GAINS[method])
        interval = stats.ttest_1samp(each, 0).confidence_interval(0.95)
        assert row["against"] == "ER"
        assert float(row["difference"]) == pytest.approx(each.mean())
        assert (float(row["low"]), float(row["high"])) == pytest.approx(tuple(interval))
        assert [float(v) for v in row["values"].split()] == pytest.approx(each)


@pytest.mark.parametrize("seeds", [1, 2])
def test_below_three_seeds_there_is_a_gain_and_no_interval(tmp_path: Path, seeds: int) -> None:
    one = gains(tmp_path, seeds=seeds)
    assert [row["low"] for row in rows(one)] == [""] * 12
    assert "Fewer than 3 seeds are too few for an interval." in one.caption
    assert ("single seeds" in one.caption) == (seeds > 1)
    one.svg()


def test_without_a_pair_there_is_no_plot(tmp_path: Path) -> None:
    make_run(tmp_path, "er", 0, 50.0)
    make_run(tmp_path, "derpp+bfp", 0, 60.0)
    assert figures(load_runs(Store(tmp_path).select())) == []


# --- looks ---------------------------------------------------------------------------------------


def test_known_methods_can_be_told_apart_without_colours_too() -> None:
    for addons in MARKERS.values():
        assert set(addons) <= set(ADDONS)
    variants = [(m, m) for base in METHODS for m in (base, *(f"{base}+{t}" for t in BACKWARD))]
    found = looks(variants)
    known = [m for base in METHODS for m in (base, f"{base}+bfp") if base != "jt"]
    assert len({(found[m, m].colour, found[m, m].marker) for m in [*known, "jt"]}) == len(known) + 1
    for base in METHODS:
        own = [found[m, m] for m in (base, *(f"{base}+{t}" for t in BACKWARD))]
        assert len({look.colour for look in own}) == 1
        assert len({look.marker for look in own}) == 4
        assert {look.dash for look in own[1:]}.isdisjoint({own[0].dash})


# --- cost ----------------------------------------------------------------------------------------

VARIANTS = {"ft": (1.0, 20.0), "er": (2.0, 50.0), "der": (2.0, 40.0), "derpp": (3.0, 45.0),
        "derpp+bfp": (4.7, 60.0), "jt": (1.0, 90.0)}  # fmt: skip
FRONTIER = {"FT", "ER", "DER++ + BFP"}  # not JT, which is a bound


def loaded_runs(runs: Path) -> LoadedRuns:
    for method, (passes, faa) in VARIANTS.items():
        for seed in range(2):
            spend(make_run(runs, method, seed, faa + seed), passes)
    return load_runs(Store(runs).select())


def drawn(runs: Path) -> Figure:
    one = cost(loaded_runs(runs).blocks[0])
    assert one is not None
    return one


def test_the_frontier_has_what_nothing_beats(tmp_path: Path) -> None:
    found = rows(drawn(tmp_path))
    assert len(found) == 2 * len(VARIANTS)
    assert {row["method"] for row in found if row["frontier"] == "yes"} == FRONTIER
    er = next(row for row in found if row["method"] == "ER")
    assert (float(er["compute"]), float(er["FAA"])) == (2.0, 50.5)


def test_a_run_alone_has_the_table_and_no_picture(tmp_path: Path) -> None:
    spend(make_run(tmp_path, "er", 0, 50.0), 2.0)
    alone = load_runs(Store(tmp_path).select())
    assert cost(alone.blocks[0]) is None
    found, note = costs(alone)
    assert found is not None
    assert "relative compute: images through the networks" in note
    assert found.rows[0][:2] == ["ER", 2.0]
