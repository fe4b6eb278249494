"""Comparing methods: the statistics, who is paired with whom, and how it is written."""

import csv
import io
import json
import math
import subprocess
import sys
from contextlib import redirect_stdout
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from linsep.compare.summaries import _score, differences, listing, notes, per_class, summary
from linsep.compare.tables import Spread, Table
from linsep.compare.variants import Comparison, Gain, compare
from linsep.errors import ConfigError
from linsep.storage.store import Store
from tests.helpers.command import command
from tests.helpers.made_runs import make_run


def compared(runs: Path, where: str | None = None, against: str | None = None) -> Comparison:
    return compare(Store(runs).select(where), against)


def gain(found: Comparison, label: str, protocol: str = "class_il", metric: str = "faa") -> Gain:
    (one,) = [
        g for g in found.gains
        if (g.variant.label, g.protocol, g.metric) == (label, protocol, metric)
    ]  # fmt: skip
    return one


def drawn(rng: np.random.Generator) -> dict[str, dict[str, float | None]]:
    names = ("faa", "ff", "ala")
    return {il: {n: float(rng.normal(50, 10)) for n in names} for il in ("class_il", "task_il")}


@pytest.mark.parametrize("seeds", [3, 10])
def test_numbers_agree_with_scipy(seeds: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seeds)
    values: dict[str, list[Any]] = {"derpp": [], "derpp+bfp": []}
    for method, seed in product(values, range(seeds)):
        values[method].append(drawn(rng))
        make_run(tmp_path, method, seed, metrics=values[method][-1])
    found = compared(tmp_path)
    for protocol, metric in product(("class_il", "task_il"), ("faa", "ff", "ala")):
        base, ours = (
            np.array([v[protocol][metric] for v in values[m]]) for m in ("derpp", "derpp+bfp")
        )
        one = gain(found, "derpp+bfp", protocol, metric)
        mine = one.variant.summary(protocol, metric)
        assert mine is not None
        assert (mine.mean, mine.std) == pytest.approx((ours.mean(), ours.std(ddof=1)))
        test = stats.ttest_rel(ours, base)
        assert one.pairs.t == pytest.approx(test.statistic, rel=1e-9)
        assert one.pairs.p == pytest.approx(test.pvalue, rel=1e-9)
        assert one.mean.interval == pytest.approx(tuple(test.confidence_interval(0.95)))
        better = (ours < base) if metric == "ff" else (ours > base)
        assert _score(one) == (better.sum(), seeds - better.sum(), 0)


def test_pairs_are_by_seed(tmp_path: Path) -> None:
    for seed, faa in ((0, 50.0), (1, 60.0), (2, 70.0)):
        make_run(tmp_path, "er", seed, faa)
    for seed, faa in ((2, 71.0), (1, 62.0), (5, 99.0)):
        make_run(tmp_path, "er+bfp", seed, faa)
    one = gain(compared(tmp_path), "er+bfp")
    assert one.pairs.keys == ((None, 1, 0), (None, 2, 0))
    assert one.mean.mean == pytest.approx(1.5)
    make_run(tmp_path, "ft", 7, 20.0)
    assert "er" not in {g.variant.label for g in compared(tmp_path, against="ft").gains}


def test_runs_are_grouped_by_what_differs(tmp_path: Path) -> None:
    for seed, rows, lr in product(range(2), (200, 500), (0.1, 0.03)):
        settings = {"memory": {"size": rows}, "training": {"lr": lr}}
        for method in ("er", "er+bfp"):
            faa = rows / 10 + lr + seed + len(method)
            make_run(tmp_path, method, seed, faa, settings=settings, label=f"-{lr}")
    found = compared(tmp_path)
    assert set(found.differing) == {"memory.size", "training.lr"}
    assert len(found.variants) == 8
    assert all(len(variant.runs) == 2 for variant in found.variants)
    gaps = [one.mean.mean for one in found.gains if one.metric == "faa"]
    assert gaps == pytest.approx([4.0] * 8)
    text = summary(found).to_markdown()
    assert "Class-IL, memory=500, lr=0.1" in text
    assert "grouped by the fields that differ: lr, memory" in notes(found)[0]


