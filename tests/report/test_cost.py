"""The picture of accuracy against cost: what is drawn is the table, and the frontier is right."""

import csv
import io
from pathlib import Path

import pytest

from linsep.report import style
from linsep.report.canvas import Figure
from linsep.report.draw_comparison import cost
from linsep.report.gather import Gathered, gather
from linsep.report.page import page
from linsep.report.words import costs
from linsep.storage.store import Store
from tests.helpers.made_reports import make_full_run
from tests.helpers.made_runs import make_run, spend

ARMS = {"ft": (1.0, 20.0), "er": (2.0, 50.0), "der": (2.0, 40.0), "derpp": (3.0, 45.0),
        "derpp+bfp": (4.7, 60.0), "jt": (1.0, 90.0)}  # fmt: skip
FRONTIER = {"FT", "ER", "DER++ w/ BFP"}  # not JT, which is a bound


def gathered(runs: Path) -> Gathered:
    for method, (passes, faa) in ARMS.items():
        for seed in range(2):
            spend(make_run(runs, method, seed, faa + seed), passes)
    return gather(Store(runs).select())


def drawn(runs: Path) -> Figure:
    one = cost(gathered(runs).blocks[0])
    assert one is not None
    return one


def test_the_frontier_has_what_nothing_beats(tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(drawn(tmp_path).data.to_csv())))
    assert len(rows) == 2 * len(ARMS)
    assert {row["method"] for row in rows if row["frontier"] == "yes"} == FRONTIER
    for row in rows:
        assert row["n"] == "2"
    er = next(row for row in rows if row["method"] == "ER")
    assert (float(er["passes"]), float(er["FAA"])) == (2.0, 50.5)


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
    assert any(spot.text == "ER: 50.50 ± 0.71 % at 2.00 passes, on the frontier"
               for spot in canvas.spots)  # fmt: skip


def test_the_page_has_the_section_only_where_costs_are_known(tmp_path: Path) -> None:
    make_full_run(tmp_path / "old", "er", 0)
    make_full_run(tmp_path / "old", "er+bfp", 0)
    without = gather(Store(tmp_path / "old").select())
    assert costs(without) is None
    assert 'id="cost"' not in page(without)
    text = page(gathered(tmp_path / "new"))
    assert 'id="cost"' in text
    assert "Accuracy against cost" in text


def test_a_run_alone_has_the_table_and_no_picture(tmp_path: Path) -> None:
    spend(make_run(tmp_path, "er", 0, 50.0), 2.0)
    alone = gather(Store(tmp_path).select())
    assert cost(alone.blocks[0]) is None
    found = costs(alone)
    assert found is not None
    assert found.rows[0][:2] == ["ER", 2.0]
