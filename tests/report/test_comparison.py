"""Figures of variants compared: gains with their intervals, and accuracy against cost."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from linsep.report import style
from linsep.report.canvas import Figure
from linsep.report.draw_comparison import cost
from linsep.report.draw_comparison import gains as figures
from linsep.report.gather import LoadedRuns, load_runs
from linsep.report.words import costs
from linsep.storage.store import Store
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


def panels(one: Figure) -> list[Any]:
    with style.house():
        return list(one.draw().drawing.axes)


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
        assert {line.get_gid() for line in lines} == {
            "variant-1",
            "variant-2",
        }  # ER itself gains nothing


def test_an_interval_from_two_pairs_does_not_hide_the_others(tmp_path: Path) -> None:
    one = gains(tmp_path)
    narrow = panels(one)[0].get_xlim()
    for seed, gap in enumerate((1.0, 5.0)):
        make_run(tmp_path, "er+bfp2", seed, BASE[seed] + gap)
    (wider,) = figures(load_runs(Store(tmp_path).select()))
    where = {"protocol": "Class-IL", "metric": "FAA", "method": "ER + BFP-2"}
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
    assert figures(load_runs(Store(tmp_path).select())) == []


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


def test_marks_stand_at_their_costs_and_the_line_is_the_frontier(tmp_path: Path) -> None:
    one = drawn(tmp_path)
    with style.house():
        canvas = one.draw()
    for axes in canvas.drawing.axes:
        marks = {line.get_label(): line for line in axes.lines if line.get_marker() != "None"}
        for label in ("ER", "DER"):  # of equal cost: side by side
            assert marks[label].get_xdata()[0] == pytest.approx(2.0, abs=0.1)
        assert marks["ER"].get_xdata()[0] != marks["DER"].get_xdata()[0]
        assert marks["DER++"].get_xdata()[0] == 3.0
        (line,) = [line for line in axes.lines if line.get_label() == "frontier"]
        assert list(line.get_xdata())[:3] == [1.0, 2.0, 4.7]
        assert list(line.get_ydata()) == [20.5, 50.5, 60.5, 60.5]
    said = "ER: 50.50 ± 0.71 % at 2.00 times the compute of fine-tuning, on the frontier"
    assert any(spot.text == said for spot in canvas.spots)


def test_a_run_alone_has_the_table_and_no_picture(tmp_path: Path) -> None:
    spend(make_run(tmp_path, "er", 0, 50.0), 2.0)
    alone = load_runs(Store(tmp_path).select())
    assert cost(alone.blocks[0]) is None
    found = costs(alone)
    assert found is not None
    assert found.rows[0][:2] == ["ER", 2.0]
