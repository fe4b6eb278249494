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
from datetime import date
from functools import partial
from hashlib import sha256
from importlib.resources import files
from itertools import groupby
from typing import Any

from .. import __version__
from ..compare.summaries import notes, per_class
from ..compare.tables import Table
from ..compare.tradeoffs import curve_table, tradeoff
from ..learning.metrics import PROTOCOLS, REPORTED
from ..optional import needed
from . import answer, draw_accuracy, draw_comparison, draw_features, words
from .canvas import Figure, Look, Room, numbered
from .gather import LoadedRuns, VariantRuns

Drawn = Iterable[Figure | None]
# Of each analysis the title of its section, and its figures.
ANALYSED: Mapping[str, tuple[str, Callable[[LoadedRuns], Drawn]]] = {
    "spectrum": ("Spectrum of the features", draw_features.spectrum),
    "probe": ("Linear separability", draw_features.probe),
    "cka": ("Similarity of features", partial(draw_comparison.over_tasks, "cka")),
    "tsne": ("Features before and after a task", draw_features.tsne),
    "projection": ("Backward projection", draw_features.projection),
    "drift": ("Drift of features", partial(draw_comparison.over_tasks, "drift")),
    "transfer": ("Forward transfer", partial(draw_comparison.over_tasks, "transfer")),
}


@dataclass(frozen=True)
class Shown:
    """A table on the page: perhaps folded under a title, with a note, or with cells marked."""

    table: Table
    note: str = ""
    fold: str = ""
    marked: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    figures: Sequence[Figure] = ()
    tables: Sequence[Shown] = ()
    text: Sequence[str] = ()
    points: Sequence[str] = ()
    results: bool = False  # whether it starts with the table of results, in tabs
    sprites: Sequence[draw_accuracy.Sprite] = ()
    commands: Sequence[str] = ()
    recipes: Sequence[words.Recipe] = ()
    folded: bool = False

    @property
    def sets(self) -> list[tuple[str, Room, list[Figure]]]:
        """Neighbouring figures that share a caption, which is then shown once."""
        found = groupby(self.figures, key=lambda figure: (figure.caption, figure.room))
        return [(caption, room, list(figures)) for (caption, room), figures in found]

    @property
    def empty(self) -> bool:
        shown = self.text, self.results, self.tables, self.figures, self.sprites
        return not any((*shown, self.commands, self.recipes))


