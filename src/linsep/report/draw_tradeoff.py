"""Stability against plasticity over the weight of an added term. Knows `tradeoff`'s curves."""

from __future__ import annotations

from ..compare.arms import spelled
from ..compare.curves import Curve, table
from ..learning.metrics import METRICS, REPORTED, SETTINGS
from . import style
from .canvas import Canvas, Figure
from .draw_lines import legend

LOOKS = {
    "faa": (style.BLUE, "o", "-"),
    "ff": (style.RED, "s", "--"),
    "ala": (style.GREEN, "^", "-."),
}


def tradeoff(curve: Curve) -> Figure:
    label = style.arm_label(curve.method, spelled(curve.options))
    place = spelled(curve.block)
    weights = [f"{point.weight:g}" for point in curve.points]

    def draw() -> Canvas:
        canvas = Canvas(6.4, 3.1)
        row = canvas.panels(1, 2)[0]
        for axes, setting in zip(row, SETTINGS, strict=True):
            for metric in REPORTED:
                title = METRICS[metric].title
                colour, marker, dash = LOOKS[metric]
                found = [(i, p.arm.summary(setting, metric)) for i, p in enumerate(curve.points)]
                known = [(i, s) for i, s in found if s is not None]
                if not known:
                    continue
                xs, means = [i for i, _ in known], [s.mean for _, s in known]
                bars = [s.std or 0.0 for _, s in known]
                axes.errorbar(
                    xs, means, yerr=bars, color=colour, marker=marker, linestyle=dash, capsize=2,
                    label=title,
                )  # fmt: skip
                for i, s in known:
                    spread = f" ± {s.std:.2f}" if s.std is not None else ""
                    said = f"{title} at {curve.field} = {weights[i]}: {s.mean:.2f}{spread}"
                    canvas.spot(axes, i, s.mean, said)
            axes.set_xticks(range(len(weights)), weights)
            axes.set_title(SETTINGS[setting])
            axes.set_xlabel(style.clean(curve.field))
        row[0].set_ylabel("%")
        legend(canvas, row[:1])
        return canvas

    name = "-".join(filter(None, ["tradeoff", style.slug(place), style.slug(curve.label)]))
    name += "-" + style.slug(curve.field)
    title = f"{label} over {style.clean(curve.field)}{f' ({place})' if place else ''}"
    caption = (
        "FAA and ALA in %, higher is better; FF in %, lower is better. Bars are one standard "
        "deviation over seeds; weight 0 is the method without the term. Weights are not to scale."
    )
    return Figure(name, title, caption, draw, table([curve]), wide=True)
