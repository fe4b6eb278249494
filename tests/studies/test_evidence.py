"""The evidence: the right runs, the right verdicts, and pages that are up to date."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from linsep.compare.statistics import holm, paired
from linsep.errors import ConfigError
from linsep.grids.plan import expand, in_parts, plan
from linsep.resolve import resolve
from linsep.settings.config import from_settings
from linsep.storage.store import Record, Store
from studies.claims import CARRIED, EVERY_CLAIM, FAA, Claim, Contrast, Side
from studies.equivalence import quantities
from studies.evidence import (
    PROTOCOL,
    RESULTS,
    Finding,
    Outcome,
    Runs,
    findings,
    protocol,
    verdict_on,
)
from studies.features import analysed
from studies.pages import block, every_run, evidence_page, replaced
from studies.pictures import evidence_picture, features_picture

HIGHER = Contrast(Side("main", "er+bfp"), Side("main", "er"), FAA, "higher")


def test_holm_worked_by_hand() -> None:
    # sorted: 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1, which may not fall below the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("wanted", "gaps", "chance", "verdict"),
    [
        ("higher", [5.0, 6.0, 5.5, 6.5], 0.001, "supported"),
        ("higher", [5.0, 6.0, 5.5, 6.5], 0.2, "inconclusive"),  # not after Holm's correction
        ("higher", [0.5, 0.6, 0.55, 0.65], 0.001, "partly supported"),
        ("higher", [0.1, -0.1, 0.2, -0.2], 1.0, "not supported"),  # surely less than a point
        ("higher", [-5.0, -6.0, -5.5, -6.5], 0.001, "not supported"),
        ("higher", [9.0, -9.0, 8.0, -8.0], 1.0, "inconclusive"),
        ("lower", [-5.0, -6.0, -5.5, -6.5], 0.001, "supported"),
        ("lower", [-0.5, -0.6, -0.55, -0.65], 0.2, "partly supported"),
        ("lower", [5.0, 6.0, 5.5, 6.5], 0.001, "not supported"),
        ("not higher", [-0.1, 0.1, -0.2, 0.2], 1.0, "supported"),
        ("not higher", [5.0, 6.0, 5.5, 6.5], 0.001, "not supported"),
        ("not higher", [9.0, -9.0, 8.0, -8.0], 1.0, "inconclusive"),
    ],
)
def test_verdicts(wanted: str, gaps: list[float], chance: float, verdict: str) -> None:
    test = replace(HIGHER, wanted=wanted)  # type: ignore[arg-type]
    pairs = paired(dict(enumerate(gaps)), dict.fromkeys(range(4), 0.0))
    assert verdict_on(test, 4, pairs, chance) == verdict
    assert verdict_on(test, 5, pairs, chance) == "inconclusive"  # a pair is missing
    assert verdict_on(test, 4, None, None) == "not tested"


def test_a_test_that_only_describes_is_judged_by_its_interval() -> None:
    pairs = paired(dict(enumerate([5.0, 6.0, 5.5, 6.5])), dict.fromkeys(range(4), 0.0))
    assert verdict_on(HIGHER, 4, pairs, None) == "inconclusive"
    assert verdict_on(HIGHER, 4, pairs, None, described=True) == "supported"


def test_a_claim_is_as_good_as_its_tests() -> None:
    def verdict(*given: str) -> str:
        outcomes = [Outcome(HIGHER, 4, None, None, None, one) for one in given]  # type: ignore[arg-type]
        return Finding(Claim("name", "text", (HIGHER,) * len(given)), tuple(outcomes)).verdict

    assert verdict("supported", "supported") == "supported"
    assert verdict("supported", "inconclusive") == "partly supported"
    assert verdict("supported", "not supported") == "partly supported"
    assert verdict("inconclusive", "not supported") == "not supported"
    assert verdict("inconclusive", "not tested") == "inconclusive"
    assert verdict("not tested", "not tested") == "not tested"


def test_at_the_floor_nothing_is_decided(found: list[Finding]) -> None:
    floor = [f for f in found if f.claim.floor]
    assert {f.claim.name for f in floor} == {"stream", "cifar100"}
    assert {f.verdict for f in floor} == {"inconclusive"}


def test_the_protocol_has_runs_for_every_test() -> None:
    runs = Runs([])
    for claim in EVERY_CLAIM:
        for contrast in claim.contrasts:
            assert runs.expected(contrast) >= 3, (claim.name, contrast)
    for claim in CARRIED:
        assert [runs.expected(contrast) for contrast in claim.contrasts] == [10], claim.name
    for name in ("main", "control"):
        assert {settings["seed"] for settings in runs.parts[name]} == set(range(2, 12))


def test_only_runs_of_the_protocol_count(tmp_path: Path, records: list[Record], runs: Runs) -> None:
    right = [r for r in records if r["method"] == "er" and r["seed"] == 2]
    assert runs.counts()["main"][0] > 0
    assert Runs(right).counts()["main"] == (1, 40)
    folder = tmp_path / right[0].name
    shutil.copytree(right[0].folder, folder)
    results = json.loads((folder / "results.json").read_text())
    (folder / "results.json").write_text(json.dumps(results | {"key": "0123456789"}))
    assert Runs(Store(tmp_path).records()).counts()["main"] == (0, 40)


def test_committed_runs_need_not_be_repeated(tmp_path: Path) -> None:
    settings = {"scenario": "blobs", "training": {"epochs": 1}, "over": {"seed": [0, 1]}}
    _, second = plan(settings, tmp_path / "runs")
    folder = tmp_path / "results" / second.name
    folder.mkdir(parents=True)
    (folder / "results.json").write_text("{}")
    again = plan(settings, tmp_path / "runs", also=[tmp_path / "results"])
    assert [cell.status for cell in again] == ["waiting", "done"]
    assert again[1].folder == folder
    assert not (tmp_path / "runs").exists()


def test_eight_primary_tests_are_corrected_together_and_the_rest_has_no_p(
    found: list[Finding],
) -> None:
    for family, size in (("primary", 8), ("carried", 6)):
        tests = [o for f in found if f.claim.family == family for o in f.outcomes]
        raw = [o.pairs.p for o in tests if o.pairs and o.pairs.p is not None]
        assert len(tests) == len(raw) == size
        assert [o.chance for o in tests] == pytest.approx(holm(raw))
    assert all(o.chance is None for f in found if f.claim.family is None for o in f.outcomes)


def test_a_grid_in_parts() -> None:
    settings = {
        "memory": 100,
        "over": {"seed": [0, 1]},
        "parts": [
            {"part": "a", "over": {"method": ["er", "derpp"]}},
            {"part": "b", "method": "ft", "memory": 50, "over": {"seed": [7]}},
        ],
    }
    first, second = in_parts(settings)
    assert [(c["method"], c["seed"], c["memory"]["size"]) for c in expand(first)] == [
        ("er", 0, 100), ("derpp", 0, 100), ("er", 1, 100), ("derpp", 1, 100),
    ]  # fmt: skip
    assert [(c["method"], c["seed"], c["memory"]["size"]) for c in expand(second)] == [
        ("ft", 7, 50)
    ]
    assert in_parts(settings, ["b"]) == [second]
    assert in_parts({"seed": 1}) == [{"seed": 1}]
    with pytest.raises(ConfigError, match="part of this grid 'c'"):
        in_parts(settings, ["c"])
    with pytest.raises(ConfigError, match="parts: should be tables"):
        in_parts({"parts": 3})


def test_the_pages_are_what_the_results_give(found: list[Finding], runs: Runs, root: Path) -> None:
    """python -m studies evidence --runs results/small -o docs/evidence.md --into README.md"""
    expected = {
        "docs/evidence.md": evidence_page(found, runs, quantities()),
        "docs/figures/features.svg": features_picture(analysed(runs)),
        "docs/figures/evidence.svg": evidence_picture(found),
    }
    for name, content in expected.items():
        assert (root / name).read_text(encoding="utf-8") == content, name
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert readme == replaced(readme, block(found))


def test_without_any_run_nothing_is_tested() -> None:
    none = findings(EVERY_CLAIM, [])
    assert {finding.verdict for finding in none} == {"not tested"}


def test_every_run_has_a_place_of_its_own(runs: Runs) -> None:
    """Two runs that share a label would hide each other."""
    shown = sum(isinstance(v, float) for row in every_run(runs).rows for v in row)
    assert shown == sum(there for there, _ in runs.counts().values())


@pytest.mark.parametrize("name", ["medium.toml", "equivalence.toml"])
def test_the_other_protocols_resolve(name: str) -> None:
    for part in protocol(PROTOCOL.with_name(name)).values():
        for settings in expand(part):
            resolve(from_settings(settings), lenient=True)


def test_a_file_without_marks_is_left_alone() -> None:
    marked = "a\n<!-- evidence -->\nold\n<!-- end of evidence -->\nb\n"
    assert replaced(marked, "new\n") == marked.replace("old", "new")
    with pytest.raises(ConfigError, match="no line <!-- evidence -->"):
        replaced("a\nb\n", "new\n")


def test_the_results_stay_small(root: Path) -> None:
    every = [path for path in (root / "results").rglob("*") if path.is_file()]
    kept = [path for path in every if ".index" not in path.parts]  # a store writes that
    assert sum(path.stat().st_size for path in kept) < 6e6


def test_a_page_that_cannot_be_renewed_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "bare.md").write_text("no marks\n")
    for name, reason in (("bare.md", "no line <!-- evidence -->"), ("absent.md", "cannot read")):
        into = ["--runs", str(tmp_path), "--into", str(tmp_path / name)]
        words = [sys.executable, "-m", "studies", "evidence", *into]
        done = subprocess.run(words, cwd=RESULTS.parent, capture_output=True, text=True)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert reason in done.stderr
