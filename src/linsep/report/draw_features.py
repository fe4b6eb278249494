"""Features over tasks: their spectrum, similarity and drift, and what they look like on a plane."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import Any

from ..compare import statistics
from ..compare.tables import Table, Value
from . import style
from .canvas import Canvas, Figure
from .gather import Block, LoadedRuns, VariantRuns
from .lines import Points, by_variant, legend, lines_figure, six, thinned

# --- similarity (figure 5 of the paper) and drift ------------------------------------------------


def cka(block: Block) -> Figure | None:
    """CKA before and after each task, on data seen before it and on its own."""
    return lines_figure(
        block,
        "cka",
        "Similarity of features before and after each task",
        "Linear CKA (centred) of test images' features before and after learning a task: of "
        "classes seen in earlier tasks, and of the task's own, unseen before it.",
        {
            "classes of earlier tasks": by_variant(block, _by_task("cka", "seen", "centred")),
            "the task's own classes": by_variant(block, _by_task("cka", "unseen", "centred")),
        },
        panel="data", x="task", y="CKA", digits=3, share="y",
    )  # fmt: skip


def drift(block: Block) -> Figure | None:
    """The share of variance that a map, fitted to a task's images, misses on test images."""
    last = _by_task("drift", "layers", -1, "old")  # of the features
    return lines_figure(
        block,
        "drift",
        "What a linear map from old to new features misses",
        "Variance of features after a task that a linear map of those before it misses, on test "
        "images of earlier classes; the map is fitted to the task's own. Lower: drift is linear.",
        {"classes of earlier tasks": by_variant(block, last)},
        panel="data", x="task", y="variance missed",
    )  # fmt: skip


def _by_task(name: str, *path: str | int) -> Callable[[VariantRuns], Points]:
    """The points of a variant: the number at this path in what an analysis found of each task."""
    return lambda variant: (
        (task["task"] + 1, reduce(getitem, path, task))
        for one in variant.analyses(name)
        for task in one["tasks"]
    )


# --- singular values and proj-acc(k): figure 2 of the paper --------------------------------------

Curves = dict[int, list[tuple[int, float]]]  # task -> (k, value)
KINDS = ("singular values", "proj-acc(k), newest task", "proj-acc(k), all seen")
PANELS = tuple(f"{kind}{scale}" for kind in KINDS for scale in ("", ", relative"))


def spectrum(loaded: LoadedRuns) -> list[Figure]:
    """One for every variant; variants of a block have the same axes."""
    drawn = []
    for block in loaded.blocks:
        known = [(variant, panels) for variant in block.variants if (panels := _spectra(variant))]
        tops = {
            name: max(v for _, panels in known for curve in panels[name].values() for _, v in curve)
            for name in (PANELS if known else ())
        }
        drawn += [_spectrum(variant, panels, tops) for variant, panels in known]
    return drawn


def _spectra(variant: VariantRuns) -> dict[str, Curves]:
    """Means over seeds of each panel's curves; {} if there are none."""
    by_task: dict[int, list[Any]] = {}
    for one in variant.analyses("spectrum"):
        for task in one["tasks"]:
            by_task.setdefault(task["task"], []).append(task)
    panels: dict[str, Curves] = {name: {} for name in PANELS}
    for number, seeds in sorted(by_task.items()):
        size = min(len(task["values"]) for task in seeds)
        if not size:
            continue
        curves = [
            [task["values"] for task in seeds],
            *([[100.0 * v for v in task["proj_acc"][on][1:]] for task in seeds]
              for on in ("newest", "seen")),
        ]  # fmt: skip
        for kind, many in zip(KINDS, curves, strict=True):
            means = [six(statistics.mean([curve[k] for curve in many])) for k in range(size)]
            top, kept = max(means) or 1.0, thinned(size, most=28)
            panels[kind][number] = [(k + 1, means[k]) for k in kept]
            panels[f"{kind}, relative"][number] = [(k + 1, six(means[k] / top)) for k in kept]
    return panels if any(panels.values()) else {}