def page(loaded: LoadedRuns) -> str:
    """The report of these runs; the same runs give the same bytes on the same day."""
    needed("matplotlib", "a report")
    jinja2 = needed("jinja2", "a report")
    made, today = sections(loaded), date.today()
    script = text("report.js")
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    safe = jinja2.utils.markupsafe.Markup
    whole = environment.from_string(text("template.html.j2")).render(
        title=answer.question(loaded),
        date=f"{today.day} {today:%B %Y}",
        byline=answer.byline(loaded),
        terms=answer.terms(loaded),
        answers=answer.answers(loaded),
        version=__version__,
        sections=made,
        loaded=loaded,
        protocols=PROTOCOLS,
        answer=answer,
        columns={p: [answer.column(loaded, p, m) for m in REPORTED] for p in PROTOCOLS},
        legend=loaded.legend,
        swatch=lambda look: safe(_swatch(look)),
        style=safe(text("report.css")),
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


def packed(data: dict[str, str]) -> str:
    """Texts by name, deflated to a third of their size, in base64, which needs no escapes."""
    text = json.dumps(data, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _swatch(look: Look) -> str:
    """A line and its marker, as legends show them, as a small SVG."""
    from matplotlib.markers import MarkerStyle

    shape = MarkerStyle(look.marker)
    path = shape.get_path().transformed(shape.get_transform())
    scale = 4.4 / max(abs(v) for v in path.get_extents().get_points().ravel())
    outline: Any = path.to_polygons()[0]
    points = "L".join(f"{14 + scale * x:.2f} {6 - scale * y:.2f}" for x, y in outline)
    dashes = {"--": "6 3", ":": "2 3", "-.": "6 3 2 3"}.get(look.dash, "none")
    return (
        f'<svg width="28" height="12" viewBox="0 0 28 12" aria-hidden="true"><path d="M0 6H28" '
        f'stroke="{look.on_page}" stroke-width="2" stroke-dasharray="{dashes}"/>'
        f'<path d="M{points}Z" fill="{look.on_page}"/></svg>'
    )


def text(name: str) -> str:
    """A file of this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


# --- sections ------------------------------------------------------------------------------------


def sections(loaded: LoadedRuns) -> list[Section]:
    """All that have something to show; figures' names are unique among all of them."""
    found = [section for section in _all(loaded) if not section.empty]
    figures = iter(numbered([figure for section in found for figure in section.figures]))
    return [replace(s, figures=[next(figures) for _ in s.figures]) for s in found]


def _all(loaded: LoadedRuns) -> Iterator[Section]:
    blocks, variants = loaded.blocks, loaded.variants
    s = "s" if len(loaded.runs) > 1 else ""
    yield _results(loaded)
    yield _drawn("over-tasks", "Accuracy over tasks", map(draw_accuracy.over_tasks, blocks))
    yield _drawn("forgetting", "Forgetting", map(draw_accuracy.forgetting, blocks))
    costs = Shown(*words.costs(loaded))
    yield _drawn("cost", "Cost", map(draw_comparison.cost, blocks), costs)
    yield _drawn("matrices", "Accuracy matrices", map(draw_accuracy.matrices, variants))
    classes = Shown(replace(per_class(loaded.comparison), caption=""), "", "Accuracy on each class")
    confusion = map(draw_accuracy.confusion, variants)
    yield _drawn("confusion", "Confusion matrices", confusion, classes)
    yield _drawn("losses", "Loss terms", map(draw_accuracy.losses, blocks))
    for name, (heading, draw) in ANALYSED.items():
        if any(name in run.analyses for run in loaded.runs):
            yield _drawn(name, heading, draw(loaded))
    curves = tradeoff(loaded.comparison)
    drawn, table = map(draw_comparison.tradeoff, curves), Shown(curve_table(curves))
    yield _drawn("tradeoff", "Stability against plasticity", drawn, table)
    yield _runs(loaded)
    yield _memory(variants)
    speed = Shown(words.speed(loaded), words.SPEED)
    yield replace(_drawn("time", "Time", (), speed), folded=True)
    yield _audit(words.audit(loaded))
    title = f"Environment{s} and command{s} to repeat the run{s}"
    origin = _drawn("origin", title, (), Shown(words.environments(loaded)))
    yield replace(origin, commands=words.install(loaded), recipes=words.recipes(loaded))


def _drawn(name: str, title: str, figures: Drawn, *tables: Shown) -> Section:
    """A section of the figures and tables that there is data for."""
    drawn = [figure for figure in figures if figure is not None]
    return Section(name, title, drawn, [shown for shown in tables if shown.table.rows])


def _results(loaded: LoadedRuns) -> Section:
    said = [n for n in notes(loaded.comparison) if "left out" not in n and "by method" not in n]
    gains = Shown(words.gains(loaded), ". ".join(said), "Paired differences with tests")
    points = [point for found in answer.answers(loaded) for point in found.points]
    found = _drawn("numbers", "Results", draw_comparison.gains(loaded), gains)
    return replace(found, points=points, results=True)


def _runs(loaded: LoadedRuns) -> Section:
    table, marked = words.differing(loaded)
    note = "Marked cells differ from what most variants have." if marked else ""
    several = [Shown(table, note, marked=frozenset(marked))] * (len(loaded.variants) > 1)
    shared = "Settings that all runs share" if len(loaded.runs) > 1 else "Settings of the run"
    own = "Options of the methods" if several else "Options of the method"
    folded = Shown(words.common(loaded), "", shared), Shown(words.own_options(loaded), "", own)
    left, text = [f"{name}: {why}" for name, why in loaded.left_out], list[str]()
    if left:
        more = f" and {len(left) - 10} more" if len(left) > 10 else ""
        text.append(f"Left out: {'; '.join(left[:10])}{more}.")
    return replace(_drawn("runs", "Runs and settings", (), *several, *folded), text=text)


def _memory(variants: Sequence[VariantRuns]) -> Section:
    found = [(variant, *first) for variant in variants if (first := variant.memory())]
    figures = [draw_accuracy.composition(*one) for one in found]
    sprites = [made for one in found if (made := draw_accuracy.sprite(*one))]
    return Section("memory", "Contents of the memory", figures, sprites=sprites, folded=True)


def _audit(found: Sequence[str]) -> Section:
    law = "FAA + (T−1)/T · FF is the mean peak accuracy and so cannot exceed 100."
    said = f"{len(found)} finding{'s' if len(found) > 1 else ''}:" if found else "No finding."
    text = [f"{law} {said}", *found[:50]]
    return Section("audit", "Audit of the metrics", text=text, folded=not found)