def test_options_of_a_method_make_variants_and_share_the_base(tmp_path: Path) -> None:
    for seed in range(2):
        make_run(tmp_path, "er", seed, 50.0, settings={"er": {"replay_ce": 1.0}})
        for weight in (1.0, 3.0):
            settings = {"er": {"replay_ce": 1.0}, "bfp": {"weight": weight}}
            make_run(tmp_path, "er+bfp", seed, 50 + weight, settings=settings, label=f"-{weight}")
    found = compared(tmp_path)
    assert [variant.label for variant in found.variants] == [
        "er", "er+bfp (bfp.weight=1)", "er+bfp (bfp.weight=3)",
    ]  # fmt: skip
    one = gain(found, "er+bfp (bfp.weight=3)")
    assert one.mean.mean == 3.0
    make_run(tmp_path, "er", 0, 40.0, settings={"er": {"replay_ce": 2.0}}, label="-double")
    one = gain(compared(tmp_path), "er+bfp (er.replay_ce=1, bfp.weight=3)")
    assert one.against.label == "er (er.replay_ce=1)"


def test_what_goes_with_the_method_is_said(tmp_path: Path) -> None:
    make_run(tmp_path, "er", 0, 50.0, settings={"training": {"lr": 0.1}})
    make_run(tmp_path, "derpp", 0, 50.0)
    make_run(tmp_path, "ft", 1)
    found = compared(tmp_path)
    assert found.differing == []
    assert notes(found) == [
        "lr differs by method: 0.03 for DER++, 0.1 for ER",
        "1 not finished, left out: ft-200-s1",
    ]


def test_variants_are_sorted_within_their_block(tmp_path: Path) -> None:
    for rows, (method, faa) in product((200, 500), (("er", 50), ("ft", 20), ("derpp", 60))):
        make_run(tmp_path, method, 0, faa, settings={"memory": {"size": rows}})
    for sort, order in (("-faa", "derpp er ft"), ("ff", "derpp er ft"), ("method", "derpp er ft"),
                        ("faa", "ft er derpp"), ("-method", "ft er derpp")):  # fmt: skip
        found = compare(Store(tmp_path).records(), sort=sort).variants
        assert [variant.method for variant in found] == 2 * order.split()
    with pytest.raises(ConfigError, match="unknown field 'fa'"):
        compare(Store(tmp_path).records(), sort="fa")


def test_accuracy_on_validation_images_is_marked(tmp_path: Path) -> None:
    make_run(tmp_path, "er", 0, 50.0, settings={"scenario": {"validation": 0.1}})
    make_run(tmp_path, "er", 0, 40.0, label="-test")
    records = Store(tmp_path).records()
    assert [row[1] for row in listing(records).rows] == [
        "finished, on validation images",
        "finished",
    ]
    found = compare(records)
    assert len(found.variants) == 2
    assert "1 of 2 runs measured on a validation split, not on the test images" in notes(found)


def make_order(
    runs: Path, method: str, order: int | None, seed: int, faa: float, order_seed: int = 0
) -> None:
    scenario = {"order": "natural", "order_seed": order_seed}
    if order is not None:
        scenario = {"order": "shuffled", "order_seed": order}
    label = f"-{order}-{order_seed}"
    make_run(runs, method, seed, faa, settings={"scenario": scenario}, label=label)


def test_class_orders_are_pooled_and_paired_by_order_and_seed(tmp_path: Path) -> None:
    """Gains by (order, seed): 1, 2, 3, 6. By the seed alone they would be paired across orders."""
    base = {(1, 0): 50.0, (1, 1): 40.0, (2, 0): 30.0, (2, 1): 20.0}
    gains = {(1, 0): 1.0, (1, 1): 2.0, (2, 0): 3.0, (2, 1): 6.0}
    for (order, seed), faa in base.items():
        make_order(tmp_path, "er", order, seed, faa)
        make_order(tmp_path, "er+bfp", order, seed, faa + gains[order, seed])
    make_order(tmp_path, "er+bfp", 3, 0, 99.0)  # without a counterpart
    found = compared(tmp_path)
    assert [(variant.label, len(variant.runs)) for variant in found.variants] == [
        ("er", 4),
        ("er+bfp", 5),
    ]
    one = gain(found, "er+bfp")
    assert one.pairs.keys == tuple((*key, 0) for key in base)
    assert one.mean.mean == 3.0
    assert one.mean.std == pytest.approx(math.sqrt(14 / 3))  # 4 + 1 + 0 + 9, over 3
    assert one.pairs.p_flips == 2 / 16
    assert summary(found).columns[2] == "runs"
    assert "runs with different shuffled class orders are pooled" in notes(found)
    assert "; differences paired by class order and seed, mean" in differences(found).caption


