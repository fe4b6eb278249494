"""Figures of the analyses that are about one variant: spectra, planes, linear probes, and the
backward projection."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..compare import statistics
from ..compare.tables import Table
from . import lines
from .canvas import DIM, PALETTE, Axes, Canvas, Figure, Look, clean, shades
from .draw_accuracy import heat_maps
from .gather import Block, LoadedRuns, Matrix, VariantRuns

# --- singular values and proj-acc(k): figure 2 of the paper --------------------------------------

KINDS: Mapping[str, Callable[[Any], list[float]]] = {
    "singular values": lambda task: task["values"],
    "proj-acc(k), newest task, %": lambda task: [100 * v for v in task["proj_acc"]["newest"][1:]],
    "proj-acc(k), all seen, %": lambda task: [100 * v for v in task["proj_acc"]["seen"][1:]],
}


def spectrum(loaded: LoadedRuns) -> list[Figure]:
    """One for every variant; variants of a block have the same axes."""
    drawn = []
    for block in loaded.blocks:
        known = [(variant, panels) for variant in block.variants if (panels := _spectra(variant))]
        tops: dict[str, float] = {}
        for name, curves in (item for _, panels in known for item in panels.items()):
            tops[name] = max([tops.get(name, 0.0), *(p.mean for one in curves for p in one.points)])
        drawn += [_spectrum(variant, panels, tops) for variant, panels in known]
    return drawn


def _spectra(variant: VariantRuns) -> dict[str, list[lines.Series]]:
    """Means over seeds, a line for each task; {} if there are none."""
    panels: dict[str, list[lines.Series]] = {}
    tasks = [task for one in variant.analyses("spectrum") for task in one["tasks"]]
    for kind, curve in KINDS.items():
        found = [(task["task"], curve(task)) for task in tasks]
        panels[kind] = _directions(found)
        panels[f"{kind.removesuffix(', %')}, relative"] = _directions(found, relative=True)
    return panels if any(panels.values()) else {}


def _directions(
    curves: Iterable[tuple[int, Sequence[float]]], relative: bool = False
) -> list[lines.Series]:
    """Mean curves over principal directions, in shades from the first task to the last; with as
    many digits and directions as can be seen."""
    by_task: dict[int, list[Sequence[float]]] = {}
    for task, curve in curves:
        by_task.setdefault(task, []).append(curve)
    found, ramp = [], shades("viridis", 0.25, 0.85, len(by_task))
    for (task, seeds), shade in zip(sorted(by_task.items()), ramp, strict=True):
        means = [statistics.mean(values) for values in zip(*seeds, strict=False)]
        top = (max(means, default=0.0) if relative else 1.0) or 1.0
        points = [
            lines.Point(k + 1, float(f"{means[k] / top:.6g}"), None, len(seeds))
            for k in lines.thinned(len(means))
        ]
        found.append(lines.Series(f"after task {task + 1}", Look(shade, "", "-"), points))
    return [line for line in found if line.points]


def _spectrum(
    variant: VariantRuns, panels: Mapping[str, list[lines.Series]], tops: Mapping[str, float]
) -> Figure:
    def draw(canvas: Canvas) -> None:
        grid = canvas.panels(panels, columns=2, share="x")
        for axes, (name, curves) in zip(grid, panels.items(), strict=True):
            lines.plot(canvas, axes, curves, lines.worded("k = {:g}".format, digits=3), spots=4)
            lines.log_scale(axes)
            axes.set_ylim(0, 1.05 * tops[name] or 1.0)
        for axes in grid[-2:]:
            axes.set_xlabel("principal direction k")
        lines.legend(canvas, grid[:1])

    caption = (
        "Features of the training images seen so far, after each task; proj-acc(k) is the accuracy "
        "on test images, of the newest task and of all tasks seen, when features keep only their k "
        "largest principal directions. On the right, each curve as a share of its maximum."
    )
    caption += " Means over seeds." if variant.averaged else ""
    data = lines.table(panels, panel="panel", line="curve", x="k", y="value")
    return Figure(*variant.about("spectrum"), caption, draw, data, "half", 6.0)


# --- a plane before and after a task: figure 1 of the paper --------------------------------------

SIDES = {"before": "before task {}", "after": "after task {}"}
LEGEND = 24  # classes up to which each is named
ALL_POINTS = 6000  # of all planes of a report


def tsne(loaded: LoadedRuns) -> list[Figure]:
    """One for every variant that has a plane; where there are many, with fewer points each."""
    having = [variant for variant in loaded.variants if variant.analyses("tsne")]
    most = max(200, ALL_POINTS // max(1, len(having)))
    return [_plane(variant, most) for variant in having]


def _plane(variant: VariantRuns, most: int) -> Figure:
    """The plane of the first seed that has one: planes have no mean."""
    run = next(run for run in variant.runs if "tsne" in run.analyses)
    whole = run.analyses["tsne"]
    every = -(-len(whole["labels"]) // most)
    content = whole | {name: whole[name][::every] for name in ("labels", *SIDES)}
    task, labels, new = content["task"] + 1, content["labels"], set(content["new"])
    names = {c: run.class_name(c) for c in sorted(set(labels))}
    n = len(names)
    moved = zip(labels, content["before"], content["after"], strict=True)
    rows = [[names[c], "new" if c in new else "old", *a, *b] for c, a, b in moved]

    def draw(canvas: Canvas) -> None:
        row = canvas.panels([title.format(task) for title in SIDES.values()], share="xy")
        widths, heights = zip(*(point for side in SIDES for point in content[side]), strict=True)
        stroke = 0.0, (max(heights) - min(heights)) / 90
        dot = (max(widths) - min(widths)) / 800, 0.0  # a line of no length would not be drawn
        safe = list(PALETTE.values())  # as far as they reach
        drawn = safe[:n] if n <= len(safe) else shades("turbo", 0.04, 0.96, n)
        colours = dict(zip(names, drawn, strict=True))
        for axes, side in zip(row, SIDES, strict=True):
            for c in names:
                points = [p for p, label in zip(content[side], labels, strict=True) if label == c]
                _dots(axes, points, colours[c], stroke if c in new else dot)
            axes.autoscale_view()
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(True)
            axes.spines[:].set_color(DIM)
        if n <= LEGEND:
            for c, name in names.items():
                mark = {"color": colours[c], "label": clean(name, 24), "markersize": 4}
                row[0].plot([], [], "|" if c in new else "o", **mark)
            lines.legend(canvas, row[:1], columns=4)

    engine = {"pca": "principal components"}.get(content["engine"], "t-SNE")
    caption = (
        f"Test images' features before and after learning task {task}, seed {run.seed}, by "
        f"{engine} of both together, so that places can be compared. "
        f"Dots: classes of earlier tasks; strokes: those of task {task}."
    )
    data = Table(["class", "kind", "x before", "y before", "x after", "y after"], rows)
    height = 3.9 if n <= LEGEND else 3.3
    return Figure(*variant.about("plane"), caption, draw, data, "half", height)


def _dots(axes: Axes, points: list[list[float]], colour: str, half: tuple[float, float]) -> None:
    """All points of a class as one path, which is a tenth of the bytes of a shape for each."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    dx, dy = half
    vertices = [(x + side * dx, y + side * dy) for x, y in points for side in (-1, 1)]
    path, wide = Path(vertices, [Path.MOVETO, Path.LINETO] * len(points)), 1.0 if dy else 2.4
    path.should_simplify = False
    shape = {"capstyle": "round", "fill": False, "edgecolor": colour, "linewidth": wide}
    axes.add_patch(PathPatch(path, **shape))


