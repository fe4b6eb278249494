"""The paper's numbers beside ours: which run fills which cell, and what is said about it."""

import csv
import io
import json
import math
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from linsep.compare.tables import Spread
from linsep.errors import ConfigError
from linsep.grids.plan import expand
from linsep.paper.reproduction import (
    beside,
    chosen,
    expected,
    grid,
    laid_out,
    named,
    scaled,
    settings,
)
from linsep.paper.tables import TABLES, Place, scale, table
from linsep.resolve import resolve
from linsep.settings.config import from_settings, to_toml
from linsep.settings.layers import read_config
from linsep.storage.store import Record, flat
from studies.evidence import protocol as evidence
from tests.helpers.command import command

DATA = os.environ.get("LINSEP_TEST_DATA", "")
CELL = Place("split-cifar10", 200, "derpp+bfp", "faa", "class_il")  # 72.21 ± 0.22, 5 runs


def experiments(size: str) -> list[Place]:
    """Every experiment of every table that a scale has, whatever is measured."""
    places = [
        p for name in TABLES for p in table(name).cells if p.scenario in scale(size).scenarios
    ]
    return list(dict.fromkeys(replace(p, metric="", protocol="") for p in places))


# --- from hyper-parameters to settings -----------------------------------------------------------


def test_settings_by_hand() -> None:
    found = settings("split-cifar100", 500, "lucir")
    assert found["training"] == {
        "schedule": {"factor": 0.1, "warmup": 0, "milestones": [35, 45]},
        "epochs": 50, "batch_size": 32, "momentum": 0.9, "weight_decay": 0.0, "lr": 0.03,
    }  # fmt: skip
    assert found["lucir"] == {
        "less_forget": 5.0, "nearest": 2, "margin": 0.5, "fitting_epochs": 20, "fitting_lr": 0.01,
    }  # fmt: skip
    assert found["memory"] == {"size": 500}
    assert found["preset"] == "paper"
    assert "memory" not in settings("split-cifar10", None, "ft")
    assert settings("split-cifar10", 200, "fdr")["fdr"] == {"replay_probabilities": 0.3}
    assert settings("split-cifar10", 200, "bic")["bic"] == {"temperature": 2.0, "bias_epochs": 250}
    both = [settings("split-cifar100", 500, "derpp+bfp", s) for s in ("paper", "authors")]
    assert [s["derpp"]["replay_logits"] for s in both] == [0.2, 0.1]  # D6
    assert [s["preset"] for s in both] == ["paper", "authors"]
    assert both[0]["bfp"] == {"init": "default", "reset": True, "weight": 1.0, "lr": 0.1,
                              "momentum": 0.9}  # fmt: skip


@pytest.mark.parametrize("preset", ["paper", "authors"])
@pytest.mark.parametrize("size", ["full", "small"])
def test_every_experiment_resolves_to_what_its_cell_expects(size: str, preset: str) -> None:
    """So a run made from the settings fills its cell, and only small things stay unchecked."""
    unchecked = set()
    for place in experiments(size):
        wanted = scaled(place, scale(size), preset)
        resolved = resolve(from_settings(wanted), lenient=True)
        stored = flat(tomllib.loads(to_toml(resolved)))
        needed = expected(place, scale(size), preset)
        wrong = {n: (stored.get(n), v) for n, v in needed.items() if stored.get(n) != v}
        assert not wrong, place
        unchecked |= set(stored) - set(needed)
    assert {name for name in unchecked if name.split(".")[0] in ("training", "evaluation")} <= {
        "training.schedule.milestones_from", "evaluation.chunk",
        *(["training.batch_size"]),  # of ImageNet-100, unstated
    }  # fmt: skip
    assert {name for name in unchecked if name.split(".")[0] == "scenario"} <= {
        "scenario.order_seed"
    }