def test_the_natural_order_has_no_seed(tmp_path: Path) -> None:
    """A second run of the same order and seed is the same run; it is named and not counted."""
    make_order(tmp_path, "er", None, 0, 50.0, order_seed=1)
    make_order(tmp_path, "er", None, 0, 50.0, order_seed=2)
    found = compared(tmp_path)
    assert [len(variant.runs) for variant in found.variants] == [1]
    assert notes(found) == ["1 with the settings and seed of another, left out: er-200-s0-None-2"]


def test_a_damaged_run_does_not_cost_the_grid_its_table(tmp_path: Path) -> None:
    from linsep.cli.store import show_variants

    good, bad = (make_run(tmp_path, "er", seed, 50.0) for seed in (0, 1))
    (bad / "results.json").write_text("{")
    out = io.StringIO()
    with (
        redirect_stdout(out),
        pytest.warns(UserWarning, match="left out of the table: .*er-200-s1"),
    ):
        show_variants([good, bad])
    assert "50.00" in out.getvalue()


def test_accuracy_on_each_class_is_the_mean_over_seeds_by_name(tmp_path: Path) -> None:
    """Two seeds learn the classes in other orders; a class without test images has no row."""
    orders = (["cat", "dog", "owl"], ["dog", "cat", "owl"])
    for seed, names in enumerate(orders):
        folder = make_run(tmp_path / "runs", "er", seed, 50.0)
        results = json.loads((folder / "results.json").read_text())
        kept = {"cat": 3 + seed, "dog": 5}
        rows = [[kept.get(name, 0) * (i == j) for j in range(3)] for i, name in enumerate(names)]
        rows[0][1] += 5
        found = {"classes": names, "groups": [[0], [1, 2]], "confusion": rows}
        (folder / "results.json").write_text(json.dumps(results | found))
    table = per_class(compare(Store(tmp_path / "runs").records()))
    # cat: 3 of 8, then 4 of 4; dog: 5 of 5, then 5 of 10; both are first once and second once
    assert table.columns == ["task", "class", "ER"]
    assert [list(row[:2]) for row in table.rows] == [[None, "cat"], [None, "dog"]]
    for row, (first, second) in zip(table.rows, ((37.5, 100.0), (100.0, 50.0)), strict=True):
        assert isinstance(row[2], Spread)
        expected = (first + second) / 2, abs(first - second) / 2**0.5
        assert (row[2].mean, row[2].std) == pytest.approx(expected)
    text = command("compare", "--classes", "--format", "csv", cwd=tmp_path).stdout
    assert text.splitlines()[0] == "task,class,ER,ER std"
    make_run(tmp_path / "bare" / "runs", "er", 0, 50.0)
    for words, problem in (
        (("--classes",), "no confusion matrix is on record"),
        (("--classes", "--metrics", "faa"), "give one of --at-equal, --classes"),
    ):
        said = command("compare", *words, cwd=tmp_path / "bare")
        assert (said.returncode, said.stderr.count("\n")) == (2, 1)
        assert problem in said.stderr


# --- renderings ----------------------------------------------------------------------------------

VALUES = {"derpp": (65.0, 66.0, 64.0), "derpp+bfp": (71.5, 72.5, 72.0)}


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    for method, values in VALUES.items():
        for seed, faa in enumerate(values):
            make_run(tmp_path / "runs", method, seed, faa)
    return tmp_path


