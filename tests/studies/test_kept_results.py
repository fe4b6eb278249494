"""What is behind results/small: copies of runs, and runs that were tested in another way."""

import json
from pathlib import Path
from typing import Any

import pytest

from linsep.grids.plan import expand
from linsep.prepare import prepare
from linsep.settings.config import from_settings
from linsep.settings.layers import merged
from linsep.storage.folder import RunFolder, difference
from linsep.storage.session import Session
from linsep.storage.store import Record, Store
from studies import results
from studies.evidence import Runs, protocol
from tests.helpers.real_runs import alone

BASE = {
    "scenario": {"name": "blobs", "classes": 6, "per_class": 40},
    "net": {"name": "cnn", "width": 4},
    "memory": {"size": 30},
    "training": {"epochs": 2},
    "seed": 3,
}


def trained(settings: dict[str, Any], runs: Path) -> RunFolder:
    return RunFolder(alone(settings, runs, keep="tasks"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"method": "er"}, {"method": "er", "evaluation": {"batchnorm": "recalibrated"}}),
        (
            {"method": "derpp+bfp", "memory": {"replay_batches": "shared"}},
            {"method": "derpp+bfp+wa", "memory": {"replay_batches": "shared"}},
        ),
        ({"method": "derpp+bfp"}, {"method": "derpp+bfp+refit"}),
        ({"method": "derpp+bfp"}, {"method": "derpp+bfp+transport"}),
        (
            {"method": "er+bfp", "options": {"bfp": {"cycle": True}}},
            {
                "method": "er+bfp+transport",
                "options": {"bfp": {"cycle": True}, "transport": {"map": "bfp"}},
            },
        ),
    ],
)
def test_tested_again_is_as_if_trained_so(
    before: dict[str, Any], after: dict[str, Any], tmp_path: Path
) -> None:
    first, second = merged(BASE, before), merged(BASE, after)
    trained(first, tmp_path / "here")
    straight = trained(second, tmp_path / "there")
    said = results.evaluate(second, tmp_path / "here", {})
    assert "tested with the weights of" in said
    again = RunFolder(tmp_path / "here" / straight.path.name)
    assert difference(straight, again) is None
    assert straight.results()["metrics"] != trained(first, tmp_path / "here").results()["metrics"]
    assert "seconds" not in again.cost()
    assert "seconds" in straight.cost()
    assert "there already" in results.evaluate(second, tmp_path / "here", {})


def test_a_run_that_was_tested_again_lends_no_weights(tmp_path: Path) -> None:
    """It has those after the last task only."""
    settings = merged(BASE, {"method": "er"})
    first = trained(settings, tmp_path)
    aligned = merged(settings, {"method": "er+wa"})
    results.evaluate(aligned, tmp_path, {})
    fresh = merged(aligned, {"evaluation": {"batchnorm": "recalibrated"}})
    assert results.evaluate(fresh, tmp_path, {}).endswith(f"the weights of {first.path.name}")


def test_what_was_not_trained_alike_is_not_used(tmp_path: Path) -> None:
    trained(merged(BASE, {"method": "er"}), tmp_path)
    other = merged(BASE, {"method": "er", "seed": 4, "evaluation": {"batchnorm": "recalibrated"}})
    assert "no run that was trained alike" in results.evaluate(other, tmp_path, {})


def test_a_half_finished_run_is_left_alone(tmp_path: Path) -> None:
    trained(merged(BASE, {"method": "er"}), tmp_path)
    fresh = merged(BASE, {"method": "er", "evaluation": {"batchnorm": "recalibrated"}})
    with Session(prepare(from_settings(fresh)), tmp_path) as session:
        next(iter(session))
        session.save()
    before = (session.folder / "state.safetensors").read_bytes()
    assert results.evaluate(fresh, tmp_path, {}).endswith("there already, half-finished")
    assert (session.folder / "state.safetensors").read_bytes() == before


def test_kept_runs_have_what_pages_need_and_no_more(tmp_path: Path) -> None:
    folder = trained(merged(BASE, {"method": "er"}), tmp_path / "runs")
    assert results.asked_for(Store(tmp_path / "runs").records()) == set()  # not of the protocol
    kept = tmp_path / "kept"
    kept.mkdir()
    results.keep(folder.path, kept)
    copy = RunFolder(kept / folder.path.name)
    assert {p.name for p in copy.path.iterdir()} == {
        "config.toml", "results.json.gz", "events.jsonl.gz", "manifest.json", "cost.json"
    }  # fmt: skip
    assert copy.events() == folder.events()
    assert copy.results() == folder.results()
    record, before = (Store(p).records()[0] for p in (kept, tmp_path / "runs"))
    assert {**record.facts, "scenario.data": None} == {**before.facts, "scenario.data": None}


def test_runs_of_the_protocol_are_recognised(records: list[Record]) -> None:
    found = results.asked_for(records)
    chose = [r for r in records if r.facts["seed"] in (0, 1) and not r.facts["scenario.validation"]]
    assert len(found) >= len(records) - len(chose)
    first = expand(protocol()["main"])[0]
    run = Runs(records).run(first)
    assert run is not None
    assert run.folder in found
    assert json.loads((run.folder / "results.json").read_text())["seed"] == first["seed"]
