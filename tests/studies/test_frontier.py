"""The frontier: the right runs beside the right rivals, and a page that is up to date."""

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_rel

from linsep.compare.naming import title
from linsep.storage.store import Store
from studies.evidence import SEEDS, Runs
from studies.frontier import (
    BEST,
    CHOSEN,
    FORMS,
    FRESH,
    FRESH_BEST,
    RIVAL,
    SEARCH,
    Frontier,
    frontier,
    newest,
)
from studies.frontier_page import notes, page
from studies.pictures import frontier_picture

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "small"


@pytest.fixture(scope="module")
def found() -> Frontier:
    return frontier(Store(RESULTS).records())


def made_up(
    monkeypatch: pytest.MonkeyPatch, values: Mapping[tuple[str, str], tuple[float, float]]
) -> Frontier:
    """The frontier of runs that were never made: accuracy and compute by part and method."""
    runs, records = Runs([]), dict[int, Any]()
    for part, every in runs.parts.items():
        for settings in every:
            if given := values.get((part, settings["method"])):
                seed, (faa, compute) = settings["seed"], given
                own = seed / 10 + (part != "main") * (seed % 2)
                facts = {"class_il.faa": faa + own, "task_il.faa": 90.0}
                facts |= {"cost.compute": compute, "cost.bytes": 1000.0}
                records[id(settings)] = SimpleNamespace(facts=facts)
    monkeypatch.setattr(runs, "run", lambda settings: records.get(id(settings)))
    monkeypatch.setattr("studies.frontier.Runs", lambda _: runs)
    monkeypatch.setattr("studies.frontier.newest", lambda record: 0.2)
    return frontier([])


def test_differences_are_those_of_a_paired_t_test(found: Frontier) -> None:
    (er,) = (c for c in found.against_rival if c.one.part == "main" and c.one.method == "er")
    ours = [er.one.values("class_il.faa")[seed] for seed in SEEDS]
    rival = [er.rival.values("class_il.faa")[seed] for seed in SEEDS]
    assert er.rival.method == RIVAL
    assert er.pairs.difference.mean == pytest.approx(np.mean(np.subtract(ours, rival)))
    interval = ttest_rel(ours, rival).confidence_interval()
    assert (er.pairs.difference.low, er.pairs.difference.high) == pytest.approx(tuple(interval))


def test_nothing_on_the_frontier_is_beaten(found: Frontier) -> None:
    rivals = [one for one in found.sums if one.method != "jt"]  # a bound, not a competitor
    points = {
        one.title: (float(f"{one.compute:.2f}"), one.summary("class_il.faa").mean) for one in rivals
    }
    for one in rivals:
        cost, faa = points[one.title]
        beaten = any(c <= cost and a > faa for c, a in points.values())
        assert (one in found.leading) != beaten, one.title


def test_the_second_data_set_is_compared_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {("main", m): (30.0, 4.0) for m in ("er", RIVAL)} | {("cifar100", "er"): (12.0, 2.0)}
    found = made_up(monkeypatch, given | {("cifar100 recalibrated", "er"): (10.0, 2.0)})
    (only,) = found.norms
    assert (only.one.title, only.rival.title) == (
        "ER, BatchNorm recalibrated, Split CIFAR-100", "ER, Split CIFAR-100",
    )  # fmt: skip
    assert only.pairs.difference.mean == pytest.approx(-2.0)
    assert only.one not in found.sums  # other data have no place on this frontier


