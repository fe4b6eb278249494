"""The paper as data: spot checks, the audit's findings, and the comparison with its source."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from linsep.errors import ConfigError
from linsep.paper.tables import (
    SCENARIOS,
    Place,
    at,
    audit,
    hyperparameters,
    protocol,
)

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_paper.py"
PAPER = os.environ.get("LINSEP_TEST_PAPER", "")
needs_paper = pytest.mark.skipif(
    not PAPER, reason="set LINSEP_TEST_PAPER to the paper's LaTeX source to compare every number"
)


def findings(check: str) -> list[str]:
    return [text for name, text in audit() if name == check]


def check_paper(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_unprinted_cells_are_refused() -> None:
    with pytest.raises(ConfigError, match="split-cifar10/300/er class_il faa is not printed"):
        at(Place("split-cifar10", 300, "er"))


def test_hyperparameters_where_text_and_program_part() -> None:
    where = ("split-cifar100", 500, "derpp")
    text, program = hyperparameters(*where), hyperparameters(*where, source="program")
    assert (text["replay_logits"], program["replay_logits"]) == (0.2, 0.1)
    assert text["replay_ce"] == program["replay_ce"] == 0.5
    assert text["milestones"] == [35, 45]
    bic = [hyperparameters("split-cifar100", 2000, "bic", source=s) for s in ("text", "program")]
    assert [found["weight_decay"] for found in bic] == [0.0, 5e-5]


def test_projection_adds_to_any_base() -> None:
    plain = hyperparameters("split-cifar10", 200, "er")
    added = {"projection_weight": 1.0, "projection_lr": 0.1, "projection_momentum": 0.9}
    assert hyperparameters("split-cifar10", 200, "er+bfp") == plain | added
    assert hyperparameters("split-cifar10", 200, "er+fd") == plain | {"projection_weight": 1.0}
    assert hyperparameters("split-cifar10", None, "ft+bfp2")["projection_lr"] == 0.1


def test_wherever_two_values_stand_a_note_says_why() -> None:
    for scenario in SCENARIOS:
        for methods in protocol(scenario)["memory"].values():
            for value in [value for method in methods.values() for value in method.values()]:
                assert not isinstance(value, dict) or value["note"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("split-mnist", 200, "er"), "unknown scenario of the paper"),
        (("split-cifar10", 200, "derp"), "Did you mean 'derpp'"),
        (("split-cifar10", 200, "er+bpf"), "Did you mean 'bfp'"),
        (("split-cifar10", 2000, "er"), "Allowed: 200, 500"),
        (("split-cifar10", None, "er"), "Allowed: 200, 500"),
        (("split-cifar10", 200, "jt"), "ask for memory None"),
    ],
)
def test_unknown_hyperparameters_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        hyperparameters(*arguments)


def test_the_audit_finds_what_cannot_be() -> None:
    (peak,) = findings("impossible peak")
    assert peak.startswith("split-cifar10/ft class_il faa: FAA 36.20 with FF 96.44")
    for number in (" 113.4 %", "give 96.8", "at most 19.6"):
        assert number in peak
    (above,) = findings("class above task")
    assert above.startswith("split-cifar10/ft class_il faa: mean peak 113.35")
    spread = re.compile(r"(\S+) class_il faa: FF \S+ ± (\S+) beside")
    assert {spread.findall(text)[0] for text in findings("unbelievable spread")} == {
        ("split-cifar100/500/er", "33.70"), ("split-cifar100/2000/er", "18.79"),
        ("split-tinyimagenet/4000/er", "16.47"), ("split-cifar100/500/er+bfp", "30.30"),
        ("split-cifar100/2000/er+bfp", "18.06"), ("split-tinyimagenet/4000/er+bfp", "20.77"),
    }  # fmt: skip
    deltas = [re.findall(r"printed as (\S+), .* is (\S+)", t)[0] for t in findings("wrong delta")]
    assert set(deltas) == {("-6.28", "-6.61"), ("-2.49", "-2.56"), ("-0.07", "+0.07")}
    (bold,) = findings("wrong bold")
    assert bold.endswith("derpp+bfp 87.20 is printed in bold, the best is lucir 87.50")
    (gamma,) = findings("gamma identity")
    assert "gamma=0.3: FAA 75.77, but" in gamma
    assert "is 75.62" in gamma
    tables = [
        re.findall(r": (\S+) in table 6, (\S+)", t)[0] for t in findings("disagreeing tables")
    ]
    assert tables == [("76.68", "76.02"), ("13.16", "13.25")]


@needs_paper
def test_data_equal_the_papers_source() -> None:
    done = check_paper(Path(PAPER))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tables: 257 cells, 527 numbers; hyper-parameters: 134 values" in done.stdout


@needs_paper
@pytest.mark.parametrize(
    ("printed", "changed", "mismatch"),
    [
        (r"\meanstd{72.21}{0.22}", r"\meanstd{72.12}{0.22}", "faa: split-cifar10/200/derpp+bfp"),
        (r"\reduce{6.28}", r"\boost{6.28}", "ff: split-tinyimagenet/4000/derpp+bfp"),
        ("56.56±0.55", r"\textbf{56.56±0.55}", "ablation_derpp: split-cifar100/2000/derpp+fd"),
        ("$[35, 45]$", "$[35, 40]$", "split-cifar100/common/milestones"),
        (r"$lr=0.3$, $wd", r"$lr=0.1$, $wd", "split-cifar100/500.icarl/lr"),
        (r"$lr=0.3$, $wd=10^{-5}$", "$lr=0.3$", "split-cifar100/500.icarl/weight_decay"),
        ("over 3 runs", "over 5 runs", "imagenet100: 5 runs"),
    ],
)
def test_a_changed_number_is_seen(
    tmp_path: Path, printed: str, changed: str, mismatch: str
) -> None:
    tex = Path(PAPER).read_text(encoding="utf-8")
    assert printed in tex
    (tmp_path / "changed.tex").write_text(tex.replace(printed, changed, 1), encoding="utf-8")
    done = check_paper(tmp_path / "changed.tex")
    assert done.returncode == 1
    assert f"MISMATCH {mismatch}" in done.stdout
