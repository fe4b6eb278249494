"""The cost in a run's folder: written with the results, and read with the rest."""

from pathlib import Path

import pytest

from linsep.errors import StateError
from linsep.storage.folder import RunFolder
from linsep.storage.store import Store
from tests.helpers.made_runs import make_run, spend
from tests.helpers.real_runs import prepared, straight


def test_a_finished_run_has_its_cost(whole: Path) -> None:
    run = prepared().build()
    for _ in run:
        pass
    counted = run.meter.facts(run.scenario, prepared().data.scenario)
    cost = RunFolder(whole).cost()
    seconds = cost.pop("seconds")
    assert cost == counted
    timing = RunFolder(whole).timing()
    trained = [line["cpu"] for line in timing if line["event"] == "epoch_end"]
    assert seconds == pytest.approx(sum(trained), abs=2e-3)
    (record,) = Store(whole.parent).records()
    assert record["compute"] == counted["compute"] > 1
    assert record["forward"] == counted["step"]["forward"]
    assert record["cost.kept.images"] == counted["kept"]["images"]
    assert record["seconds"] == seconds


def test_a_run_that_was_stopped_costs_as_much(whole: Path, stopped: Path) -> None:
    assert RunFolder(stopped).cost() == {}
    again = RunFolder(straight(stopped.parent)).cost()
    assert {**again, "seconds": 0} == {**RunFolder(whole).cost(), "seconds": 0}


def test_a_damaged_cost_is_named(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "er", 0, 50.0)
    spend(folder, -1.0)
    with pytest.raises(StateError, match=r"cost.json: compute: .* greater than or equal to 0"):
        RunFolder(folder).cost()
    assert Store(tmp_path).records()[0]["status"] == "damaged"
