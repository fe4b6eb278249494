"""Progress as it is drawn at ordinary widths of a terminal."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from linsep import testing
from linsep.cli.grid import picture
from linsep.cli.progress import Line, Lines, Watcher, cost_of_testing
from linsep.grids.plan import Cell
from linsep.grids.worker import Report
from linsep.learning.run import ChunkEnd, EpochEnd, Run, StepEnd, TaskEnd
from linsep.learning.workload import Workload
from linsep.methods import assemble

WIDTHS = (80, 100, 160)
PLACES = ["task 1/5  epoch 1/5", "task 10/10  bias epoch 100/100", "task 9/9  testing 9999/9999"]
NOTES = ["ce 0.431", "replay_logits 11.885", "replay_ce 1.303", "bfp 0.208", "1210 images/s"]


def drawn(shown: Any, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("share", "place"), [(0.0, PLACES[0]), (0.5, PLACES[1]), (1.0, PLACES[2])])
def test_a_run_shows_bar_percentage_time_and_place(width: int, share: float, place: str) -> None:
    (line,) = drawn(Line(share, "12:34:56 left", place, NOTES), width)
    assert len(line) <= width
    bar, rest = line.split("  ", 1)
    assert len(bar) >= 8
    assert set(bar) <= set("━─")
    assert abs(bar.count("━") / len(bar) - share) <= 1 / len(bar)
    assert rest.lstrip().startswith(f"{share:.0%}  12:34:56 left  {place}")
    notes = rest.split(place)[1].split("  ")[1:]
    assert notes == NOTES[: len(notes)]  # whole ones, in order
    if width == 160:
        assert notes[:3] == NOTES[:3]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_grid_never_cuts_a_name(width: int) -> None:
    names = ["fashion-mini-er-m200-s0-0123456789", "split-tinyimagenet-derpp+bfp-m5120-s10-abcdef"]
    rows = [(name, Line(0.5, "", "task 2/10  epoch 3/50", ["99 images/s"])) for name in names]
    lines = drawn(Lines(rows, "2 running"), width)
    assert max(map(len, lines)) <= width
    for name in names:
        assert sum(name in line for line in lines) == 1
    assert sum(" 50%  task 2/10  epoch 3/50" in line for line in lines) == 2
    assert lines[-1] == "2 running"
    assert len(lines) == (3 if width > 80 else 5)


def test_a_grid_shows_where_its_runs_are() -> None:
    place = "task 1/5  testing 7/9"
    cell = Cell({}, "a-run", Path("a-run"), Report("running", share=0.3, place=place))
    assert any("30%  task 1/5  testing 7/9" in line for line in drawn(picture([cell], 1), 80))


@pytest.mark.parametrize("width", WIDTHS)
def test_a_watched_run_is_complete_only_at_its_end(width: int) -> None:
    run = testing.toy_run(assemble("derpp+bfp", {}))
    console = Console(file=io.StringIO(), width=width, force_terminal=True)
    watcher, shares, tested = Watcher(run, console), [0.0], 0
    for event in run:
        watcher.see(event)
        if not isinstance(event, StepEnd | ChunkEnd):
            continue
        (line,) = drawn(watcher.line(event), width)
        assert len(line) <= width
        found = re.search(r"(\d+)%  \d+:\d\d left  task (\d)/3  (epoch \d/2|testing \d+/\d+)", line)
        assert found, line
        assert ("testing" in found[3]) == isinstance(event, ChunkEnd)
        shares.append(watcher.line(event).share)
        tested += isinstance(event, ChunkEnd)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert shares.count(1.0) == 1
    assert tested == 1 + 2 + 3  # groups, of a chunk each


def test_what_is_left_counts_testing_at_its_own_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 1 s a step and 10 s a chunk of test images, the seconds left are those to come."""
    run, now = testing.toy_run(assemble("ft", {})), [0.0]
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
    assert work.tested() == sum(e.total for e in events if isinstance(e, ChunkEnd) and _last(e))
    if method in ("ft", "jt"):  # other methods choose rows from a memory
        steps = [e for e in events if isinstance(e, StepEnd)]
        assert work.steps() == len(steps)
    assert run.passes() == (work.passes(), work.passes())


def _last(event: ChunkEnd) -> bool:
    return event.images == event.total


def _workload(trained: int, tested: int) -> Workload:
    return Workload(((trained,),), (1,), (tested,), 1)


def test_testing_that_outweighs_training_is_said_in_advance() -> None:
    """500 images for 2 epochs, and 30 000 tested: 3 passes for a trained one make 91 %."""
    (line,) = cost_of_testing([_workload(1000, 30_000)])
    assert "30000 images" in line
    assert "training 1000" in line
    assert "91%" in line
    assert "--test-per-class" in line
    assert cost_of_testing([_workload(30_000, 1000)]) == []
    assert cost_of_testing([]) == []


@pytest.fixture
def stopped() -> Callable[[int], Run]:
    """A run that has tested so many chunks after its last task."""

    def make(chunks: int) -> Run:
        run = testing.toy_run(assemble("ft", {}))
        for event in run:
            if isinstance(event, ChunkEnd) and event.task == 2:
                chunks -= 1
                if not chunks:
                    break
        return run

    return make


def test_a_run_stopped_while_testing_resumes_there(stopped: Callable[[int], Run]) -> None:
    straight = testing.toy_run(assemble("ft", {}))
    list(straight)
    for chunks in (1, 2, 3):
        run = testing.toy_run(assemble("ft", {}))
        run.load_state_dict(stopped(chunks).state_dict())
        assert sum(isinstance(event, ChunkEnd) for event in run) == 3 - chunks
        assert testing.same(run.state_dict(), straight.state_dict())
