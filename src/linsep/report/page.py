"""The report: its sections in order, and the one HTML page they make, which needs nothing else.

A section is there only if there is data for it: first the answer, then the evidence, then how to
repeat it. Text reaches the page through jinja2, which escapes it; figures' SVG and tables' HTML
escape theirs. A Content-Security-Policy lets the browser load nothing from anywhere.
"""

import base64
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.resources import files
from itertools import groupby

from .. import __version__
from ..compare.naming import is_bound
from ..compare.summaries import differences, notes, summary
from ..compare.tables import Table
from ..compare.tradeoffs import curve_table, tradeoff
from ..learning.metrics import COSTS
from ..optional import needed
from . import draw_accuracy, draw_comparison, draw_features, draw_heads, draw_memory, words
from .canvas import Figure, Room, numbered, swatch
from .gather import LoadedRuns
from .style import clean

Drawn = Iterable[Figure | None]
# Of each analysis the title of its section, and its figures.
ANALYSED: Mapping[str, tuple[str, Callable[[LoadedRuns], Drawn]]] = {
    "spectrum": ("Spectrum of the features", draw_features.spectrum),
    "probe": ("Linear separability", draw_heads.probe),
    "cka": ("Similarity of features", lambda found: map(draw_features.cka, found.blocks)),
    "tsne": ("Features before and after a task", draw_features.tsne),
    "projection": ("Backward projection", draw_heads.projection),
    "drift": ("Drift of features", lambda found: map(draw_features.drift, found.blocks)),
}


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
    recipes: Sequence[words.Recipe] = ()

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


def page(loaded: LoadedRuns) -> str:
    """The report of these runs; the same runs give the same bytes."""
    needed("matplotlib", "a report")
    jinja2 = needed("jinja2", "a report")
    made = sections(loaded)
    script = _text("report.js")
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    safe = jinja2.utils.markupsafe.Markup
    whole = environment.from_string(_text("template.html.j2")).render(
        title=title(loaded),
        version=__version__,
        lead=words.lead(loaded),
        sections=made,
        legend=loaded.legend,
        swatch=lambda look: safe(swatch(look)),
        style=safe(_text("report.css")),
        script=safe(script),
        script_hash=f"sha256-{digest}",  # the one script that may run
        data=packed({figure.name: figure.data.to_csv() for s in made for figure in s.figures}),
        svg=lambda figure: safe(figure.svg()),
        table=lambda shown: safe(shown.table.to_html(marked=shown.marked)),
    )
    return str(whole)


def figures(loaded: LoadedRuns) -> Sequence[Figure]:
    """Every figure of the page."""
    needed("matplotlib", "a report")
    return [figure for section in sections(loaded) for figure in section.figures]


def title(loaded: LoadedRuns) -> str:
    methods = list(dict.fromkeys(variant.label for variant in loaded.variants))
    shown = ", ".join(methods[:5]) + (f" and {len(methods) - 5} more" if len(methods) > 5 else "")
    return clean(f"{loaded.scenarios}: {shown}", 160)