# --- linear probes: figure 4 of the paper --------------------------------------------------------


def probe(loaded: LoadedRuns) -> list[Figure | None]:
    return [*map(_portions, loaded.blocks), *map(_rounds, loaded.variants)]


def _portions(block: Block) -> Figure | None:
    """Linear probes of the final features over portions of the training images."""
    curves = lines.by_variant(block, lambda variant: (
        (fit["portion"], 100 * fit["accuracy"])
        for one in variant.analyses("probe") for fit in one["final"]
    ))  # fmt: skip
    heads = lines.by_variant(
        block, lambda variant: ((1.0, 100 * one["head"]) for one in variant.analyses("probe"))
    )
    if not curves:
        return None

    def draw(canvas: Canvas) -> None:
        (axes,) = canvas.panels()
        lines.plot(canvas, axes, curves, lines.worded("portion {:g}".format, " %", 1), beside=0.0)
        for head in heads:
            mean, look = head.points[0].mean, head.look
            hollow = {"markerfacecolor": "none", "markersize": 8, "linestyle": "none"}
            axes.plot([1.3], [mean], marker="*", **look.plain, **hollow)
            said = f"{head.label}, the head it was trained with: {mean:.1f} %"
            canvas.spot(axes, (1.3, mean), said, look)
        lines.log_scale(axes)
        axes.set_xlabel("portion of the training images")
        axes.set_ylabel("accuracy, %")
        lines.legend(canvas, [axes])

    over = "draws and seeds" if block.variants[0].averaged else "draws"
    caption = (
        "A linear classifier trained on frozen features of a portion of all training images. "
        f"Stars: the head that the run trained.{lines.spread_note([curves], over)}"
    )
    panels = {"linear probe": curves, "own head": heads}
    data = lines.table(panels, panel="classifier", x="portion", y="accuracy %")
    about = block.about("probe", "Linear probing of the final features")
    return Figure(*about, caption, draw, data, height=block.height)


