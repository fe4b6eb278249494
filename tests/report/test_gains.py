"""The plot of gains: paired differences with their intervals, worked out here another way."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from linsep.report import style
from linsep.report.canvas import Figure
from linsep.report.draw_comparison import gains as figures
from linsep.report.gather import gather
from linsep.storage.store import Store
from tests.helpers.made_runs import make_run

BASE = [50.0, 52.0, 47.0, 55.0]
GAINS = {"er+bfp": [5.0, 4.0, 7.0, 6.0], "er+fd": [-1.0, 2.0, 0.5, 0.0]}


def gains(runs: Path, seeds: int = 4) -> Figure:
    for seed in range(seeds):
        make_run(runs, "er", seed, BASE[seed])
        for method, more in GAINS.items():
            make_run(runs, method, seed, BASE[seed] + more[seed])
    (one,) = figures(gather(Store(runs).select()))
    return one


def rows(one: Figure) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(one.data.to_csv())))


def panels(one: Figure) -> list[Any]:
    with style.house():
        return list(one.draw().drawing.axes)


def test_every_gain_is_the_mean_difference_with_its_interval(tmp_path: Path) -> None:
    found = rows(gains(tmp_path))
    assert len(found) == 2 * 3 * 2  # settings, metrics, arms
    scale = {"FAA": 1.0, "FF": -1.0, "ALA": 0.5}  # as the made-up runs have them
    for row in found:
        method = {"ER w/ BFP": "er+bfp", "ER w/ FD": "er+fd"}[row["method"]]
        each = scale[row["metric"]] * np.array(GAINS[method])
        interval = stats.ttest_1samp(each, 0).confidence_interval(0.95)
        assert row["against"] == "ER"
        assert float(row["difference"]) == pytest.approx(each.mean())
        assert (float(row["low"]), float(row["high"])) == pytest.approx(tuple(interval))
        assert [float(v) for v in row["values"].split()] == pytest.approx(each)


def test_the_lines_are_the_table(tmp_path: Path) -> None:
    one = gains(tmp_path)
    table = rows(one)
    for axes in panels(one):
        lines = [line for line in axes.lines if line.get_gid()]
        ends = [tuple(line.get_xdata()) for line in lines if len(set(line.get_ydata())) == 1
                and len(line.get_xdata()) == 2]  # fmt: skip
        for low, high in ends:
            assert any(
                (low, high) == pytest.approx((float(row["low"]), float(row["high"])))
                for row in table
            )
        assert len(ends) == 2
        assert {line.get_gid() for line in lines} == {"arm-1", "arm-2"}  # ER itself gains nothing


def test_the_better_side_is_shaded(tmp_path: Path) -> None:
    for axes in panels(gains(tmp_path)):
        (shade,) = axes.patches
        left, right = shade.get_x(), shade.get_x() + shade.get_width()
        if "forgetting" in axes.get_title("left"):
            assert (left, right) == pytest.approx((axes.get_xlim()[0], 0))
        else:
            assert (left, right) == pytest.approx((0, axes.get_xlim()[1]))


def test_an_interval_from_two_pairs_does_not_hide_the_others(tmp_path: Path) -> None:
    one = gains(tmp_path)
    narrow = panels(one)[0].get_xlim()
    for seed, gap in enumerate((1.0, 5.0)):
        make_run(tmp_path, "er+bfp2", seed, BASE[seed] + gap)
    (wider,) = figures(gather(Store(tmp_path).select()))
    where = {"setting": "Class-IL", "metric": "FAA", "method": "ER w/ BFP-2"}
    (row,) = [r for r in rows(wider) if r.items() >= where.items()]
    axes = panels(wider)[0]
    assert float(row["low"]) < 3 * narrow[0]
    assert axes.get_xlim() == pytest.approx(narrow)
    assert {line.get_marker() for line in axes.lines} >= {"<", ">"}
    assert "arrow" in wider.caption
    assert "arrow" not in one.caption


def test_one_seed_has_a_gain_and_no_interval(tmp_path: Path) -> None:
    one = gains(tmp_path, seeds=1)
    assert [row["low"] for row in rows(one)] == [""] * 12
    assert "One seed is too few for an interval." in one.caption
    assert "single seeds" not in one.caption
    one.svg()


def test_without_a_pair_there_is_no_plot(tmp_path: Path) -> None:
    make_run(tmp_path, "er", 0, 50.0)
    make_run(tmp_path, "derpp+bfp", 0, 60.0)
    assert figures(gather(Store(tmp_path).select())) == []
