"""Progress in a notebook, whose display is stood in for: what it shows, and how it moves."""

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import linsep
from linsep.notebook import bar
from linsep.notebook.bar import in_notebook
from tests.helpers.real_runs import SETTINGS

SHOWN = re.compile(r'<progress value="(\d+)" max="(\d+)">')


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The HTML that was displayed, the newest last."""
    found: list[str] = []

    def display(content: dict[str, str], *, raw: bool, display_id: bool = False) -> Any:
        found.append(content["text/html"])
        return SimpleNamespace(update=lambda new, raw: found.append(new["text/html"]))

    ipython, place = ModuleType("IPython"), ModuleType("IPython.display")
    vars(place)["display"] = display
    vars(ipython)["get_ipython"] = lambda: SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", place)
    monkeypatch.setattr(bar, "REFRESH", 0.0)
    return found


def test_the_bar_moves_to_the_end_and_shows_place_and_accuracy(
    shown: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = linsep.train(SETTINGS, runs=tmp_path, progress=True)
    places = [tuple(map(int, SHOWN.search(html).groups())) for html in shown]  # type: ignore[union-attr]
    assert places == sorted(places)
    assert places[0][0] == 0
    assert places[-1][0] == places[-1][1] == 16  # 2 tasks of 40 images, 2 epochs, batches of 10
    assert "task 1/2" in shown[0]
    assert any("task 2/2" in html and "epoch 2/2" in html for html in shown)
    assert f"Class-IL {run.metrics['class_il']['faa']:.2f} % after task 2" in shown[-1]
    assert capsys.readouterr().out == ""


def test_a_terminal_is_no_notebook(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_notebook()
    monkeypatch.setattr("IPython.get_ipython", SimpleNamespace, raising=False)  # IPython's shell
    assert not in_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not in_notebook()
