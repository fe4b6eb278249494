"""Curves over the weight of an added term: which runs make one, and the plain method."""

from itertools import product
from pathlib import Path

from linsep.compare.arms import compare
from linsep.compare.curves import Curve, table, tradeoff
from linsep.compare.tables import Spread
from linsep.storage.store import Store
from tests.helpers.made_runs import make_run


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
    found = [point.arm.summary("class_il", "faa") for point in curve.points]
    assert [one.mean for one in found if one] == [51.0, 61.5, 64.0, 71.0]
    shown = table([curve])
    assert [row[1] for row in shown.rows] == ["0", "0.5", "3", "10"] * 2
    assert [row[2] for row in shown.rows] == [3] * 8
    assert shown.rows[1][3:] == [Spread(61.5, 1.0), Spread(38.5, 1.0), Spread(30.75, 0.5)]


def test_one_weight_is_no_curve(tmp_path: Path) -> None:
    make_run(tmp_path, "er", 0, 50.0)
    weigh(tmp_path, "er+bfp", 1.0, 0, 51.0)
    assert curves(tmp_path) == []
    assert table([]).rows == []


def test_a_weight_of_zero_that_was_run_stands_for_itself(tmp_path: Path) -> None:
    make_run(tmp_path, "er", 0, 50.0)
    for weight in (0.0, 1.0):
        weigh(tmp_path, "er+bfp", weight, 0, 60.0 + weight)
    (curve,) = curves(tmp_path)
    assert [(point.weight, point.arm.method) for point in curve.points] == [
        (0.0, "er+bfp"),
        (1.0, "er+bfp"),
    ]


def test_what_else_differs_makes_curves_of_its_own(tmp_path: Path) -> None:
    for rows, init, weight in product((100, 200), ("default", "identity"), (1.0, 2.0)):
        settings = {"memory": {"rows": rows}, "bfp": {"weight": weight, "init": init}}
        make_run(tmp_path, "er+bfp", 0, rows + weight, settings=settings, label=f"{init}{weight}")
        if init == "default" and weight == 1.0:
            make_run(tmp_path, "er", 0, float(rows), settings={"memory": {"rows": rows}})
    found = curves(tmp_path)
    assert [(curve.block, curve.options) for curve in found] == [
        ((("memory.rows", rows),), (("bfp.init", init),))
        for rows, init in product((100, 200), ("default", "identity"))
    ]
    for curve in found:
        kept = dict(curve.block)["memory.rows"]
        means = [point.arm.summary("task_il", "faa") for point in curve.points]
        assert isinstance(kept, int)
        assert [one.mean for one in means if one] == [kept, kept + 1, kept + 2]


def test_an_undefined_metric_stays_undefined(tmp_path: Path) -> None:
    for weight in (1.0, 2.0):
        one = {"faa": weight, "ff": None, "ala": 3.0}
        metrics = {"class_il": one, "task_il": one}
        settings = {"bfp": {"weight": weight}}
        make_run(tmp_path, "er+bfp", 0, metrics=metrics, settings=settings, label=f"{weight}")
    (curve,) = curves(tmp_path)
    assert [point.arm.summary("class_il", "ff") for point in curve.points] == [None, None]
    assert [row[4] for row in table([curve]).rows] == [None] * 4


def test_the_other_term_stays(tmp_path: Path) -> None:
    fd = {"fd": {"weight": 7.0}}
    for other in ("er", "er+fd"):
        make_run(tmp_path, other, 0, 10.0 + len(other), settings=fd if "fd" in other else None)
    for weight in (1.0, 2.0):
        weigh(tmp_path, "er+fd+bfp", weight, 0, 60.0, **fd)
    (curve,) = curves(tmp_path)
    first = curve.points[0]
    assert (first.weight, first.arm.method) == (0.0, "er+fd")