def test_csv_and_json_keep_whole_numbers(pair: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(command("compare", "--format", "csv", cwd=pair).stdout)))
    assert len(rows) == 2 * 6
    (one,) = [
        r
        for r in rows
        if (r["protocol"], r["method"], r["metric"]) == ("class_il", "derpp+bfp", "ff")
    ]
    assert (one["against"], one["better"], one["worse"], one["same"]) == ("derpp", "3", "0", "0")
    expected = stats.ttest_rel([28.5, 27.5, 28.0], [35.0, 34.0, 36.0])
    assert float(one["t"]) == pytest.approx(expected.statistic)
    assert float(one["p_t"]) == pytest.approx(expected.pvalue)
    whole = json.loads(command("compare", "--format", "json", cwd=pair).stdout)
    assert whole["rows"][6]["difference"] == pytest.approx(7.0)
    assert whole["rows"][0]["against"] is None
    assert "Student" in whole["notes"][0]


def test_runs_by_name_and_by_folder(pair: Path) -> None:
    said = command("compare", "derpp-200-s0", "runs/derpp+bfp-200-s0", cwd=pair)
    assert said.returncode == 0, said.stderr
    assert "DER++ + BFP" in said.stdout
    wrong = {
        "not a run": ("compare", "derp-200"),
        "any of 3 runs": ("compare", "derpp-200"),
        "not both": ("compare", "derpp-200-s0", "--where", "seed=0"),
        "Did you mean 'latex'": ("compare", "--format", "latx"),
        "no runs with seed=9": ("compare", "--where", "seed=9"),
        "cannot write": ("compare", "-o", "no/such/folder.txt"),
    }
    for reason, words in wrong.items():
        found = command(*words, cwd=pair)
        assert (found.returncode, found.stderr.count("\n")) == (2, 1), found
        assert reason in found.stderr


def test_only_comparing_imports_scipy(pair: Path) -> None:
    """scipy.stats takes half a second to import, which a listing need not wait for."""
    program = """
import sys
from linsep.cli import app
for words, loaded in ((["--help"], False), (["runs"], False), (["compare"], True)):
    try:
        app(words)
    except SystemExit as end:
        assert not end.code, words
    assert ("scipy" in sys.modules) == loaded, words
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=pair, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_plain_text_marks_the_best_and_parts_groups() -> None:
    rows = [("a", "er", 1.0), ("a", "bfp", 2.0), ("b", "er", 3.0)]
    found = Table(("in", "method", "FAA"), rows, caption="C", best={"FAA": "max"}, group="in")
    assert found.to_text(mark=("*", "*")).splitlines() == [
        "C", "in  method   FAA", "──  ──────  ────", "a   er      1.00", "a   bfp     *2.00*", "",
        "b   er      *3.00*",
    ]  # fmt: skip


def test_versions_of_a_users_method_are_variants_and_its_places_are_not(tmp_path: Path) -> None:
    for seed, place, digest in ((0, "a", "1"), (1, "b", "1"), (0, "a", "2")):
        source = {"er_kd": {"source": f"/{place}/mine.py:er_kd", "digest": digest}}
        make_run(tmp_path, "er_kd", seed, 50.0 + seed, settings={"custom": source}, label=digest)
    make_run(tmp_path, "er", 0, 40.0)
    labels = [
        (variant.label, len(variant.runs))
        for variant in compare(Store(tmp_path).records()).variants
    ]
    assert labels == [
        ("er", 1), ("er_kd (custom.er_kd.digest=1)", 2), ("er_kd (custom.er_kd.digest=2)", 1),
    ]  # fmt: skip
    one = compare(Store(tmp_path).select("seed=1 or method=er")).variants
    assert [variant.label for variant in one] == ["er", "er_kd"]


def test_runs_on_other_images_are_no_repetition(tmp_path: Path) -> None:
    """The same seed with two choices of images: two runs of a variant, paired choice by choice."""
    for method, add in (("er", 0.0), ("er+bfp", 5.0)):
        for subset, faa in ((1, 40.0), (2, 60.0)):
            settings = {"scenario": {"subset_seed": subset, "per_class": 50}}
            make_run(tmp_path, method, 0, faa + add, settings=settings, label=f"-{subset}")
    found = compared(tmp_path)
    assert not found.repeated
    one = gain(found, "er+bfp")
    mine = one.variant.summary("class_il", "faa")
    assert mine is not None
    assert (mine.n, mine.mean) == (2, 55.0)
    assert (one.mean.n, one.mean.mean) == (2, 5.0)
    assert [str(member) for member in one.variant.runs] == ["0 (images 1)", "0 (images 2)"]
