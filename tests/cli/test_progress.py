"""Progress in a terminal and in a notebook, and what it counts."""

import io
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import linsep
from linsep import testing
from linsep.cli.progress import Bar, Watcher, cost_of_testing, drawn
from linsep.learning.cost import Workload
from linsep.learning.run import ChunkEnd, EpochEnd, Run, StepEnd, TaskEnd
from linsep.methods import assemble
from tests.helpers.real_runs import PROTOCOLS

NAMES = ["fashion-mini-er-m200-s0-0123456789", "split-tinyimagenet-derpp+bfp-m5120-s10-abcdef"]


def printed(shown: Any, width: int = 100) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_bars_fit_and_never_cut_a_name() -> None:
    for width in (80, 160):
        bars = [Bar(name, 0.5, "task 2/10  epoch 3/50  [bold] 0.431") for name in NAMES]
        lines = printed(drawn(bars), width)
        assert [line.split()[0] for line in lines] == NAMES
        assert max(map(len, lines)) <= width
        assert all(" 50%" in line for line in lines)
        assert all("[bold] 0.431" in line for line in lines) == (width == 160)


def by_groups(method: str) -> Run:
    """A toy run whose chunks of test images are its groups."""
    return testing.toy_run(assemble(method, {}), evaluation={"chunk": 8})


def test_a_watched_run_is_complete_only_at_its_end() -> None:
    run = by_groups("derpp+bfp")
    watcher = Watcher(run, Console(file=io.StringIO(), force_terminal=True))
    shares, tested = [0.0], 0
    for event in run:
        watcher.see(event)
        if not isinstance(event, StepEnd | ChunkEnd):
            continue
        bar = watcher.line(event)
        place = re.match(r"\d+:\d\d left  task \d/3  (epoch \d/2|testing \d+/\d+)", bar.text)
        assert place, bar.text
        assert ("testing" in place[1]) == isinstance(event, ChunkEnd)
        shares.append(bar.share)
        tested += isinstance(event, ChunkEnd)
    assert shares == sorted(shares)
    assert shares.count(1.0) == 1
    assert tested == 1 + 2 + 3  # groups, of a chunk each


def test_what_is_left_counts_testing_at_its_own_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 1 s a step and 10 s a chunk of test images, the seconds left are those to come."""
    run, now = by_groups("ft"), [0.0]
    monkeypatch.setattr("linsep.cli.progress.time.monotonic", lambda: now[0])
    watcher = Watcher(run, Console(file=io.StringIO(), quiet=True))
    moments: list[tuple[float, float]] = []
    for event in run:
        now[0] += {StepEnd: 1.0, ChunkEnd: 10.0, EpochEnd: 0.0, TaskEnd: 0.0}[type(event)]
        watcher.see(event)
        moments.append((now[0], watcher._pace()[1]))
    for moment, left in moments[-len(moments) // 2 :]:
        assert left == pytest.approx(now[0] - moment, rel=0.15, abs=2)


@pytest.mark.parametrize("method", ["ft", "jt", "bic", "gdumb"])
def test_a_workload_is_what_a_run_then_does(method: str) -> None:
    run = testing.toy_run(assemble(method, {}))
    work, events = run.workload, list(run)
    chunks = [e for e in events if isinstance(e, ChunkEnd)]
    assert work.tested() == sum(e.total for e in chunks if e.images == e.total)
    if method in ("ft", "jt"):  # other methods choose rows from a memory
        steps = [e for e in events if isinstance(e, StepEnd)]
        assert work.steps() == len(steps)
    assert run.passes() == (work.passes(), work.passes())


def _workload(trained: int, tested: int) -> Workload:
    return Workload(((trained,),), (1,), (tested,), 1)


def test_testing_that_outweighs_training_is_said_in_advance() -> None:
    """500 images for 2 epochs, and 30 000 tested: 3 passes for a trained one make 91 %."""
    (line,) = cost_of_testing([_workload(1000, 30_000)])
    assert "30000 images" in line
    assert "training on 1000" in line
    assert "91%" in line
    assert "--test-per-class" in line
    assert cost_of_testing([_workload(30_000, 1000)]) == []
    assert cost_of_testing([]) == []


def test_a_run_stopped_while_testing_resumes_there() -> None:
    straight = by_groups("ft")
    list(straight)
    for chunks in (1, 2, 3):
        stopped, resumed = by_groups("ft"), by_groups("ft")
        tested = (e for e in stopped if isinstance(e, ChunkEnd) and e.task == 2)
        for _ in range(chunks):
            next(tested)
        resumed.load_state_dict(stopped.state_dict())
        assert sum(isinstance(event, ChunkEnd) for event in resumed) == 3 - chunks
        assert testing.same(resumed.state_dict(), straight.state_dict())


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The HTML that a notebook displayed, the newest last."""
    found: list[str] = []

    def display(content: dict[str, str], *, raw: bool, display_id: bool = False) -> Any:
        found.append(content["text/html"])
        return SimpleNamespace(update=lambda new, raw: found.append(new["text/html"]))

    ipython, place = ModuleType("IPython"), ModuleType("IPython.display")
    vars(place)["display"] = display
    vars(ipython)["get_ipython"] = lambda: SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", place)
    monkeypatch.setattr("linsep.cli.progress.REFRESH", 0.0)
    return found


def test_a_notebooks_bar_moves_to_the_end_and_shows_place_and_accuracy(
    shown: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    linsep.train(PROTOCOLS, runs=tmp_path / "silent")
    assert shown == []
    run = linsep.train(PROTOCOLS, runs=tmp_path, progress=True)
    shares = [float(re.findall(r'<progress value="([.0-9]+)" max="1">', h)[0]) for h in shown]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    assert any("task 2/2 &nbsp; epoch 2/2" in html for html in shown)
    assert f"after task 2: Class-IL {run.metrics['class_il']['faa']:.2f} %" in shown[-1]
    assert "&lt;" in Bar("", 0, "<").html()
    assert capsys.readouterr().out == ""
