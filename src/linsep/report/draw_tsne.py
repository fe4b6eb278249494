"""Features on a plane, before and after a task, on the same axes: figure 1 of the paper."""

from typing import Any

from ..compare.tables import Table
from . import style
from .canvas import Canvas, Figure
from .gather import ArmRuns, Gathered

TITLE = "Features before and after a task"
SIDES = {"before": "before task {}", "after": "after task {}"}
LEGEND = 24  # classes up to which each is named
ALL_POINTS = 6000  # of all planes of a report


def figures(gathered: Gathered) -> list[Figure]:
    """One for every arm that has a plane; where there are many, with fewer points each."""
    having = [arm for arm in gathered.arms if arm.analyses("tsne")]
    most = max(200, ALL_POINTS // max(1, len(having)))
    return [_plane(arm, most) for arm in having]


def _plane(arm: ArmRuns, most: int) -> Figure:
    """The plane of the first seed that has one: planes have no mean."""
    run = next(run for run in arm.runs if "tsne" in run.analyses)
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
            _legend(canvas, {c: (names[c], colours[c], c in new) for c in names})
        return canvas

    engine = {"pca": "principal components", "sklearn": "t-SNE", "opentsne": "t-SNE"}
    caption = (
        f"Test images' features before and after learning task {task}, seed {run.seed}, by "
        f"{engine.get(content['engine'], content['engine'])} of both together, so that places can "
        f"be compared. Dots: classes of earlier tasks; strokes: those of task {task}."
    )
    data = Table(["class", "kind", "x before", "y before", "x after", "y after"], rows)
    return Figure(arm.named("plane"), arm.title, caption, draw, data, "half", [arm.look.arm])


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


def _legend(canvas: Canvas, classes: dict[int, tuple[str, str, bool]]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, linestyle="none", marker="|" if new else "o", markersize=4,
               label=style.clean(name, 24))
        for name, colour, new in classes.values()
    ]  # fmt: skip
    canvas.drawing.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)))