@pytest.mark.parametrize("name", ["table1-cifar10", "table1-cifar10-500"])
def test_the_configs_of_table_1_are_the_papers_protocol(name: str) -> None:
    """Every run of the grid fills its cell: it has the values that the paper tuned."""
    raw = read_config(name)
    for wanted in expand(raw):
        config = to_toml(resolve(from_settings(wanted), lenient=True))
        fields = flat(tomllib.loads(config))
        method, memory = str(fields["method"]), fields["memory.size"] or None
        assert memory is None or isinstance(memory, int)
        place = Place("split-cifar10", memory, method, "faa", "class_il")
        needed = expected(place, scale("full"), "authors")
        assert {n: fields.get(n) for n in needed} == needed, place


def test_the_small_scale_is_the_protocol_of_the_evidence() -> None:
    for part, where in (("main", ("split-cifar10", 200)), ("cifar100", ("split-cifar100", 500))):
        for cell in expand(evidence()[part]):
            place = Place(*where, cell["method"])
            same = scaled(place, scale("small"), "authors") | {"seed": cell["seed"]}
            ours, theirs = (
                resolve(from_settings(settings), lenient=True) for settings in (same, cell)
            )
            here = {"compute": theirs.compute}
            assert ours.model_copy(update=here) == theirs


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("split-cifar10", "should look like"),
        ("split-cifar10/many/er", "should look like"),
        ("split-cifar10/200/derp", "Did you mean 'derpp'"),
        ("split-cifar10/300/er", "memory size"),
        ("split-cifar1/200/er", "Did you mean 'split-cifar1"),
        ("split-cifar10/er", "memory size"),
        ("split-cifar10/200/ft", "no memory"),
    ],
)
def test_wrong_cells_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        named(text)


def test_run_paper_resolves_to_the_papers_hyperparameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def stop(config: Any, **rest: Any) -> None:
        seen.append(config)
        raise ConfigError("seen")

    monkeypatch.setattr("linsep.cli.run.prepare", stop)
    command("run", "--cell", "split-cifar100/500/lucir", cwd=tmp_path)
    command("run", "--cell", "split-cifar100/500/derpp+bfp", "--preset", "authors", "--lr", "1",
            cwd=tmp_path)  # fmt: skip
    assert seen[0] == from_settings(settings("split-cifar100", 500, "lucir"))
    assert seen[1].training.lr == 1.0
    assert (seen[1].preset, seen[1].options["derpp"]["replay_logits"]) == ("authors", 0.1)
    said = command("run", "--cell", "split-cifar100/500/luci", cwd=tmp_path)
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)


# --- runs beside cells ---------------------------------------------------------------------------


def record(
    place: Place, size: str, seed: int, changes: dict[str, Any] | None = None, **metrics: float
) -> Record:
    facts = expected(place, scale(size), "authors") | {"seed": seed, "status": "finished"}
    facts |= {f"class_il.{name}": value for name, value in metrics.items()}
    return Record(Path(f"{place}-{seed}"), facts | (changes or {}))


def test_differences_and_sigmas_by_hand() -> None:
    """Ours 71, 72, 73: mean 72, std 1. se = sqrt(.22^2/5 + 1/3) = .5857; -.21 / .5857 = -.3586."""
    passed = {"cost.compute": 4.5}
    records = [record(CELL, "full", seed, passed, faa=71.0 + seed) for seed in range(3)]
    base = replace(CELL, method="derpp")  # 65.41
    records += [record(base, "full", seed, faa=66.0) for seed in (1, 2)]
    found, cells = chosen("faa", "split-cifar10", 200, "derpp+bfp")
    row = next(r for r in beside(found, cells, records, scale("full")) if r.place == CELL)
    assert row.ours == {0: 71.0, 1: 72.0, 2: 73.0}
    assert row.wanted == 5
    assert row.difference == pytest.approx(-0.21)
    assert row.sigmas == pytest.approx(-0.21 / math.sqrt(0.22**2 / 5 + 1 / 3))
    assert row.sigmas == pytest.approx(-0.3586, abs=1e-4)
    assert row.printed_gain == pytest.approx(6.80)
    assert row.gain == pytest.approx((72 + 73) / 2 - 66)
    drawn = laid_out(found, [row], scale("full"), whole=False).rows[0]
    assert drawn[1:] == [
        "derpp+bfp", Spread(72.21, 0.22), Spread(72.0, 1.0), "3/5", "-0.21", "-0.36", "+6.80",
        "+6.50", 4.5,
    ]  # fmt: skip