def packed(data: dict[str, str]) -> str:
    """Texts by name, deflated to a third of their size, in base64, which needs no escapes."""
    text = json.dumps(data, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


# --- sections ------------------------------------------------------------------------------------


def sections(loaded: LoadedRuns) -> list[Section]:
    """All that have something to show; figures' names are unique among all of them."""
    found = [section for section in _all(loaded) if not section.empty]
    figures = iter(numbered([figure for section in found for figure in section.figures]))
    return [replace(s, figures=[next(figures) for _ in s.figures]) for s in found]


def _all(loaded: LoadedRuns) -> Iterator[Section]:
    blocks, variants = loaded.blocks, loaded.variants
    yield _headline(loaded)
    yield _drawn("over-tasks", "Accuracy over tasks", map(draw_accuracy.over_tasks, blocks))
    yield _drawn("forgetting", "Forgetting", map(draw_accuracy.forgetting, blocks))
    yield _runs(loaded)
    yield _drawn("matrices", "Accuracy matrices", map(draw_accuracy.matrices, variants))
    yield _drawn("confusion", "Confusion matrices", map(draw_accuracy.confusion, variants))
    yield _drawn("losses", "Loss terms", map(draw_accuracy.losses, blocks))
    for name, (heading, draw) in ANALYSED.items():
        if any(name in run.analyses for run in loaded.runs):
            yield _drawn(name, heading, draw(loaded))
    curves = tradeoff(loaded.comparison)
    over_weights = [curve_table(curves)] if curves else []
    drawn = map(draw_comparison.tradeoff, curves)
    yield _drawn("tradeoff", "Stability against plasticity", drawn, over_weights)
    yield _cost(loaded)
    yield _memory(loaded)
    yield _drawn("time", "Time", [], [words.speed(loaded)], [
        "Seconds of a whole run, its tests and saves included, and images of the stream. They "
        "depend on the machine and on its other work as much as on the method."
    ])  # fmt: skip
    yield _audit(loaded)
    s = "s" if len(loaded.runs) > 1 else ""
    yield replace(
        _drawn(
            "origin", f"Environment{s} and command{s} to repeat the run{s}", [],
            [words.environments(loaded)],
        ),
        commands=words.install(loaded),
        recipes=words.recipes(loaded),
    )  # fmt: skip


def _drawn(
    name: str,
    title: str,
    figures: Drawn,
    tables: Iterable[Table | None] = (),
    notes: Sequence[str] = (),
) -> Section:
    """A section of those figures and tables that there is data for."""
    shown = [Shown(table) for table in tables if table is not None and table.rows]
    drawn = [figure for figure in figures if figure is not None]
    return Section(name, title, tables=shown, figures=drawn, notes=notes)


def _headline(loaded: LoadedRuns) -> Section:
    comparison = loaded.comparison
    several = any(len(variant.runs) > 1 for variant in comparison.variants)
    tables = [Shown(words.named(summary(comparison, intervals=several)))]
    gains = words.named(differences(comparison))
    if gains.rows:
        tables.append(Shown(gains, fold="Paired differences with tests"))
    said = [n for n in notes(comparison) if "left out" not in n and "goes with" not in n]
    text = (
        "In Class-IL the task of a test image is not given; in Task-IL it is. Higher is better for "
        "FAA and ALA, lower for FF."
    )
    text += " The ± is the standard deviation over seeds." if several else ""
    if any(is_bound(variant.method) for variant in comparison.variants):
        text += " JT trains on all tasks at once: a bound, which is not ranked with the others."
    figures = draw_comparison.gains(loaded)
    return Section("numbers", "Results", [text], tables, figures, notes=said)


def _runs(loaded: LoadedRuns) -> Section:
    table, marked = words.differing(loaded)
    folded = {
        "Settings that all runs share" if len(loaded.runs) > 1 else "Settings of the run":
            words.common(loaded),
        "Options of the methods" if len(loaded.variants) > 1 else "Options of the method":
            words.own_options(loaded),
    }  # fmt: skip
    tables = [Shown(table, marked=frozenset(marked))] if len(loaded.variants) > 1 else []
    tables += [Shown(t, fold=title) for title, t in folded.items() if t.rows]
    text = [words.counted(loaded)]
    left = [f"{name}: {why}" for name, why in loaded.left_out]
    if left:
        more = f" and {len(left) - 10} more" if len(left) > 10 else ""
        text.append(f"Left out: {'; '.join(left[:10])}{more}.")
    note = ["Marked cells differ from what most variants have."] if marked else []
    return Section("runs", "Runs and settings", text, tables, notes=note)


def _cost(loaded: LoadedRuns) -> Section:
    table = words.costs(loaded)
    meaning = [
        f"{name.rpartition('.')[2]}: {text}"
        for name, text in COSTS.items()
        if any(variant.variant.values("cost", name) for variant in loaded.variants)
    ]
    note = f"{'; '.join(meaning)}. A pass backward counts as two forward; tests do not count."
    figures = map(draw_comparison.cost, loaded.blocks)
    return _drawn("cost", "Cost", figures, [table], [note] if table else [])


def _memory(loaded: LoadedRuns) -> Section:
    found = [
        (variant, *first)
        for variant in loaded.variants
        if (first := draw_memory.first_memory(variant))
    ]
    figures = [draw_memory.composition(*one) for one in found]
    sprites = [made for one in found if (made := draw_memory.sprite(*one))]
    return Section("memory", "Contents of the memory", figures=figures, sprites=sprites)


def _audit(loaded: LoadedRuns) -> Section:
    found = words.audit(loaded)
    law = "FAA + (T−1)/T · FF is the mean peak accuracy and so cannot exceed 100."
    said = f"{len(found)} finding{'s' if len(found) > 1 else ''}:" if found else "No finding."
    return Section("audit", "Audit of the metrics", text=[f"{law} {said}", *found[:50]])
