"""The picture of +transport: two classes as they were learned, and after two more, as an SVG.

    python scripts/transport_figure.py docs/figures/transport.svg

A small run on fashion-mini, fine-tuning with BFP. Dots are test images of the first two classes,
the ellipses the statistics that were taken of them when they were learned, as they were and
carried. Each panel is the plane of the two directions in which its network's features vary most.
"""

import copy
import math
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

import torch
from step_figure import STYLE
from torch import Tensor

import linsep
from linsep.learning.run import TaskEnd
from linsep.learning.statistics import Statistics
from linsep.learning.transport import Transported

SIDE, GAP, LEFT, TOP, HEIGHT = 230, 24, 20, 86, 344
WIDTH = 2 * LEFT + 3 * SIDE + 2 * GAP
DOTS = 70  # of a class
TITLES = (
    ("when the classes are learned", "features of the first network"),
    ("two classes later: not carried", "features of the second network"),
    ("two classes later: carried", "no image of the classes was needed"),
)
COLOURS = (
    ".p0{fill:var(--net);stroke:none;opacity:.55}.p1{fill:var(--new);stroke:none;opacity:.55}"
    ".e0{stroke:var(--net);stroke-width:2.5}.e1{stroke:var(--new);stroke-width:2.5}"
)


def draw() -> str:
    config = linsep.Config(
        scenario="fashion-mini", method="ft+bfp+transport", net="cnn", training={"epochs": 5}
    )
    run = linsep.build(config)
    known: list[tuple[Tensor, Statistics]] = []
    test = run.scenario.groups[0].test
    for event in run:
        if isinstance(event, TaskEnd):
            rule = run.learner.predictor
            assert isinstance(rule, Transported)
            known.append((run.learner.embed(test).double(), copy.deepcopy(rule.statistics)))
            if event.task == 1:
                break
    (before, first), (after, second) = known
    panels = [(before, first), (after, first), (after, second)]
    shape = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    said = "Features of two old classes, and their statistics: as they were, and carried"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {shape} role="img">',
        f"<title>{escape(said)}</title>",
        f"<style>{STYLE}{COLOURS}</style>",
        f'<rect class="c" x=".75" y=".75" width="{WIDTH - 1.5}" height="{HEIGHT - 1.5}" rx="8"/>',
        f'<text x="{LEFT}" y="28" class="b">Class statistics move with the features</text>',
    ]
    for number, ((z, statistics), titles) in enumerate(zip(panels, TITLES, strict=True)):
        parts += _panel(LEFT + number * (SIDE + GAP), z, test.y, statistics, titles)
    return "\n".join([*parts, "</svg>\n"])


def _panel(
    left: float, z: Tensor, y: Tensor, statistics: Statistics, titles: tuple[str, str]
) -> Iterator[str]:
    centre = z.mean(0)
    plane = torch.linalg.svd(z - centre, full_matrices=False).Vh[:2].T  # (d, 2)
    plane = plane * plane.sum(0).sign()  # the same side up wherever it is drawn
    flat = (z - centre) @ plane
    means = (statistics.mean[:2] - centre) @ plane
    covariance = plane.T @ statistics.covariance() @ plane
    scale = SIDE / 2 / (1.15 * float(flat.abs().max()))

    def at(point: Tensor) -> tuple[float, float]:
        x, up = (float(v) * scale for v in point)
        most = SIDE / 2 - 4
        return left + SIDE / 2 + max(-most, min(most, x)), TOP + SIDE / 2 - max(
            -most, min(most, up)
        )

    for line, (words, kind) in enumerate(zip(titles, ("b", "s"), strict=True)):
        yield f'<text x="{left}" y="{TOP - 26 + 16 * line}" class="{kind}">{escape(words)}</text>'
    yield f'<rect class="c" x="{left}" y="{TOP}" width="{SIDE}" height="{SIDE}"/>'
    for c in (0, 1):
        for point in flat[y == c][:DOTS]:
            x, up = at(point)
            yield f'<circle class="p{c}" cx="{x:.1f}" cy="{up:.1f}" r="2.5"/>'
    values, vectors = torch.linalg.eigh(covariance)
    for c in (0, 1):
        around = []
        for step in range(60):
            turn = torch.tensor([math.cos(step * math.tau / 60), math.sin(step * math.tau / 60)])
            around.append(at(means[c] + 2 * (vectors * values.sqrt()) @ turn.double()))
        path = "L".join(f"{x:.1f} {up:.1f}" for x, up in around)
        yield f'<path class="e{c}" d="M{path}Z"/>'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(), encoding="utf-8")
