"""Tables: what each rendering writes, down to the character."""

import csv
import io
import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linsep.compare.tables import Spread, Table

COMPARISON = Table(
    columns=("memory", "method", "FAA", "FF", "seeds"),
    rows=[
        (200, "er_ace", Spread(63.541, 0.42), 21.59, 5),
        (200, "derpp+bfp", Spread(72.2134567, 0.22), 16.69, 5),
        (500, "er|ace", Spread(71.17), -0.001, 1),
        (500, "derpp+bfp", None, math.nan, 0),
    ],
    caption="100% of 5_seeds & more",
    best={"FAA": "max", "FF": "min"},
    group="memory",
)

MARKDOWN = r"""
100% of 5_seeds & more

| memory | method | FAA | FF | seeds |
| ---: | --- | ---: | ---: | ---: |
| 200 | er_ace | 63.54 ± 0.42 | 21.59 | 5 |
| 200 | derpp+bfp | **72.21 ± 0.22** | **16.69** | 5 |
| 500 | er\|ace | **71.17** | **0.00** | 1 |
| 500 | derpp+bfp | - | nan | 0 |
"""

LATEX = r"""
\begin{table}
\centering
\caption{100\% of 5\_seeds \& more}
\label{tab:main}
\begin{tabular}{rlrrr}
  \toprule
  memory & method & FAA & FF & seeds \\
  \midrule
  200 & er\_ace & 63.54 $\pm$ 0.42 & 21.59 & 5 \\
  200 & derpp+bfp & \textbf{72.21 $\pm$ 0.22} & \textbf{16.69} & 5 \\
  \midrule
  500 & er\textbar{}ace & \textbf{71.17} & \textbf{0.00} & 1 \\
  500 & derpp+bfp & - & nan & 0 \\
  \bottomrule
\end{tabular}
\end{table}
"""

CSV = """
memory,method,FAA,FAA std,FF,seeds
200,er_ace,63.541,0.42,21.59,5
200,derpp+bfp,72.2134567,0.22,16.69,5
500,er|ace,71.17,,-0.001,1
500,derpp+bfp,,,nan,0
"""

SPECIALS = '\\ & % $ # _ { } ~ ^ < > | " ` [x] --x -1 ± × − ≤ ≥ → α β γ Δ σ'


def one_cell(text: str) -> Table:
    return Table(("name",), [(text,)])


def test_markdown_snapshot() -> None:
    assert COMPARISON.to_markdown() == MARKDOWN.lstrip("\n")


def test_latex_snapshot() -> None:
    assert COMPARISON.to_latex(label="tab:main") == LATEX.lstrip("\n")


def test_csv_keeps_numbers_whole_and_apart() -> None:
    assert COMPARISON.to_csv() == CSV.lstrip("\n")


def test_json_keeps_numbers_whole() -> None:
    whole = json.loads(COMPARISON.to_json())
    assert whole["caption"] == COMPARISON.caption
    assert whole["columns"] == list(COMPARISON.columns)
    assert whole["rows"][1]["FAA"] == {"mean": 72.2134567, "std": 0.22}
    assert whole["rows"][2]["FAA"] == {"mean": 71.17, "std": None}
    assert whole["rows"][3] == {
        "memory": 500,
        "method": "derpp+bfp",
        "FAA": None,
        "FF": None,
        "seeds": 0,
    }


def test_numbers_that_print_alike_tie() -> None:
    rows = [("a", 47.449), ("b", 47.451), ("c", 47.44)]
    lines = Table(("m", "x"), rows, best={"x": "max"}).to_markdown().splitlines()
    assert lines[2:] == ["| a | **47.45** |", "| b | **47.45** |", "| c | 47.44 |"]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", r"a\|b"),
        ("*x* `y` <z>", r"\*x\* \`y\` \<z>"),
        ("er_ace _x_", r"er_ace \_x\_"),
        ("[a](b)", r"\[a\](b)"),
        ("two\nlines", "two lines"),
    ],
)
def test_markdown_escapes(text: str, escaped: str) -> None:
    assert one_cell(text).to_markdown().splitlines()[2] == f"| {escaped} |"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("50% of #1 & $2_a", r"50\% of \#1 \& \$2\_a"),
        ("{a}~^\\", r"\{a\}\textasciitilde{}\textasciicircum{}\textbackslash{}"),
        ("[1] --x", "{[}1{]} -{}-x"),
        ("-6.61 ± 0.10", r"$-$6.61 $\pm$ 0.10"),
        ("split-cifar10", "split-cifar10"),
    ],
)
def test_latex_escapes(text: str, escaped: str) -> None:
    assert rf"  {escaped} \\" in one_cell(text).to_latex().splitlines()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on PATH")
def test_latex_compiles(tmp_path: Path) -> None:
    parts = [COMPARISON, one_cell(SPECIALS), Table(("[a]",), [("[b]",)], caption=SPECIALS)]
    document = "\n".join(
        [
            r"\documentclass{article}",
            r"\usepackage{booktabs}",
            r"\begin{document}",
            *(part.to_latex() for part in parts),
            r"\end{document}",
        ]
    )
    (tmp_path / "table.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "table.pdf").stat().st_size > 0


def test_html_escapes_groups_and_keeps_numbers_whole() -> None:
    rows = [
        ("a", "<b>&", Spread(1.23456, 0.5)),
        ("a", "er", Spread(2.0, None)),
        ("b", '"x"', None),
    ]
    table = Table(("group", "name", "FAA"), rows, caption="<c>", best={"FAA": "max"}, group="group")
    text = table.to_html(marked={(0, 1)})
    assert "<caption>&lt;c&gt;</caption>" in text
    assert "<td><mark>&lt;b&gt;&amp;</mark></td>" in text
    assert '<td class="number" data-value="1.23456">1.23 ± 0.50</td>' in text
    assert '<td class="number" data-value="2.0"><strong>2.00</strong></td>' in text
    assert '<td class="number">-</td>' in text
    assert text.count("<tbody>") == 2
    assert text.count("<tr>") == 4


@given(st.text(st.sampled_from("a=+@-\r\n\t \"',;1"), max_size=6))
def test_no_text_starts_a_row_or_a_formula_in_csv(text: str) -> None:
    """However a reader splits lines: at LF, CR or both, quoted or not."""
    lines = Table([f"x{text}"], [[text], ["end"]]).to_csv()
    assert len(re.split(r"\r\n|\r|\n", lines)) == 4
    (cell,) = list(csv.reader(io.StringIO(lines)))[1] or [""]
    assert not re.match(r"\s*([=+@]|-(?![\d.]|$))", cell)
