"""Stability against plasticity over the weight of an added term. Knows `tradeoff`'s curves."""

from ..compare.arms import spelled
from ..compare.curves import Curve, table
from ..learning.metrics import METRICS, REPORTED, SETTINGS
from . import style
from .canvas import Canvas, Figure
from .draw_lines import legend, plot, series

LOOKS = {
    "faa": style.Look(style.BLUE, "o", "-"),
    "ff": style.Look(style.RED, "s", "--"),
    "ala": style.Look(style.GREEN, "^", "-."),
}


def tradeoff(curve: Curve) -> Figure:
    label, place = style.clean(curve.title), style.clean(curve.place)
    weights = [f"{point.weight:g}" for point in curve.points]

    def draw() -> Canvas:
        canvas = Canvas(6.4, 3.1)
        row = canvas.panels(SETTINGS.values())
        for axes, setting in zip(row, SETTINGS, strict=True):
            lines = []
            for metric in REPORTED:
                arms = [point.arm.values(setting, metric) for point in curve.points]
                values = [(float(i), v) for i, arm in enumerate(arms) for v in arm.values()]
                lines.append(series(METRICS[metric].title, LOOKS[metric], values))
            known = [line for line in lines if line]
            plot(canvas, axes, known, lambda i: f"{curve.weight} = {weights[int(i)]}")
            axes.set_xticks(range(len(weights)), weights)
            axes.set_xlabel(style.clean(curve.weight))
        row[0].set_ylabel("%")
        legend(canvas, row[:1])
        return canvas

    name = style.slug("tradeoff", spelled(curve.block), curve.label, curve.field)
    title = f"{label} over {style.clean(curve.weight)}{f' ({place})' if place else ''}"
    caption = (
        "FAA and ALA in %, higher is better; FF in %, lower is better. The band is one standard "
        "deviation over seeds; weight 0 is the method without the term. Weights are not to scale."
    )
    return Figure(name, title, caption, draw, table([curve]), wide=True)
