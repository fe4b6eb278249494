"""Tables for papers: what is across and down, what is best, and LaTeX that compiles."""

import csv
import io
import json
import re
from itertools import product
from pathlib import Path
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linsep.compare.pivot import choose, pivot
from linsep.compare.tables import Spread, Table
from linsep.compare.variants import compare
from linsep.storage.store import Store
from tests.helpers.command import command
from tests.helpers.made_runs import make_run

FAA = {"er": (50.0, 52.0, 51.0), "er+bfp": (54.0, 55.0, 54.5)}
ROWS = (200, 500)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    for (method, values), rows in product(FAA.items(), ROWS):
        for seed, faa in enumerate(values):
            settings = {"memory": {"size": rows}}
            make_run(tmp_path / "runs", method, seed, faa + rows / 100, settings=settings)
    for seed in range(2):
        make_run(tmp_path / "runs", "jt", seed, 90.0 + 2 * seed, settings={"memory": {"size": 0}})
    return tmp_path


def made(where: Path, **choice: str) -> tuple[Table, list[str]]:
    comparison = compare(Store(where / "runs").records())
    return pivot(comparison, choose(comparison, **choice))


def test_every_cell_is_the_mean_and_std_of_its_runs(kept: Path) -> None:
    table, _ = made(kept, metrics="faa", columns="memory,seeds", spread="std")
    assert list(table.columns) == ["method", "seeds", "memory=200 FAA", "memory=500 FAA"]
    for row in table.rows:
        method = {"ER": "er", "ER + BFP": "er+bfp"}.get(str(row[0]))
        assert row[1] == (3 if method else 2)
        for rows, cell in zip(ROWS, row[2:], strict=True):
            if method:
                values = [faa + rows / 100 for faa in FAA[method]]
                assert isinstance(cell, Spread)
                expected = pytest.approx((mean(values), stdev(values)))
                assert (cell.mean, cell.std) == expected


def test_formats_have_the_same_choices(kept: Path) -> None:
    words = ("compare", "--metrics", "faa,task_il.faa", "--columns", "memory", "--spread")
    text = command(*words, "interval", "--format", "csv", cwd=kept).stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["method"] for row in rows] == ["JT", "ER", "ER + BFP"]
    name = "memory=500 Task-IL FAA"
    low, middle, high = (float(rows[1][n]) for n in (f"{name} low", name, f"{name} high"))
    assert middle == 56.0
    assert middle - low == pytest.approx(high - middle)
    whole = json.loads(command(*words, "none", "--format", "json", cwd=kept).stdout)
    assert whole["rows"][1][name] == 56.0
    marked = command(*words, "none", "--format", "markdown", cwd=kept).stdout
    assert "| ER + BFP | **56.50** | **56.50** | **59.50** | **59.50** |" in marked
    interval = command(*words, "interval", "--format", "markdown", cwd=kept).stdout
    assert re.search(r"\| ER \| 53\.00 \(\d+\.\d\d to \d+\.\d\d\) \|", interval)
    assert interval.startswith(
        "Split CIFAR-10; ResNet-18 of width 8, 2 epochs per task; "
        "mean and its 95 % interval over 2 to 3 seeds"
    )


def test_latex_parts_families_and_says_what_its_numbers_are(kept: Path) -> None:
    make_run(kept / "runs", "derpp", 0, 60.0)
    table, _ = made(kept, metrics="faa", columns="memory")
    lines = table.to_latex().splitlines()
    assert lines[2] == (
        r"\caption{Split CIFAR-10; ResNet-18 of width 8, 2 epochs per task; "
        r"mean $\pm$ standard deviation over 1 to 3 seeds, Class-IL}"
    )
    starts = [line.split(" &")[0].strip() for line in lines[9:-3]]
    space = r"\addlinespace"
    assert starts == ["DER++", space, "ER", "ER + BFP", space, "JT"] or starts == [
        "JT", space, "DER++", space, "ER", "ER + BFP",
    ]  # fmt: skip


def test_what_goes_with_a_column_does_not_part_the_rows(tmp_path: Path) -> None:
    """Epochs, and the weight of BFP, were chosen for each data set."""
    for name, weight in (("split-cifar10", 1.0), ("split-cifar100", 3.0)):
        own = {"scenario": {"name": name}, "training": {"epochs": int(weight)}}
        for method in ("er", "er+bfp"):
            settings = own | ({"bfp": {"weight": weight}} if "bfp" in method else {})
            make_run(tmp_path / "runs", method, 0, 50.0, settings=settings, label=name)
    table, notes = made(tmp_path, columns="scenario")
    assert [row[0] for row in table.rows] == ["ER", "ER + BFP"]
    assert table.columns[1] == "Split CIFAR-10 FAA"
    assert None not in [cell for row in table.rows for cell in row]
    assert notes == ["weight and epochs change with the columns"]


def test_an_option_may_make_columns(tmp_path: Path) -> None:
    for weight in (10.0, 0.5):
        settings = {"bfp": {"weight": weight}}
        make_run(tmp_path / "runs", "er+bfp", 0, weight, settings=settings, label=f"{weight}")
    make_run(tmp_path / "runs", "er", 0, 40.0)
    table, notes = made(tmp_path, metrics="faa", columns="bfp.weight")
    assert list(table.columns) == ["method", "γ=0.5 FAA", "γ=10 FAA"]
    assert [list(row) for row in table.rows] == [
        ["ER", Spread(40.0), Spread(40.0)],
        ["ER + BFP", Spread(0.5), Spread(10.0)],
    ]
    assert "methods without γ" in notes[0]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--metrics", "fa"), "--metrics: unknown metric 'fa'. Did you mean 'faa'?"),
        (("--metrics", "faa,,ff"), "--metrics 'faa,,ff': should be names separated by commas"),
        (("--metrics", ""), "--metrics '': should be names separated by commas"),
        (("--columns", "memry"), "unknown field 'memry'. Did you mean 'memory'?"),
        (("--columns", "seed"), "--columns: 'seed' makes no columns"),
        (("--columns", "method"), "--columns: 'method' makes no columns"),
        (("--spread", "sd"), "--spread: unknown spread 'sd'. Did you mean 'std'?"),
        (("--latex-label", "a}b"), "--latex-label 'a}b': should be letters, digits and"),
    ],
)
def test_mistakes_are_one_line(kept: Path, words: tuple[str, ...], problem: str) -> None:
    said = command("compare", *words, cwd=kept)
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
    assert said.stderr.startswith(f"error: {problem}")


texts = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=12)


def structure(latex: str) -> None:
    """Braces balance, and every line of the table has as many cells as there are columns."""
    bare = re.sub(r"\\[\\{}&%$#_]", "", latex.replace("\\textbackslash{}", ""))
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", latex)
    assert columns
    for line in latex.splitlines():
        if line.endswith(r"\\"):
            spans = [int(n) for n in re.findall(r"\\multicolumn\{(\d+)\}", line)]
            cells = re.sub(r"\\&", "", line).count("&") + 1 + sum(spans) - len(spans)
            assert cells == len(columns[1]), line


@given(name=texts, other=texts, caption=texts)
def test_latex_keeps_its_structure_whatever_things_are_called(
    name: str, other: str, caption: str
) -> None:
    if name == other:
        return
    columns = ("method", f"{name} FAA", f"{name} FF", f"{other}x FAA")
    upper = {columns[1]: name, columns[2]: name, columns[3]: f"{other}x"}
    table = Table(columns, [(name, 1.0, 2.0, None), (other, 1.0, None, 3.0)], caption, upper=upper)
    structure(table.to_latex("tab:x"))
