"""How well features still serve a head: linear probes beside the run's own head, and the head from
before a task on features that a backward projection takes back."""

from collections.abc import Sequence
from typing import Any

from ..compare import statistics
from . import style
from .canvas import Axes, Canvas, Figure
from .draw_accuracy import heat_maps
from .gather import Block, LoadedRuns, Matrix, VariantRuns
from .lines import (
    Point,
    Series,
    borders,
    by_variant,
    legend,
    plot,
    series,
    six,
    spread_note,
    table,
    thinned,
)

# --- linear probes: figure 4 of the paper --------------------------------------------------------


def probe(loaded: LoadedRuns) -> list[Figure]:
    made = [*map(_portions, loaded.blocks), *map(_rounds, loaded.variants)]
    return [figure for figure in made if figure is not None]


def _portions(block: Block) -> Figure | None:
    """Linear probes of the final features over portions of the training images."""
    lines = by_variant(block, lambda variant: (
        (fit["portion"], 100 * fit["accuracy"])
        for one in variant.analyses("probe") for fit in one["final"]
    ))  # fmt: skip
    heads = by_variant(
        block, lambda variant: ((1.0, 100 * one["head"]) for one in variant.analyses("probe"))
    )
    if not lines:
        return None

    def draw() -> Canvas:
        canvas = Canvas("whole", 3.9 + 0.2 * (len(lines) // 4))
        axes = canvas.panels()[0]
        plot(canvas, axes, lines, "portion {:g}".format, unit=" %", digits=1, beside=0.0)
        for head in heads:
            mean, look = head.points[0].mean, head.look
            hollow = {"markerfacecolor": "none", "markersize": 8, "linestyle": "none"}
            axes.plot([1.3], [mean], marker="*", color=look.colour, gid=look.gid, **hollow)
            said = f"{head.label}, the head it was trained with: {mean:.1f} %"
            canvas.spot(axes, 1.3, mean, said, variant=look.variant)
        style.log_scale(axes)
        axes.set_xlabel("portion of the training images")
        axes.set_ylabel("accuracy, %")
        legend(canvas, [axes])
        return canvas

    over = "draws and seeds" if block.variants[0].averaged else "draws"
    caption = (
        "A linear classifier trained on frozen features of a portion of all training images. "
        f"Stars: the head that the run trained.{spread_note([lines], over)}"
    )
    panels = {"linear probe": lines, "own head": heads}
    data = table(panels, panel="classifier", x="portion", y="accuracy %")
    title = block.titled("Linear probing of the final features")
    return Figure(block.named("probe"), title, caption, draw, data, "whole")


def _rounds(variant: VariantRuns) -> Figure | None:
    """After every task, on every task seen: a linear probe against the run's own head."""
    rounds = [one["rounds"] for one in variant.analyses("probe") if one["rounds"]]
    if not rounds:
        return None
    size = max(r["task"] for one in rounds for r in one) + 1

    def matrix(one: Sequence[dict[str, Any]], kind: str) -> Matrix:
        found: Matrix = [[None] * size for _ in range(size)]
        for r in one:
            found[r["task"]][: len(r[kind])] = r[kind]
        return found

    kinds = {"linear probe": "probe", "own head": "head"}
    found = {name: [matrix(one, kind) for one in rounds] for name, kind in kinds.items()}
    mean = ", mean over seeds" if variant.averaged else ""
    caption = (
        f"Accuracy in % on each task's test images, among the classes seen so far{mean}: what a "
        "linear classifier could still tell apart, and what the run's own head does."
    )
    return heat_maps(variant, "separability", caption, found)


# --- the backward projection A -------------------------------------------------------------------

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


def projection(loaded: LoadedRuns) -> list[Figure]:
    """One for each projecting term of each variant's method."""
    drawn = []
    for variant in loaded.variants:
        analyses = [one["places"] for one in variant.analyses("projection") if one["places"]]
        terms = list(dict.fromkeys(p["term"] for places in analyses for p in places))
        for term in terms:
            seeds = [[p for p in places if p["term"] == term] for places in analyses]
            seeds = [places for places in seeds if _where(places) == _where(seeds[0])]
            drawn.append(_projection(variant, term if len(terms) > 1 else "", seeds))
    return drawn


def _where(places: Sequence[Place]) -> list[str]:
    """'task 2, train epoch 3', or 'task 2' at its end."""
    return [
        f"task {p['task'] + 1}"
        + ("" if p["epoch"] is None else f", {p['stage']} epoch {p['epoch'] + 1}")
        for p in places
    ]


def _projection(variant: VariantRuns, term: str, seeds: Sequence[Sequence[Place]]) -> Figure:
    """`term` is named if the method has several."""
    where, panels = _where(seeds[0]), {VALUES: _spectra(seeds)}
    for panel, names in PANELS.items():
        scale = 100.0 if "%" in panel else 1.0
        lines = [
            series(shown, look, (
                (x, scale * place[name])
                for places in seeds for x, place in enumerate(places, 1)
                if place.get(name) is not None
            ))
            for (name, shown), look in zip(names.items(), LOOKS, strict=False)
        ]  # fmt: skip
        panels[panel] = [line for line in lines if line]
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
                _tasks(axes, seeds[0])
            axes.set_ylim(bottom=0)
            axes.legend()
        return canvas

    title = f"{variant.title}: {term}" if term else variant.title
    caption = (
        "The map A that recovers the old features from the new ones. Left, its singular values at "
        "the end of each task; middle, its distance from the identity (plain distillation) and "
        "from a rotation (A = 0 would be 1 from both); right, the accuracy of the head from before "
        "the task on projected new features of test images of earlier tasks."
    )
    caption += spread_note(lines for panel, lines in panels.items() if panel != VALUES)
    data = table(panels, panel="panel", x="x", y="value")
    named = variant.named("projection", term)
    return Figure(named, title, caption, draw, data, "whole", [variant.look.variant])


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
