"""docs/extending-analyses.md, executed: its analysis of a tiny run, its table, its figure."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

import linsep.analysis
import linsep.report
from linsep.analysis.analyse import stored
from linsep.report.gather import load_runs
from linsep.report.page import ANALYSED, sections
from linsep.storage.store import Store
from tests.helpers.analysed_runs import trained
from tests.helpers.command import command

PAGE = Path(__file__).parents[2] / "docs" / "extending-analyses.md"


def test_the_page_s_analysis_runs_and_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    analysis, figure, registry, _, call = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    named = re.findall(r"^`src/linsep/(\w+)/(\w+\.py)`:$", text, re.MULTILINE)
    assert named == [("analysis", "norms.py"), ("report", "draw_norms.py")]
    for (package, name), source in zip(named, (analysis, figure), strict=True):
        folder = tmp_path / package
        folder.mkdir()
        (folder / name).write_text(source)
        module = getattr(linsep, package)
        monkeypatch.setattr(module, "__path__", [*module.__path__, str(folder)])
    entry = ast.literal_eval(f"{{{registry}}}")
    assert entry == {"norms": "norms:NORMS"}
    monkeypatch.setitem(linsep.analysis.ANALYSES, "norms", entry["norms"])
    drawing = import_module("linsep.report.draw_norms")
    section = {"norms": ("Length of the features", drawing.norms)}
    assert '"norms": ("Length of the features", draw_norms.norms),' in text
    monkeypatch.setattr("linsep.report.page.ANALYSED", {**ANALYSED, **section})

    runs = tmp_path / "runs"
    for seed in (0, 1):
        trained(runs, "ft", seed)
    said = command("analyse", "--what", "norms", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "mean length of the features" in said.stdout
    (made,) = [s for s in sections(load_runs(Store(runs).select())) if s.name == "norms"]
    assert made.title == "Length of the features"
    (drawn,) = made.figures
    assert [row[2] for row in drawn.data.rows] == [1.0, 2.0, 3.0]
    assert "mean length" in drawn.svg()

    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "example"}
    exec(compile(call, str(PAGE), "exec"), space)
    (folder, found) = space["folder"], space["found"]
    assert isinstance(folder, Path)
    assert isinstance(found, dict)
    assert found["settings"] == {"power": 1.0}
    assert stored(folder, "norms") == found
