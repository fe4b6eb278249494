"""The sections of a report in order: the answer, the evidence, and how to repeat it.

A section is there only if there is data for it. Knows which figures and tables belong together.
Knows nothing of HTML or files.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import groupby

from ..analysis import ANALYSES
from ..compare.curves import table as tradeoff_table
from ..compare.curves import tradeoff
from ..compare.summaries import differences, notes, summary
from ..compare.tables import Table
from ..compare.titles import is_bound
from ..learning.metrics import COSTS
from . import (
    draw_accuracy,
    draw_cost,
    draw_gains,
    draw_memory,
    draw_tradeoff,
    draw_training,
    origin,
    words,
)
from .canvas import Figure, Room, numbered
from .gather import Gathered


@dataclass(frozen=True)
class Shown:
    """A table on the page: perhaps folded under a title, perhaps with some cells marked."""

    table: Table
    fold: str = ""
    marked: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    text: Sequence[str] = ()
    tables: Sequence[Shown] = ()
    figures: Sequence[Figure] = ()
    sprites: Sequence[draw_memory.Sprite] = ()
    notes: Sequence[str] = ()  # small print
    commands: Sequence[str] = ()
    recipes: Sequence[origin.Recipe] = ()

    @property
    def sets(self) -> list[tuple[str, Room, list[Figure]]]:
        """Neighbouring figures that share a caption, which is then shown once."""
        found = groupby(self.figures, key=lambda figure: (figure.caption, figure.room))
        return [(caption, room, list(figures)) for (caption, room), figures in found]

    @property
    def narrow(self) -> bool:
        """Whether half the page is enough, as for many sections about a single run."""
        small = [figure.room == "third" for figure in self.figures]
        lines = [len(shown.table.rows) == 1 for shown in self.tables]
        return [*small, *lines] == [True] and not self.recipes

    @property
    def empty(self) -> bool:
        parts = (self.text, self.tables, self.figures, self.sprites, self.commands, self.recipes)
        return not any(parts)


def sections(gathered: Gathered) -> list[Section]:
    """All that have something to show; figures' names are unique among all of them."""
    found = [section for section in _all(gathered) if not section.empty]
    figures = iter(numbered([figure for section in found for figure in section.figures]))
    return [replace(s, figures=[next(figures) for _ in s.figures]) for s in found]


def _all(gathered: Gathered) -> Iterator[Section]:
    def drawn(name: str, title: str, made: Iterable[Figure | None]) -> Section:
        return Section(name, title, figures=[figure for figure in made if figure is not None])

    blocks, arms = gathered.blocks, gathered.arms
    yield _headline(gathered)
    yield drawn("over-tasks", "Accuracy over tasks", map(draw_accuracy.over_tasks, blocks))
    yield drawn("forgetting", "Forgetting", map(draw_accuracy.forgetting, blocks))
    yield _runs(gathered)
    yield drawn("matrices", "Accuracy matrices", map(draw_accuracy.matrices, arms))
    yield drawn("confusion", "Confusion matrices", map(draw_accuracy.confusion, arms))
    yield drawn("losses", "Loss terms", map(draw_training.losses, blocks))
    for name in ANALYSES:
        if any(name in run.analyses for run in gathered.runs):
            drawing = import_module(f".draw_{name}", __package__)
            yield drawn(name, drawing.TITLE, drawing.figures(gathered))
    yield _tradeoff(gathered)
    yield _cost(gathered)
    yield _memory(gathered)
    yield _time(gathered)
    yield _audit(gathered)
    s = "s" if len(gathered.runs) > 1 else ""
    yield Section(
        "origin",
        f"Environment{s} and command{s} to repeat the run{s}",
        tables=_shown(origin.environments(gathered)),
        commands=origin.install(gathered),
        recipes=origin.recipes(gathered),
    )


def _headline(gathered: Gathered) -> Section:
    comparison = gathered.comparison
    several = any(len(arm.runs) > 1 for arm in comparison.arms)
    tables = _shown(words.named(summary(comparison, intervals=several)))
    gains = words.named(differences(comparison))
    if gains.rows:
        tables.append(Shown(gains, fold="Paired differences with tests"))
    said = [n for n in notes(comparison) if "left out" not in n and "goes with" not in n]
    text = (
        "In Class-IL the task of a test image is not given; in Task-IL it is. Higher is better for "
        "FAA and ALA, lower for FF."
    )
    text += " The ± is the standard deviation over seeds." if several else ""
    if any(is_bound(arm.method) for arm in comparison.arms):
        text += " JT trains on all tasks at once: a bound, which is not ranked with the others."
    figures = draw_gains.figures(gathered)
    return Section("numbers", "Results", [text], tables, figures, notes=said)


def _runs(gathered: Gathered) -> Section:
    table, marked = words.differing(gathered)
    folded = {
        "Settings that all runs share" if len(gathered.runs) > 1 else "Settings of the run":
            words.common(gathered),
        "Options of the methods" if len(gathered.arms) > 1 else "Options of the method":
            words.own_options(gathered),
    }  # fmt: skip
    tables = [Shown(table, marked=frozenset(marked))] if len(gathered.arms) > 1 else []
    tables += [Shown(t, fold=title) for title, t in folded.items() if t.rows]
    text = [words.counted(gathered)]
    left = [f"{name}: {why}" for name, why in gathered.left_out]
    if left:
        more = f" and {len(left) - 10} more" if len(left) > 10 else ""
        text.append(f"Left out: {'; '.join(left[:10])}{more}.")
    note = ["Marked cells differ from what most arms have."] if marked else []
    return Section("runs", "Runs and settings", text, tables, notes=note)


def _tradeoff(gathered: Gathered) -> Section:
    curves = tradeoff(gathered.comparison)
    tables = _shown(tradeoff_table(curves)) if curves else []
    figures = [draw_tradeoff.tradeoff(curve) for curve in curves]
    return Section("tradeoff", "Stability against plasticity", tables=tables, figures=figures)


def _cost(gathered: Gathered) -> Section:
    tables = _shown(draw_cost.table(gathered))
    meaning = [
        f"{name.rpartition('.')[2]}: {text}"
        for name, text in COSTS.items()
        if any(arm.arm.values("cost", name) for arm in gathered.arms)
    ]
    notes = [f"{'; '.join(meaning)}. A pass backward counts as two forward; tests do not count."]
    return Section(
        "cost", "Cost", tables=tables, figures=draw_cost.figures(gathered),
        notes=notes if tables else [],
    )  # fmt: skip


def _memory(gathered: Gathered) -> Section:
    found = [(arm, *first) for arm in gathered.arms if (first := draw_memory.first_memory(arm))]
    figures = [draw_memory.composition(*one) for one in found]
    sprites = [made for one in found if (made := draw_memory.sprite(*one))]
    return Section("memory", "Contents of the memory", figures=figures, sprites=sprites)


def _time(gathered: Gathered) -> Section:
    note = (
        "Seconds of a whole run, its tests and saves included, and images of the stream. They "
        "depend on the machine and on its other work as much as on the method."
    )
    return Section("time", "Time", tables=_shown(draw_training.speed(gathered)), notes=[note])


def _audit(gathered: Gathered) -> Section:
    found = words.audit(gathered)
    law = "FAA + (T−1)/T · FF is the mean peak accuracy and so cannot exceed 100."
    said = f"{len(found)} finding{'s' if len(found) > 1 else ''}:" if found else "No finding."
    return Section("audit", "Audit of the metrics", text=[f"{law} {said}", *found[:50]])


def _shown(*tables: Table | None) -> list[Shown]:
    return [Shown(table) for table in tables if table is not None and table.rows]
