"""The features' tables are means of the stored analyses, worked out here from the files alone."""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from studies.evidence import SEEDS, Runs
from studies.features import (
    Analysed,
    analysed,
    directions,
    probes,
    projections,
    similarities,
    weights,
)


@pytest.fixture(scope="module")
def derpp(runs: Runs) -> Analysed:
    return next(one for one in analysed(runs) if one.method == "derpp")


def files(one: Analysed, kind: str) -> list[Any]:
    """What the seeds' files hold; the folders are named by method, memory and seed."""
    assert sorted(int(str(r.facts["seed"])) for r in one.runs) == list(SEEDS)
    paths = [Path(record.folder) / "analysis" / f"{kind}.json" for record in one.runs]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def cell(text: str) -> tuple[float, float]:
    mean, std = text.split(" ± ")
    return float(mean), float(std)


def row(markdown: str, name: str) -> list[str]:
    line = next(line for line in markdown.splitlines() if line.startswith(f"| {name} |"))
    return [part.strip() for part in line.strip("|").split("|")][1:]


def test_probes_and_similarities_are_means_over_tasks_then_seeds(derpp: Analysed) -> None:
    cells = row(probes([derpp]).to_markdown(), "DER++")
    heads = [100 * one["head"] for one in files(derpp, "probe")]
    assert cell(cells[0]) == pytest.approx((fmean(heads), stdev(heads)), abs=0.005)
    whole = [
        fmean(100 * fit["accuracy"] for fit in one["final"] if fit["portion"] == 1.0)
        for one in files(derpp, "probe")
    ]
    assert cell(cells[-1]) == pytest.approx((fmean(whole), stdev(whole)), abs=0.005)
    seen, new = row(similarities([derpp]).to_markdown(), "DER++")
    for shown, side in ((seen, "seen"), (new, "unseen")):
        values = [
            fmean(100 * t[side]["centred"] for t in one["tasks"]) for one in files(derpp, "cka")
        ]
        assert cell(shown) == pytest.approx((fmean(values), stdev(values)), abs=0.005)


def test_directions_are_means_over_seeds_after_each_task(derpp: Analysed) -> None:
    shown = [float(one.split(" / ")[0]) for one in row(directions([derpp]).to_markdown(), "DER++")]
    ranks = [[t["effective_rank"] for t in one["tasks"]] for one in files(derpp, "spectrum")]
    assert shown == pytest.approx([fmean(task) for task in zip(*ranks, strict=True)], abs=0.05)


def test_a_projection_is_shown_where_one_was_learned(runs: Runs) -> None:
    several = analysed(runs)
    table = projections(several)
    assert {str(line[0]) for line in table.rows} == {
        one.title for one in several if "bfp" in one.method or "fd" in one.method
    }
    identity = row(table.to_markdown(), "DER++ + FD")
    assert identity[3:] == ["0.00 ± 0.00", "0.00 ± 0.00", "64.00 ± 0.00"]


def test_weight_0_is_the_control_and_weight_1_the_main_comparison(runs: Runs) -> None:
    shown = {str(line[0]): line for line in weights(runs).rows}
    for weight, part in (("0", "control"), ("1", "main")):
        wanted = [s for s in runs.parts[part] if s["method"] == "derpp+bfp" and s["seed"] < 5]
        records = [runs.run(settings) for settings in wanted]
        faa = [float(str(r.facts["class_il.faa"])) for r in records if r is not None]
        assert len(faa) == 3
        assert shown[weight][1].mean == pytest.approx(fmean(faa))  # type: ignore[union-attr]