def _spectrum(variant: VariantRuns, panels: dict[str, Curves], tops: Mapping[str, float]) -> Figure:
    rows: list[list[Value]] = [
        [name, task + 1, k, value]
        for name, curves in panels.items()
        for task, curve in curves.items()
        for k, value in curve
    ]

    def draw() -> Canvas:
        canvas = Canvas("half", 6.4)
        titles = [name + (", %" if name in KINDS[1:] else "") for name in PANELS]
        grid = canvas.panels(titles, columns=2, share="x")
        shades = style.ramp(max(panels[PANELS[0]]) + 1)
        for axes, name in zip(grid, PANELS, strict=True):
            for task, curve in panels[name].items():
                points, label = zip(*curve, strict=True), f"after task {task + 1}"
                axes.plot(*points, color=shades[task], label=label)
                # The right column says the same: spots there would only make the page larger.
                for k, value in curve[:: max(1, len(curve) // 4)] if name in KINDS else ():
                    canvas.spot(axes, k, value, f"task {task + 1}, k = {k}: {value:.4g}")
            style.log_scale(axes)
            axes.set_ylim(0, 1.05 * tops[name])
        for axes in grid[-2:]:
            axes.set_xlabel("principal direction k")
        legend(canvas, grid[:1])
        return canvas

    caption = (
        "Features of the training images seen so far, after each task; proj-acc(k) is the accuracy "
        "on test images, of the newest task and of all tasks seen, when features keep only their k "
        "largest principal directions. On the right, each curve as a share of its maximum."
    )
    caption += " Means over seeds." if variant.averaged else ""
    data = Table(["panel", "after task", "k", "value"], rows)
    return Figure(
        variant.named("spectrum"),
        variant.title,
        caption,
        draw,
        data,
        "half",
        [variant.look.variant],
    )


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
    places = zip(labels, content["before"], content["after"], strict=True)
    rows = [[names[c], "new" if c in new else "old", *a, *b] for c, a, b in places]

    def draw() -> Canvas:
        canvas = Canvas("half", 3.9 if len(names) <= LEGEND else 3.3)
        row = canvas.panels([title.format(task) for title in SIDES.values()], share="xy")
        widths, heights = zip(*(point for side in SIDES for point in content[side]), strict=True)
        stroke = 0.0, (max(heights) - min(heights)) / 90
        dot = (max(widths) - min(widths)) / 800, 0.0  # a line of no length would not be drawn
        colours = dict(zip(names, style.class_colours(len(names)), strict=True))
        for axes, side in zip(row, SIDES, strict=True):
            for c in names:
                points = [p for p, label in zip(content[side], labels, strict=True) if label == c]
                _dots(axes, points, colours[c], stroke if c in new else dot)
            axes.autoscale_view()
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(True)
            axes.spines[:].set_color(style.DIM)
        if len(names) <= LEGEND:
            _legend(canvas, [(names[c], colours[c], c in new) for c in names])
        return canvas

    engine = {"pca": "principal components", "sklearn": "t-SNE", "opentsne": "t-SNE"}
    caption = (
        f"Test images' features before and after learning task {task}, seed {run.seed}, by "
        f"{engine.get(content['engine'], content['engine'])} of both together, so that places can "
        f"be compared. Dots: classes of earlier tasks; strokes: those of task {task}."
    )
    data = Table(["class", "kind", "x before", "y before", "x after", "y after"], rows)
    return Figure(
        variant.named("plane"), variant.title, caption, draw, data, "half", [variant.look.variant]
    )


def _dots(axes: Any, points: list[list[float]], colour: str, half: tuple[float, float]) -> None:
    """All points of a class as one path, which is a tenth of the bytes of a shape for each."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    dx, dy = half
    vertices = [(x + side * dx, y + side * dy) for x, y in points for side in (-1, 1)]
    path, wide = Path(vertices, [Path.MOVETO, Path.LINETO] * len(points)), 1.0 if dy else 2.4
    path.should_simplify = False
    shape = {"capstyle": "round", "fill": False, "edgecolor": colour, "linewidth": wide}
    axes.add_patch(PathPatch(path, **shape))


def _legend(canvas: Canvas, classes: Sequence[tuple[str, str, bool]]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, linestyle="none", marker="|" if new else "o", markersize=4,
               label=style.clean(name, 24))
        for name, colour, new in classes
    ]  # fmt: skip
    canvas.drawing.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)))
