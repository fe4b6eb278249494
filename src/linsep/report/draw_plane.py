"""Features on a plane, before and after a task, on the same axes.

Knows the content of `analysis/tsne.json`. Knows nothing of files, or of how the plane was found.
"""

from __future__ import annotations

from typing import Any

from linsep.tables import Table, Value

from . import style
from .canvas import Canvas, Figure
from .gather import Group

SIDES = {"before": "before task {}", "after": "after task {}"}
LEGEND = 24  # classes up to which each is named


def plane(group: Group, place: str) -> Figure | None:
    """The first seed that has one: a mean of planes would be none."""
    found = [(run, a) for run in group.runs if (a := run.analysis("tsne")) is not None]
    if not found:
        return None
    run, content = found[0]
    task, labels, new = content["task"] + 1, content["labels"], set(content["new"])
    names = {c: run.classes[c] if c < len(run.classes) else str(c) for c in sorted(set(labels))}
    rows: list[list[Value]] = [
        [side, float(x), float(y), names[c], "new" if c in new else "old"]
        for side in SIDES
        for (x, y), c in zip(content[side], labels, strict=True)
    ]

    def draw() -> Canvas:
        canvas = Canvas(7.2, 3.9 if len(names) <= LEGEND else 3.4)
        row = canvas.panels(1, 2, sharex=True, sharey=True)[0]
        colours = dict(zip(names, style.class_colours(len(names)), strict=True))
        for axes, (side, title) in zip(row, SIDES.items(), strict=True):
            for c in names:
                points = [p for p, label in zip(content[side], labels, strict=True) if label == c]
                _dots(axes, points, colours[c], cross=c in new)
            axes.set_title(title.format(task))
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
        f"be compared. Dots: classes of earlier tasks; crosses: those of task {task}."
    )
    name = "-".join(filter(None, ["plane", style.slug(place), group.slug]))
    title = f"{group.label}{f' ({place})' if place else ''}"
    data = Table(["panel", "x", "y", "class", "kind"], rows)
    return Figure(name, title, caption, draw, data, wide=True)


def _dots(axes: Any, points: list[list[float]], colour: str, *, cross: bool) -> None:
    """All points of a class as one path: a fortieth of the bytes of one shape for each."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if cross:
        xs, ys = zip(*points, strict=True)
        axes.plot(xs, ys, "x", color=colour, markersize=3.2, markeredgewidth=0.9, zorder=3)
        return
    vertices = [v for x, y in points for v in ((x, y), (x, y + 1e-3))]
    codes = [Path.MOVETO, Path.LINETO] * len(points)
    shape = {"capstyle": "round", "linewidth": 3.0, "fill": False, "edgecolor": colour}
    axes.add_patch(PathPatch(Path(vertices, codes), alpha=0.75, **shape))


def _legend(canvas: Canvas, classes: dict[int, tuple[str, str, bool]]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, linestyle="none", marker="x" if new else "o", markersize=4,
               label=style.clean(name, 24))
        for name, colour, new in classes.values()
    ]  # fmt: skip
    canvas.drawing.legend(handles=handles, loc="outside lower center", ncols=min(5, len(handles)))
