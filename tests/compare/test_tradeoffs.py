"""Variants at equal cost, and curves over the weight of an added term."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linsep.compare.tables import Interval, Spread
from linsep.compare.tradeoffs import Curve, at_equal, curve_table, frontier, tradeoff
from linsep.compare.variants import Comparison, compare
from linsep.errors import ConfigError
from linsep.storage.store import Store
from tests.helpers.made_runs import make_run, spend


def made(runs: Path, costs: dict[str, tuple[float, float]], **more: Any) -> Comparison:
    """Two seeds of each method, at (passes, FAA)."""
    for (method, (passes, faa)), seed in product(costs.items(), range(2)):
        spend(make_run(runs, method, seed, faa + seed), passes, **more)
    return compare(Store(runs).select())


COSTS = {
    "ft": (1.0, 20.0), "er": (2.0, 40.0), "er_ace": (1.91, 45.0), "der": (1.89, 30.0),
    "derpp": (3.0, 44.0),
}  # fmt: skip


def test_a_group_spans_five_percent(tmp_path: Path) -> None:
    table, notes = at_equal(made(tmp_path, COSTS), "compute")
    assert [(row[0], row[1], row[3]) for row in table.rows] == [
        ("up to 1.00 compute", "FT", 1.0),
        ("up to 1.89 compute", "DER", 1.89),
        ("up to 2.00 compute", "ER-ACE", 1.91),
        ("up to 2.00 compute", "ER", 2.0),
        ("up to 3.00 compute", "DER++", 3.0),
    ]
    faa = table.rows[2][4]
    assert isinstance(faa, Spread)
    assert (faa.mean, faa.std) == pytest.approx((45.5, 0.5**0.5))
    assert "a multiple of fine-tuning's" in notes[0]
    assert "5 %" in notes[0]


def test_against_a_method_lists_what_costs_no_more(tmp_path: Path) -> None:
    table, _ = at_equal(made(tmp_path, COSTS), "compute", "er")
    gaps = {row[1]: row[-1] for row in table.rows}
    assert list(gaps) == ["ER-ACE", "ER", "DER", "FT"]
    gap = gaps["ER-ACE"]
    assert isinstance(gap, Interval)
    assert gap.mean == pytest.approx(5.0)
    assert gaps["ER"] is None


def test_epochs_are_a_way_to_spend(tmp_path: Path) -> None:
    """ER for twice the epochs costs what DER++ with shared draws and the like would."""
    made(tmp_path, {"er": (2.0, 40.0), "derpp": (4.0, 44.0)})
    for seed in range(2):
        longer = {"training": {"epochs": 4, "schedule": {"milestones": [1]}}}
        spend(make_run(tmp_path, "er", seed, 43 + seed, settings=longer, label="-long"), 2.0, 2)
    table, _ = at_equal(compare(Store(tmp_path).select()), "compute")
    assert [(row[0], row[1], row[3]) for row in table.rows] == [
        ("up to 2.00 compute", "ER, epochs=2", 2.0),
        ("up to 4.00 compute", "DER++, epochs=2", 4.0),
        ("up to 4.00 compute", "ER, epochs=4", 4.0),
    ]
    table, _ = at_equal(compare(Store(tmp_path).select()), "compute", "derpp")
    assert [row[1] for row in table.rows] == ["DER++, epochs=2", "ER, epochs=4"]  # its dearest form


def test_memories_are_compared_by_bytes_alone(tmp_path: Path) -> None:
    for rows, seed in product((200, 500), range(2)):
        folder = make_run(tmp_path, "er", seed, 40.0 + rows / 100 + seed, settings=_rows(rows))
        spend(folder, 2.0, bytes=10 * rows)
        folder = make_run(tmp_path, "derpp", seed, 41.0 + rows / 100 + seed, settings=_rows(rows))
        spend(folder, 3.0, bytes=25 * rows)
    comparison = compare(Store(tmp_path).select())
    by_bytes = [(row[0], row[1]) for row in at_equal(comparison, "bytes")[0].rows]
    assert ("up to 5,000 bytes", "ER, memory=500") in by_bytes
    assert ("up to 5,000 bytes", "DER++, memory=200") in by_bytes
    by_compute = [row[0] for row in at_equal(comparison, "compute")[0].rows]
    assert by_compute[0] == "memory=200, up to 2.00 compute"


def _rows(rows: int) -> dict[str, Any]:
    return {"memory": {"size": rows}}


def test_what_cannot_be_told_is_refused_or_named(tmp_path: Path) -> None:
    make_run(tmp_path, "lucir", 0, 50.0)
    with pytest.raises(ConfigError, match="these runs have no compute on record; it is counted"):
        at_equal(compare(Store(tmp_path).select()), "compute")
    comparison = made(tmp_path, COSTS)
    assert at_equal(comparison, "compute")[1][-1] == "no compute on record, left out: LUCIR"
    with pytest.raises(ConfigError, match="no seconds on record; they are measured while"):
        at_equal(comparison, "seconds")
    with pytest.raises(ConfigError, match="Did you mean 'compute'"):
        at_equal(comparison, "compte")
    with pytest.raises(ConfigError, match="lucir has no compute on record"):
        at_equal(comparison, "compute", "lucir")


def test_the_frontier_is_beaten_by_no_point() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        points = [(float(a), float(b)) for a, b in rng.integers(0, 6, (8, 2))]
        beaten = [
            any((c <= x and b > y) or (c < x and b >= y) for c, b in points) for x, y in points
        ]
        assert sorted(frontier(points)) == [i for i, bad in enumerate(beaten) if not bad]


# --- curves --------------------------------------------------------------------------------------


def curves(runs: Path) -> list[Curve]:
    return tradeoff(compare(Store(runs).select()))


def weigh(runs: Path, method: str, weight: float, seed: int, faa: float, **more: object) -> None:
    term = method.rpartition("+")[2]
    settings = {term: {"weight": weight}, **more}
    make_run(runs, method, seed, faa, settings=settings, label=f"-{term}{weight}{more}")


def test_weights_in_order_and_the_plain_method_is_zero(tmp_path: Path) -> None:
    for seed in range(3):
        make_run(tmp_path, "er", seed, 50.0 + seed)
        for weight in (10.0, 0.5, 3.0):
            weigh(tmp_path, "er+bfp", weight, seed, 60.0 + weight + seed)
    (curve,) = curves(tmp_path)
    assert (curve.method, curve.field, curve.label) == ("er+bfp", "bfp.weight", "er+bfp")
    assert [point.weight for point in curve.points] == [0.0, 0.5, 3.0, 10.0]
    found = [point.variant.summary("class_il", "faa") for point in curve.points]
    assert [one.mean for one in found if one] == [51.0, 61.5, 64.0, 71.0]
    shown = curve_table([curve])
    assert [row[1] for row in shown.rows] == ["0", "0.5", "3", "10"] * 2
    assert [row[2] for row in shown.rows] == [3] * 8
    assert shown.rows[1][3:] == [Spread(61.5, 1.0), Spread(38.5, 1.0), Spread(30.75, 0.5)]


def test_what_else_differs_makes_curves_of_its_own(tmp_path: Path) -> None:
    for rows, init, weight in product((100, 200), ("default", "identity"), (1.0, 2.0)):
        settings = {"memory": {"size": rows}, "bfp": {"weight": weight, "init": init}}
        make_run(tmp_path, "er+bfp", 0, rows + weight, settings=settings, label=f"{init}{weight}")
        if init == "default" and weight == 1.0:
            make_run(tmp_path, "er", 0, float(rows), settings={"memory": {"size": rows}})
    found = curves(tmp_path)
    assert [(curve.block, curve.options) for curve in found] == [
        ((("memory.size", rows),), (("bfp.init", init),))
        for rows, init in product((100, 200), ("default", "identity"))
    ]
    for curve in found:
        kept = dict(curve.block)["memory.size"]
        means = [point.variant.summary("task_il", "faa") for point in curve.points]
        assert isinstance(kept, int)
        assert [one.mean for one in means if one] == [kept, kept + 1, kept + 2]


def test_the_other_term_stays(tmp_path: Path) -> None:
    fd = {"fd": {"weight": 7.0}}
    for other in ("er", "er+fd"):
        make_run(tmp_path, other, 0, 10.0 + len(other), settings=fd if "fd" in other else None)
    for weight in (1.0, 2.0):
        weigh(tmp_path, "er+fd+bfp", weight, 0, 60.0, **fd)
    (curve,) = curves(tmp_path)
    first = curve.points[0]
    assert (first.weight, first.variant.method) == (0.0, "er+fd")