def test_below_three_seeds_there_are_no_sigmas() -> None:
    found, cells = chosen("faa", "split-cifar10", 200, "derpp+bfp")
    for seeds, known in ((1, False), (2, False), (3, True)):
        records = [record(CELL, "full", seed, faa=73.0 + seed) for seed in range(seeds)]
        (row, _) = beside(found, cells, records, scale("full"))
        assert (row.difference is not None, row.sigmas is not None) == (True, known)


def test_without_a_printed_spread_there_are_no_sigmas() -> None:
    place = Place("split-cifar10", 500, "derpp+bfp", "faa", "class_il", 3.0)
    found, cells = chosen("gamma")
    rows = beside(found, cells, [record(place, "full", 0, faa=77.0)], scale("full"))
    (row,) = [r for r in rows if r.place == place]
    assert row.difference == pytest.approx(1.0)
    assert row.sigmas is None
    assert sum(bool(r.ours) for r in rows) == 1, "another weight is another cell"


CHANGES = {
    "bfp.weight": 3.0, "bfp.scale": "none", "training.lr": 0.1, "training.epochs": 5,
    "net.width": 32, "scenario.per_class": 500, "scenario.order": "shuffled", "memory.size": 500,
    "memory.evict": "one_largest", "evaluation.mask_unseen": True, "derpp.target": "stored",
    "training.bn_updates": "stream", "scenario.validation": 0.1, "seed": 7, "status": "unfinished",
    "bfp.init": "identity", "method": "derpp+fd", "bfp.every": 2, "bfp.target": "stored",
    "bfp.cycle": True, "net.norm": "group", "net.weights": "w", "net.train": "head",
    "scenario.augment": "none", "training.optimizer": "adamw",
    "scenario.subset_seed": 1, "evaluation.batchnorm": "recalibrated",
}  # fmt: skip


def test_a_run_with_another_setting_fills_no_cell() -> None:
    found, cells = chosen("faa", "split-cifar10", 200, "derpp+bfp")
    for field, value in CHANGES.items():
        changed = record(CELL, "full", 0, {field: value}, faa=70.0)
        assert not any(row.ours for row in beside(found, cells, [changed], scale("full"))), field


def test_scales_and_presets_do_not_mix() -> None:
    found, cells = chosen("faa", "split-cifar10", 200, "derpp+bfp")
    small = [record(CELL, "small", 2, faa=40.0)]
    assert beside(found, cells, small, scale("small"))[0].ours == {2: 40.0}
    assert not beside(found, cells, small, scale("full"))[0].ours
    assert not beside(found, cells, small, scale("small"), "paper")[0].ours


def test_the_grid_of_a_table() -> None:
    found, cells = chosen("faa")
    wanted = grid(cells, scale("full"), "authors", found.runs)
    assert len(wanted) == (9 * 5 + 2 * 3) * 5
    assert len({json.dumps(s, sort_keys=True) for s in wanted}) == len(wanted)
    found, cells = chosen("imagenet100")
    assert len(grid(cells, scale("full"), "authors", found.runs)) == 4 * 3, "the paper has 3 runs"
    with pytest.raises(ConfigError, match="leaves split-imagenet100 out: training at 224x224"):
        grid(cells, scale("small"), "authors", found.runs)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({"scenario": "split-cifar"}, "split-cifar10"),
        ({"method": "derpp+bpf"}, "derpp+bfp"),
        ({"memory": 300}, "500"),
    ],
)
def test_wrong_filters_are_refused(asked: dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"Did you mean '{hint}")):
        chosen("faa", **asked)


