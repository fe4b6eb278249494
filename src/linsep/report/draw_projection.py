"""What a backward projection learned: its singular values, and whether the old head survives it."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..compare import statistics
from . import style
from .canvas import Axes, Canvas, Figure
from .draw_lines import Point, Series, borders, plot, series, six, spread_note, table, thinned
from .gather import ArmRuns, Gathered

TITLE = "Backward projection"
Place = dict[str, Any]
LOOKS = (
    style.Look(style.BLUE, "o", "-"),
    style.Look(style.GREY, "D", "-"),
    style.Look(style.ORANGE, "s", "-"),
)
PANELS = {
    "distance of A": {"to_identity": "to the identity", "to_orthogonal": "to the nearest rotation"},
    "accuracy, %": {
        "accuracy": "old head on A h(x)",
        "accuracy_before": "old head on old features",
        "agreement": "decides as before",
    },
}
VALUES = "singular values of A"


def figures(gathered: Gathered) -> list[Figure]:
    """One for each projecting term of each arm's method."""
    drawn = []
    for arm in gathered.arms:
        analyses = [one["places"] for one in arm.analyses("projection") if one["places"]]
        terms = list(dict.fromkeys(p["term"] for places in analyses for p in places))
        for term in terms:
            seeds = [[p for p in places if p["term"] == term] for places in analyses]
            seeds = [places for places in seeds if _where(places) == _where(seeds[0])]
            drawn.append(_figure(arm, term if len(terms) > 1 else "", seeds))
    return drawn


def _where(places: Sequence[Place]) -> list[str]:
    """'task 2, train epoch 3', or 'task 2' at its end."""
    return [
        f"task {p['task'] + 1}"
        + ("" if p["epoch"] is None else f", {p['stage']} epoch {p['epoch'] + 1}")
        for p in places
    ]


def _figure(arm: ArmRuns, term: str, seeds: Sequence[Sequence[Place]]) -> Figure:
    """`term` is named if the method has several."""
    first, where = seeds[0], _where(seeds[0])
    panels = {VALUES: _spectra(seeds)}
    for panel, names in PANELS.items():
        scale = 100.0 if "%" in panel else 1.0
        panels[panel] = [
            line
            for (name, shown), look in zip(names.items(), LOOKS, strict=False)
            if (line := series(shown, look, _over(seeds, name, scale)))
        ]
    panels = {panel: lines for panel, lines in panels.items() if lines}

    def draw() -> Canvas:
        canvas = Canvas("whole", 3.3)
        for axes, (panel, lines) in zip(canvas.panels(panels), panels.items(), strict=True):
            if panel == VALUES:
                plot(canvas, axes, lines, "k = {:g}".format, digits=4)
                axes.axhline(1.0, color=style.DIM, linewidth=0.7, linestyle=":")
                axes.set_xlabel("k")
            else:
                plot(canvas, axes, lines, lambda x: where[int(x) - 1], digits=3)
                _tasks(axes, first)
            axes.set_ylim(bottom=0)
            axes.legend()
        return canvas

    title = f"{arm.title}: {term}" if term else arm.title
    caption = (
        "The map A that recovers the old features from the new ones. Left, its singular values at "
        "the end of each task; middle, its distance from the identity (plain distillation) and "
        "from a rotation (A = 0 would be 1 from both); right, the accuracy of the head from before "
        "the task on projected new features of test images of earlier tasks."
    )
    caption += spread_note(lines for panel, lines in panels.items() if panel != VALUES)
    data = table(panels, panel="panel", x="x", y="value")
    named = arm.named("projection", term)
    return Figure(named, title, caption, draw, data, "whole", [arm.look.arm])


def _over(
    seeds: Sequence[Sequence[Place]], name: str, scale: float
) -> Iterator[tuple[float, float]]:
    """Values of all seeds at each place, counted from 1."""
    for places in seeds:
        for x, place in enumerate(places, 1):
            if place.get(name) is not None:
                yield x, scale * place[name]


def _spectra(seeds: Sequence[Sequence[Place]]) -> list[Series]:
    """A line for each task, of the means at its end."""
    ends = [many for many in zip(*seeds, strict=True) if many[0]["epoch"] is None]
    known = [many for many in ends if all(p.get("singular_values") for p in many)]
    lines = []
    for many, shade in zip(known, style.ramp(len(known)), strict=True):
        columns = list(zip(*(p["singular_values"] for p in many), strict=False))
        means = {k: six(statistics.mean(columns[k])) for k in thinned(len(columns))}
        points = [Point(k + 1, mean, None, len(many)) for k, mean in means.items()]
        lines.append(Series(f"task {many[0]['task'] + 1}", style.Look(shade, "", "-"), points))
    return lines


def _tasks(axes: Axes, places: Sequence[Place]) -> None:
    """Ticks at the ends of tasks, and borders between them if there are epochs too."""
    ends = [i for i, p in enumerate(places, 1) if p["epoch"] is None]
    borders(axes, [end + 0.5 for end in ends[:-1]] if len(ends) < len(places) else [])
    axes.set_xticks(ends, [str(places[end - 1]["task"] + 1) for end in ends])
    axes.set_xlabel("task")
