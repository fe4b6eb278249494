"""What a report says, in its order: the answer first, then the evidence, then how to repeat it.

A section is there only if there is data for it. Knows which figures and tables belong together.
Knows nothing of HTML or files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from ..compare.curves import table as tradeoff_table
from ..compare.curves import tradeoff
from ..compare.summaries import differences, notes, summary
from ..compare.tables import Table
from . import (
    draw_accuracy,
    draw_features,
    draw_memory,
    draw_plane,
    draw_projection,
    draw_tradeoff,
    draw_training,
    origin,
    words,
)
from .canvas import Figure, numbered
from .gather import Block, Gathered, Group


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
    recipes: Sequence[origin.Recipe] = field(default=())

    @property
    def sets(self) -> list[tuple[str, list[Figure]]]:
        """Neighbouring figures with one caption, which then is said once."""
        found = groupby(self.figures, key=lambda figure: figure.caption)
        return [(caption, list(figures)) for caption, figures in found]

    @property
    def empty(self) -> bool:
        parts = (self.text, self.tables, self.figures, self.sprites, self.commands, self.recipes)
        return not any(parts)


def sections(gathered: Gathered) -> list[Section]:
    """All that have something to show; figures' names are unique among all of them."""
    made = [make(gathered) for make in SECTIONS]
    found = [section for section in made if section is not None and not section.empty]
    names = iter(numbered([figure for section in found for figure in section.figures]))
    return [replace(s, figures=[next(names) for _ in s.figures]) for s in found]


def _headline(gathered: Gathered) -> Section:
    comparison = gathered.comparison
    tables = [words.named(summary(comparison)), words.named(differences(comparison))]
    said = [n for n in notes(comparison) if "left out" not in n and "goes with" not in n]
    shown = [Shown(table) for table in tables if table.rows]
    lines = ["FAA, ALA: higher is better; FF: lower is better. ±: standard deviation over seeds."]
    return Section("numbers", "Headline numbers", tables=shown, notes=[*lines, *said])


def _run(gathered: Gathered) -> Section:
    table, marked = words.differing(gathered)
    tables = [Shown(table, marked=frozenset(marked))]
    folded = {
        "Settings that all runs share": words.common(gathered),
        "Options of the methods": words.own_options(gathered),
    }
    tables += [Shown(t, fold=title) for title, t in folded.items() if t.rows]
    left = [f"{name}: {why}" for name, why in gathered.left_out]
    text = [words.counted(gathered)]
    if left:
        more = f" and {len(left) - 10} more" if len(left) > 10 else ""
        text.append(f"Left out: {'; '.join(left[:10])}{more}.")
    note = "Marked: not what most have." if marked else ""
    return Section("runs", "What was run", text, tables, notes=[note] if note else [])


def _over_tasks(gathered: Gathered) -> Section:
    figures = _each_block(gathered, draw_accuracy.over_tasks)
    return Section("over-tasks", "Accuracy over tasks", figures=figures)


def _matrices(gathered: Gathered) -> Section:
    figures = _each_group(gathered, draw_accuracy.matrices)
    return Section("matrices", "Accuracy after every task, on every task", figures=figures)


def _forgetting(gathered: Gathered) -> Section:
    figures = _each_block(gathered, draw_accuracy.forgetting)
    return Section("forgetting", "Forgetting", figures=figures)


def _confusion(gathered: Gathered) -> Section:
    figures = _each_group(gathered, draw_accuracy.confusion)
    return Section("confusion", "Who is taken for whom", figures=figures)


def _losses(gathered: Gathered) -> Section:
    figures = _each_block(gathered, draw_training.losses)
    return Section("losses", "Loss terms", figures=figures)


def _spectrum(gathered: Gathered) -> Section:
    figures = [f for block in gathered.blocks for f in draw_features.spectra(block)]
    return Section("spectrum", "Spectrum of the features", figures=figures)


def _probe(gathered: Gathered) -> Section:
    figures = _each_block(gathered, draw_features.probing)
    figures += _each_group(gathered, draw_features.separability)
    return Section("probe", "Linear separability", figures=figures)


def _cka(gathered: Gathered) -> Section:
    figures = _each_block(gathered, draw_features.similarity)
    return Section("cka", "Similarity of features", figures=figures)


def _plane(gathered: Gathered) -> Section:
    figures = draw_plane.planes(list(_groups(gathered)))
    return Section("plane", "Features before and after a task", figures=figures)


def _projection(gathered: Gathered) -> Section:
    figures = [f for g, place in _groups(gathered) for f in draw_projection.projections(g, place)]
    return Section("projection", "The backward projection", figures=figures)


def _tradeoff(gathered: Gathered) -> Section:
    curves = tradeoff(gathered.comparison)
    tables = [Shown(tradeoff_table(curves))] if curves else []
    figures = [draw_tradeoff.tradeoff(curve) for curve in curves]
    return Section("tradeoff", "Stability against plasticity", tables=tables, figures=figures)


def _memory(gathered: Gathered) -> Section:
    figures, sprites = [], []
    for group, place in _groups(gathered):
        found = draw_memory.first_memory(group)
        if found:
            figures.append(draw_memory.composition(group, *found, place))
            made = draw_memory.sprite(group, *found)
            sprites += [made] if made else []
    return Section("memory", "What the memory holds", figures=figures, sprites=sprites)


def _time(gathered: Gathered) -> Section:
    table = draw_training.speed(gathered)
    line = (
        "Seconds of a whole run with its tests and saves, and images of the stream; how fast a "
        "run was says as much of the machine and of its other work as of the method."
    )
    return Section("time", "Time", tables=[Shown(table)] if table else [], notes=[line])


def _audit(gathered: Gathered) -> Section:
    found = words.audit(gathered)
    law = "FAA + (T−1)/T · FF is the mean peak accuracy and so cannot exceed 100."
    said = f"{len(found)} finding{'s' if len(found) > 1 else ''}:" if found else "No finding."
    return Section("audit", "Audit of the metrics", text=[f"{law} {said}", *found[:50]])


def _origin(gathered: Gathered) -> Section:
    table = origin.environments(gathered)
    return Section(
        "origin",
        "Where it ran, and how to run it again",
        tables=[Shown(table)] if table else [],
        commands=origin.install(gathered),
        recipes=origin.recipes(gathered),
    )


SECTIONS: Sequence[Callable[[Gathered], Section]] = (
    _headline, _over_tasks, _run, _matrices, _forgetting, _confusion, _losses, _spectrum, _probe,
    _cka, _plane, _projection, _tradeoff, _memory, _time, _audit, _origin,
)  # fmt: skip


def _each_block(gathered: Gathered, make: Callable[[Block], Figure | None]) -> list[Figure]:
    return _known(map(make, gathered.blocks))


def _each_group(gathered: Gathered, make: Callable[[Group, str], Figure | None]) -> list[Figure]:
    return _known(make(group, place) for group, place in _groups(gathered))


def _groups(gathered: Gathered) -> Iterator[tuple[Group, str]]:
    for block in gathered.blocks:
        for group in block.groups:
            yield group, block.title


def _known(made: Iterable[Figure | None]) -> list[Figure]:
    return [figure for figure in made if figure is not None]
