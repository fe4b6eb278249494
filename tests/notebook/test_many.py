"""Several runs in Python: the same selection, comparison and report as on the command line."""

import re
from base64 import b64decode
from html import unescape
from pathlib import Path

import pytest

import linsep
from linsep.compare.summaries import summary
from tests.helpers.command import command
from tests.helpers.made_runs import make_run
from tests.helpers.real_runs import PROTOCOLS


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for method, faa in (("er", 50.0), ("er+bfp", 60.0)):
        for seed in range(3):
            make_run(tmp_path / "runs", method, seed, faa + seed)
    make_run(tmp_path / "runs", "ft")
    return tmp_path / "runs"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> linsep.Runs:
    runs = tmp_path_factory.mktemp("trained")
    for method in ("er", "er+bfp"):
        for seed in range(2):
            linsep.train({**PROTOCOLS, "method": method, "seed": seed}, runs=runs)
    return linsep.runs(runs=runs)


def test_it_is_a_list_selected_and_sorted_as_by_linsep_runs(runs: Path) -> None:
    found = linsep.runs(where="method in (er, er+bfp) and faa > 50", sort="-faa", runs=runs)
    assert [run.metrics["class_il"]["faa"] for run in found] == [62, 61, 60, 52, 51]
    assert isinstance(found[:2], linsep.Runs)
    assert [run.name for run in found[:2]] == [run.name for run in list(found)[:2]]
    assert len(linsep.runs(runs=str(runs))) == 7
    with pytest.raises(linsep.LinsepError, match="unknown field 'metod'"):
        linsep.runs(where="metod=er", runs=runs)
    assert len(linsep.runs(runs=runs / "nowhere")) == 0


def test_a_comparison_is_that_of_linsep_compare(runs: Path) -> None:
    compared = linsep.runs(runs=runs).compare()
    said = command("compare", "--format", "markdown", cwd=runs.parent).stdout
    assert said.startswith(summary(compared.comparison, intervals=False).to_markdown())
    assert compared.differences.to_markdown() in said
    assert all(note in said for note in compared.notes)
    assert repr(compared) == "Compared(er, er+bfp)"
    assert "ER + BFP" in str(compared)
    assert compared._repr_html_().count("<table>") == 2


@pytest.mark.slow
def test_the_report_is_that_of_linsep_report(trained: linsep.Runs, tmp_path: Path) -> None:
    report = trained.report(tmp_path / "new" / "mine.html")
    folder = str(trained[0].folder.parent)
    command("report", "--runs", folder, "-o", str(tmp_path / "theirs.html"), cwd=tmp_path)
    content = Path(report).read_text("utf-8")
    assert content == (tmp_path / "theirs.html").read_text("utf-8")

    frame = report._repr_html_()
    (shown,) = re.findall(r'srcdoc="([^"]*)"', frame)
    assert unescape(shown) == content
    assert 'sandbox="allow-scripts allow-downloads"' in frame  # its own origin, no notebook
    report.path.unlink()
    with pytest.raises(linsep.LinsepError, match=r"cannot read .*mine\.html"):
        report._repr_html_()


def test_a_notebook_shows_comparisons_as_tables_and_a_picture(
    trained: linsep.Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    compared = trained.compare()
    html = compared._repr_html_()
    assert html.count("<table>") == 2
    (data,) = re.findall(r'<img alt="[^"]{20,}" src="data:image/png;base64,([^"]+)">', html)
    assert b64decode(data).startswith(b"\x89PNG")
    monkeypatch.setattr("linsep.notebook.saved.find_spec", lambda name: None)
    assert "<img" not in compared._repr_html_()
    assert compared._repr_html_().count("<table>") == 2


def test_plot_draws_each_methods_average(trained: linsep.Runs) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    axes = trained.plot()
    finals = {line.get_label(): line.get_ydata()[-1] for line in axes.get_lines()}
    faa = [run.metrics["class_il"]["faa"] or 0.0 for run in trained]
    expected = {"ER + BFP": (faa[0] + faa[1]) / 2, "ER": (faa[2] + faa[3]) / 2}
    assert finals == pytest.approx(expected)
    with pytest.raises(linsep.LinsepError, match="unknown protocol 'task'"):
        trained.plot("task")
    pyplot.close("all")


def test_a_frame_has_a_row_for_each_run(runs: Path) -> None:
    pytest.importorskip("pandas")
    found = linsep.runs(runs=runs)
    frame = found.to_pandas()
    assert list(frame.index) == [run.name for run in found]
    assert frame.groupby("method")["class_il.faa"].mean()["er+bfp"] == 61
    long = found.compare().to_pandas()
    row = long[(long.method == "er+bfp") & (long.metric == "faa") & (long.protocol == "class_il")]
    assert row["difference"].item() == 10