# --- the commands --------------------------------------------------------------------------------


def write(runs: Path, place: Place, size: str, seed: int, faa: float) -> None:
    """A run's folder, its config resolved as the library would."""
    wanted = scaled(place, scale(size), "authors") | {"seed": seed}
    config = to_toml(resolve(from_settings(wanted), lenient=True))
    folder = runs / f"{place.method}-{seed}"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(config)
    metrics = {il: {"faa": faa, "ff": 10.0, "ala": 90.0} for il in ("class_il", "task_il")}
    names = {"key": "k", "data": "d", "scenario": place.scenario, "method": place.method}
    results = names | {"memory": 200, "seed": seed, "metrics": metrics}
    (folder / "results.json").write_text(json.dumps(results))


@pytest.mark.parametrize("form", ["terminal", "markdown", "csv", "latex", "json"])
def test_small_numbers_never_go_without_a_warning(form: str, tmp_path: Path) -> None:
    write(tmp_path / "runs", CELL, "small", 0, 40.0)
    words = ("paper", "table", "1", "--scale", "small", "--format", form)
    assert "comparable" in command(*words, cwd=tmp_path).stdout
    command(*words, "-o", "out", cwd=tmp_path)
    assert "comparable" in (tmp_path / "out").read_text()
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO((tmp_path / "out").read_text())))
        assert {row["scale"] for row in rows} == {"small (levels not comparable)"}
        assert len(rows) == len(table("faa").cells)


def test_every_table_and_the_audit_can_be_shown(tmp_path: Path) -> None:
    assert "15 findings" in command("paper", "audit", cwd=tmp_path).stdout
    for number, name in enumerate(TABLES, start=1):
        said = command("paper", "table", str(number), "--format", "json", cwd=tmp_path)
        assert len(json.loads(said.stdout)["rows"]) == len(table(name).cells), name


def test_looking_at_the_paper_needs_no_torch(tmp_path: Path) -> None:
    program = """
import sys
from linsep.cli import app
for words in (["paper", "table", "1"], ["paper", "audit"], ["paper", "run", "1", "--dry-run"]):
    try:
        app(words)
    except SystemExit as end:
        assert not end.code, words
sys.exit("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.data
@pytest.mark.skipif(not DATA, reason="LINSEP_TEST_DATA names no folder")
def test_paper_run_fills_the_table(tmp_path: Path) -> None:
    """The whole path on real images: settings, plan, workers, table."""
    tiny = ["--epochs", "1", "--per-class", "4", "--test-per-class", "2"]
    words = ["paper", "run", "1", "--scale", "small", "--scenario", "split-cifar10",
             "--memory", "200", "--method", "derpp", "--data", DATA, "--workers", "1"]  # fmt: skip
    said = command(*words, *tiny, cwd=tmp_path)
    assert said.returncode == 0, said.stderr + said.stdout
    assert "5 runs." in said.stdout
    assert len(list((tmp_path / "runs").glob("split-cifar10-derpp-m*-s*/results.json"))) == 5
    assert "0 of 2 cells" in said.stdout, "other settings than the scale's fill no cell"


def test_refusals_of_paper_run(tmp_path: Path) -> None:
    wrong = {
        "unknown table '7'": ("paper", "run", "7"),
        "unknown scale": ("paper", "run", "1", "--scale", "tiny"),
        "needs a GPU": ("paper", "run", "5", "--scale", "small"),
        "unknown preset": ("paper", "run", "1", "--preset", "mine"),
        "Did you mean 'csv'": ("paper", "table", "1", "--format", "csw"),
    }
    for reason, words in wrong.items():
        said = command(*words, cwd=tmp_path)
        assert (said.returncode, said.stderr.count("\n")) == (2, 1), said
        assert reason in said.stderr
