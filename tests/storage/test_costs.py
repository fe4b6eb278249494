"""The cost in a run's folder: written with the results, added to older runs, read with the rest."""

import json
from pathlib import Path

import pytest

from linsep.errors import StateError
from linsep.storage.folder import RunFolder
from linsep.storage.session import Session
from linsep.storage.store import Store
from tests.helpers.made_runs import make_run, spend
from tests.helpers.real_runs import interrupted, prepared, straight


def test_a_finished_run_has_the_cost_that_was_declared(tmp_path: Path) -> None:
    declared = prepared().cost().facts()
    cost = RunFolder(straight(tmp_path)).cost()
    seconds = cost.pop("seconds")
    assert cost == json.loads(json.dumps(declared))
    timing = RunFolder(next(tmp_path.glob("blobs*"))).timing()
    trained = [line["cpu"] for line in timing if line["event"] == "epoch_end"]
    assert seconds == pytest.approx(sum(trained), abs=2e-3)
    (record,) = Store(tmp_path).records()
    assert record["passes"] == declared["passes"] > 1
    assert record["forward"] == declared["step"]["forward"]
    assert record["cost.kept.images"] == declared["kept"]["images"]
    assert record["seconds"] == seconds


def test_a_run_that_was_stopped_costs_as_much(tmp_path: Path) -> None:
    whole = RunFolder(straight(tmp_path / "whole")).cost()
    folder = interrupted(tmp_path / "stopped", 5)
    assert RunFolder(folder).cost() == {}
    again = RunFolder(straight(tmp_path / "stopped")).cost()
    assert {**again, "seconds": 0} == {**whole, "seconds": 0}


def test_an_older_run_gets_its_cost_when_its_command_is_repeated(tmp_path: Path) -> None:
    folder = straight(tmp_path)
    declared = RunFolder(folder).cost()
    (folder / "cost.json").unlink()
    timing = (folder / "timing.jsonl").read_text().splitlines()
    older = [{k: v for k, v in json.loads(line).items() if k != "cpu"} for line in timing]
    (folder / "timing.jsonl").write_text("".join(json.dumps(line) + "\n" for line in older))
    assert Store(tmp_path).records()[0]["passes"] is None
    results = (folder / "results.json").read_bytes()
    with Session(prepared(), tmp_path) as session:
        assert session.finished
    del declared["seconds"]  # of then, which nobody noted
    assert RunFolder(folder).cost() == declared
    assert (folder / "results.json").read_bytes() == results
    assert Store(tmp_path).records()[0]["passes"] == declared["passes"]  # seen by the index


def test_a_damaged_cost_is_named(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "er", 0, 50.0)
    spend(folder, -1.0)
    with pytest.raises(StateError, match=r"cost.json: passes: .* greater than or equal to 0"):
        RunFolder(folder).cost()
    assert Store(tmp_path).records()[0]["status"] == "damaged"


def test_a_damaged_cost_is_derived_again(tmp_path: Path) -> None:
    folder = straight(tmp_path)
    declared = RunFolder(folder).cost()
    (folder / "cost.json").write_text('{"passes": "x"}')
    with Session(prepared(), tmp_path):
        pass
    assert RunFolder(folder).cost() == declared


def test_a_part_that_cannot_be_counted_costs_no_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(*given: object) -> None:
        raise TypeError("rows without pixels")

    monkeypatch.setattr("linsep.storage.costs.cost_of", odd)
    with pytest.warns(UserWarning, match="the cost of this run is not known: rows without pixels"):
        folder = straight(tmp_path)
    assert RunFolder(folder).results()
    assert RunFolder(folder).cost() == {}