def _rounds(variant: VariantRuns) -> Figure | None:
    """After every task, on every task seen: a linear probe against the run's own head."""
    rounds = [one["rounds"] for one in variant.analyses("probe") if one["rounds"]]
    size = max((r["task"] + 1 for one in rounds for r in one), default=0)

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
LOOKS = [Look(PALETTE[name], "o", "-") for name in ("blue", "grey", "orange")]
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
    ends = ("" if p["epoch"] is None else f", {p['stage']} epoch {p['epoch'] + 1}" for p in places)
    return [f"task {p['task'] + 1}{end}" for p, end in zip(places, ends, strict=True)]


def _projection(variant: VariantRuns, term: str, seeds: Sequence[Sequence[Place]]) -> Figure:
    """`term` is named if the method has several."""
    where, panels = _where(seeds[0]), {VALUES: _values(seeds)}
    for panel, names in PANELS.items():
        scale = 100.0 if "%" in panel else 1.0
        curves = [
            lines.series(shown, look, (
                (x, scale * place[name])
                for places in seeds for x, place in enumerate(places, 1)
                if place.get(name) is not None
            ))
            for (name, shown), look in zip(names.items(), LOOKS, strict=False)
        ]  # fmt: skip
        panels[panel] = [line for line in curves if line]
    panels = {panel: curves for panel, curves in panels.items() if curves}
    ends = [i for i, place in enumerate(seeds[0], 1) if place["epoch"] is None]

    def draw(canvas: Canvas) -> None:
        for axes, (panel, curves) in zip(canvas.panels(panels), panels.items(), strict=True):
            if panel == VALUES:
                lines.plot(canvas, axes, curves, lines.worded("k = {:g}".format, digits=4))
                axes.axhline(1.0, color=DIM, linewidth=0.7, linestyle=":")
                axes.set_xlabel("k")
            else:
                place = lines.worded(lambda x: where[int(x) - 1], digits=3)
                lines.plot(canvas, axes, curves, place)
                between = [end + 0.5 for end in ends[:-1]] if len(ends) < len(where) else []
                lines.borders(axes, between)
                axes.set_xticks(ends, [str(seeds[0][end - 1]["task"] + 1) for end in ends])
                axes.set_xlabel("task")
            axes.set_ylim(bottom=0)
            axes.legend()

    caption = (
        "The map A that recovers the old features from the new ones. Left, its singular values at "
        "the end of each task; middle, its distance from the identity (plain distillation) and "
        "from a rotation (A = 0 would be 1 from both); right, the accuracy of the head from before "
        "the task on projected new features of test images of earlier tasks."
    )
    caption += lines.spread_note(curves for panel, curves in panels.items() if panel != VALUES)
    data = lines.table(panels, panel="panel", x="x", y="value")
    return Figure(*variant.about("projection", term), caption, draw, data, height=3.0)


def _values(seeds: Sequence[Sequence[Place]]) -> list[lines.Series]:
    """A line for each task, of the means at its end."""
    ends = [many for many in zip(*seeds, strict=True) if many[0]["epoch"] is None]
    known = [many for many in ends if all(p.get("singular_values") for p in many)]
    return _directions((p["task"], p["singular_values"]) for many in known for p in many)
