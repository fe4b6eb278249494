"""What a backward projection learned: its singular values, and whether the old head survives it.

Knows the content of `analysis/projection.json`. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..compare import statistics
from ..compare.tables import Table, Value
from . import style
from .canvas import Canvas, Figure
from .draw_lines import borders, six, thinned
from .gather import Group

Place = dict[str, Any]
DISTANCES = {"to_identity": "to the identity", "to_orthogonal": "to the nearest rotation"}
HEADS = {
    "accuracy": "old head on A h(x)",
    "accuracy_before": "old head on old features",
    "agreement": "decides as before",
}
LOOKS = ((style.BLUE, "o"), (style.GREY, "D"), (style.ORANGE, "s"))


def projections(group: Group, place: str) -> list[Figure]:
    """One figure for each projecting term of the method."""
    analyses = [one["places"] for one in group.analyses("projection") if one.get("places")]
    terms = list(dict.fromkeys(p["term"] for places in analyses for p in places))
    found = []
    for term in terms:
        many = [[p for p in places if p["term"] == term] for places in analyses]
        many = [places for places in many if _where(places) == _where(many[0])]
        means = [_mean(same) for same in zip(*many, strict=True)]
        found.append(_figure(group, term, means, place, len(terms) > 1))
    return found


def _where(places: Sequence[Place]) -> list[tuple[Any, ...]]:
    return [(p["task"], p["stage"], p["epoch"]) for p in places]


def _mean(same: Sequence[Place]) -> Place:
    """Of one place in all seeds."""
    found = dict(same[0])
    for name in (*DISTANCES, *HEADS):
        values = [p[name] for p in same if p.get(name) is not None]
        found[name] = statistics.mean(values) if values else None
    if all(p.get("singular_values") for p in same):
        columns = zip(*(p["singular_values"] for p in same), strict=False)
        found["singular_values"] = [six(statistics.mean(c)) for c in columns]
    return found


def _figure(group: Group, term: str, places: list[Place], place: str, several: bool) -> Figure:
    ends = [p for p in places if p["epoch"] is None]
    lines = {
        "distance": {shown: _over(places, name) for name, shown in DISTANCES.items()},
        "accuracy": {shown: _over(places, name, 100.0) for name, shown in HEADS.items()},
    }
    spectra = {
        p["task"]: [(k + 1, p["singular_values"][k]) for k in thinned(len(p["singular_values"]))]
        for p in ends
        if p.get("singular_values")
    }
    rows: list[list[Value]] = [
        ["singular values", f"after task {task + 1}", float(k), value]
        for task, curve in spectra.items()
        for k, value in curve
    ]
    for panel, found in lines.items():
        rows += [[panel, name, float(x), v] for name, curve in found.items() for x, v in curve]

    def draw() -> Canvas:
        panels = (["values"] if spectra else []) + [
            n for n, ls in lines.items() if any(ls.values())
        ]
        canvas = Canvas(2.75 * len(panels), 3.1)
        for axes, panel in zip(canvas.panels(1, len(panels))[0], panels, strict=True):
            if panel == "values":
                _values(canvas, axes, spectra)
            else:
                _lines(canvas, axes, lines[panel], places, panel)
        return canvas

    name = "-".join(
        filter(None, ["projection", style.slug(place), group.slug, style.slug(term) * several])
    )
    title = f"{group.label}{f' ({place})' if place else ''}{f': {term}' if several else ''}"
    caption = (
        "The map A that recovers the old features from the new ones. Left, its singular values at "
        "the end of each task; middle, how far it is from the identity (plain distillation) and "
        "from a rotation (A = 0 would be 1 from both); right, on test images of earlier tasks, the "
        "head from before the task on projected new features. Mean over seeds."
    )
    data = Table(["panel", "line", "x", "value"], rows)
    return Figure(name, title, caption, draw, data, wide=True)


def _over(places: Sequence[Place], name: str, scale: float = 1.0) -> list[tuple[int, float]]:
    return [(i + 1, scale * p[name]) for i, p in enumerate(places) if p.get(name) is not None]


def _values(canvas: Canvas, axes: Any, spectra: dict[int, list[tuple[int, float]]]) -> None:
    for (task, curve), shade in zip(spectra.items(), style.ramp(len(spectra)), strict=True):
        ks, values = zip(*curve, strict=True)
        axes.plot(ks, values, color=shade, label=f"task {task + 1}")
        for k, value in curve[:: max(1, len(curve) // 5)]:
            canvas.spot(axes, k, value, f"task {task + 1}, k = {k}: {value:.4g}")
    axes.axhline(1.0, color=style.DIM, linewidth=0.7, linestyle=":")
    axes.set_ylim(bottom=0)
    axes.set_title("singular values of A")
    axes.set_xlabel("k")
    axes.legend()


def _lines(
    canvas: Canvas,
    axes: Any,
    found: dict[str, list[tuple[int, float]]],
    places: Sequence[Place],
    panel: str,
) -> None:
    for (name, curve), (colour, marker) in zip(found.items(), LOOKS, strict=False):
        if not curve:
            continue
        xs, values = zip(*curve, strict=True)
        axes.plot(xs, values, color=colour, marker=marker, label=name)
        for x, value in curve:
            where = _said(places[x - 1])
            canvas.spot(axes, x, value, f"{name}, {where}: {value:.3g}")
    ends = [i + 1 for i, p in enumerate(places) if p["epoch"] is None]
    borders(axes, [end + 0.5 for end in ends[:-1]] if len(ends) < len(places) else [])
    axes.set_xticks(ends, [str(places[end - 1]["task"] + 1) for end in ends])
    axes.set_xlabel("task")
    axes.set_title({"distance": "distance of A", "accuracy": "accuracy, %"}[panel])
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower left", fontsize=7)


def _said(place: Place) -> str:
    epoch = "" if place["epoch"] is None else f", {place['stage']} epoch {place['epoch'] + 1}"
    return f"task {place['task'] + 1}{epoch}"