def test_heads_stand_beside_those_of_the_same_nets(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {("main", m): (30.0, 4.0) for m in ("er", "derpp", RIVAL)}
    given |= {("refit", f"{m}+refit"): (36.0, 4.0) for m in ("er", "derpp", RIVAL)}
    given |= {
        ("shared draw", RIVAL): (20.0, 2.0),
        ("refit, one draw", f"{RIVAL}+refit"): (38.0, 2.0),
        ("refit, sums", "derpp+ser+refit"): (37.0, 2.0),
        ("chosen refit", BEST): (39.0, 2.0),
    }
    given |= {("cifar100", "er"): (12.0, 2.0), ("cifar100 refit", "er+refit"): (10.0, 2.0)}
    found = made_up(monkeypatch, given)
    gaps = {(c.one.title, c.rival.title): c.pairs.difference.mean for c in found.heads}
    own = 2 / 5  # made_up adds a point to odd seeds outside of the main comparison: 3 and 5
    assert gaps == pytest.approx({
        ("ER + Refit", "ER"): 6 + own,
        ("DER++ + Refit", "DER++"): 6 + own,
        ("DER++ + BFP + Refit", "DER++ + BFP"): 6 + own,
        ("DER++ + BFP + Refit", "DER++ + Refit"): 0,  # what BFP adds where both heads are refitted
        ("DER++ + BFP + Refit, one draw", "DER++ + BFP, one draw"): 18,
        ("DER++ + SER + Refit", "DER++ + Refit"): 1,
        ("DER++ + FD + SER + Refit", "DER++ + SER + Refit"): 2,
        ("ER + Refit, Split CIFAR-100", "ER, Split CIFAR-100"): -2,
    })  # fmt: skip
    assert "changes ER by -2.00 points in Class-IL and +0.00 in Task-IL." in page(found)
    # Five share their nets: four have a higher mean, and one has a lower one.
    assert "Of the 5 rows below that share their networks, 4 have a higher mean" in page(found)


def test_the_share_of_the_newest_classes_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 10 images 3 + 1 are taken for class 2 or 3, whatever they are."""
    results = {"groups": [[0, 1], [2, 3]], "confusion": [[2, 1, 3, 0], [0, 3, 0, 0]]}
    results["confusion"] += [[0, 0, 0, 1], [0, 0, 0, 0]]
    monkeypatch.setattr("studies.frontier.RunFolder.results", lambda self: results)
    assert newest(SimpleNamespace(folder=tmp_path)) == pytest.approx(4 / 10)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("compute", "faa", "named"),
    [(2.0, 40.0, True), (2.0, 30.0, False), (2.5, 40.0, False)],
)
def test_a_form_gets_a_preset(
    compute: float, faa: float, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 60 % of the compute, and an interval that does not exclude equality."""
    given = {("main", RIVAL): (40.0, 4.0), ("every second step", RIVAL): (faa, compute)}
    found = made_up(monkeypatch, given)
    assert [c.one.part for c in found.forms] == ["every second step"]
    assert set(FORMS) >= {"every second step"}
    assert ("This holds for DER++ + BFP, every second step." in page(found)) == named


def test_fast_is_confirmed_on_seeds_that_were_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {("main", RIVAL): (40.0, 4.0), (FRESH, RIVAL): (39.0, 2.0)}
    found = made_up(monkeypatch, given)
    assert found.confirmed is not None
    later, every = (pairs.difference for pairs in found.confirmed)
    # A point less, and made_up adds one to odd seeds: 7, 9 and 11 of five, and five of ten.
    assert [later.n, every.n] == [5, 10]
    assert [later.mean, every.mean] == pytest.approx([-1 + 3 / 5, -1 + 5 / 10])
    assert f"by {later.mean:+.2f} points" in page(found)
    assert made_up(monkeypatch, {("main", RIVAL): (40.0, 4.0)}).confirmed is None


def test_what_is_missing_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sum; no rival; a way to normalise without the method as it is; nothing at all."""
    found = made_up(monkeypatch, {("group norm", "derpp"): (35.0, 4.0)})
    assert [one.title for one in found.sums] == ["DER++, GroupNorm"]
    assert not found.norms
    assert not found.against_rival
    assert "| DER++, GroupNorm | 4.00 |" in page(found)
    assert "DER++, GroupNorm" in frontier_picture(found)
    nothing = made_up(monkeypatch, {})
    assert notes(nothing)[0].startswith(f"{len(nothing.missing)} sums of the protocol lack runs")
    assert "- DER++ + BFP (0 of 5 seeds)" in page(nothing)
    assert "<circle" not in frontier_picture(nothing)


def test_the_page_is_what_the_results_give(found: Frontier) -> None:
    """python -m studies frontier --runs results/small -o docs/frontier.md"""
    docs = ROOT / "docs"
    assert (docs / "frontier.md").read_text(encoding="utf-8") == page(found)
    assert (docs / "figures" / "frontier.svg").read_text(encoding="utf-8") == frontier_picture(
        found
    )


def searched(
    monkeypatch: pytest.MonkeyPatch, values: Mapping[tuple[str, str], tuple[float, float]]
) -> Frontier:
    """A search whose candidates all have an accuracy of 20, but for those that are given."""
    every = {
        (part, settings["method"]): (20.0, 4.0)
        for part in SEARCH
        for settings in Runs([]).parts[part]
    }
    return made_up(monkeypatch, every | dict(values))


def test_the_search_is_judged_by_the_mean_over_its_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    last = ("search recalibrated", "derpp+fd")
    found = searched(monkeypatch, {last: (30.0, 4.5)})
    best = found.candidates[0]
    assert best.title == "DER++ + FD, BatchNorm recalibrated"
    assert best.mean == pytest.approx(30 + fmean([0.0, 0.1]) + fmean([0, 1]))
    assert best.compute == 4.5
    assert f"{best.title} came first; it has not been run" in page(found)


@pytest.mark.parametrize(
    ("faa", "words"),
    [
        (60.0, "it is better"),
        (20.0, "it is worse"),
        (39.4, "decides nothing"),
        (40.4, "its interval excludes zero, but corrected for all tests on this page, p is"),
    ],
)
def test_the_winner_is_judged_on_test_images(
    faa: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = Runs([]).parts[CHOSEN][0]["method"]
    first = {("search", chosen): (30.0, 4.0), ("ablation", "er+fd"): (39.6, 3.0)}  # a second test
    test = {(CHOSEN, chosen): (faa, 4.0), ("main", RIVAL): (40.0, 4.0)}
    found = searched(monkeypatch, first | test)
    # made_up adds a point to the chosen one's odd seeds: 3 and 5 of five.
    assert f"{faa - 40 + 2 / 5:+.2f} points" in page(found)
    assert f": {words}" in page(found).replace("that decides", "decides")


def test_the_chosen_sum_is_the_best_of_the_search(found: Frontier) -> None:
    (settings, *_) = Runs([]).parts[CHOSEN]
    assert found.searched
    assert title(settings["method"]) == found.candidates[0].title


def test_the_sum_that_is_confirmed_is_the_best_of_the_held_out_heads(found: Frontier) -> None:
    assert title(BEST) == found.held_out[0].title
    for part in FRESH_BEST:
        assert {settings["method"] for settings in Runs([]).parts[part]} == {BEST}


def test_a_search_that_lacks_a_run_has_no_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    found = made_up(monkeypatch, {("search", "derpp+fd"): (30.0, 4.5)})
    assert [one.title for one in found.candidates] == ["DER++ + FD"]
    assert "The search is not finished." in page(found)
