"""BFP in five seconds: where two old classes are after two new ones were learned, as an SVG.

    python scripts/five_seconds_figure.py docs/figures/bfp.svg

Three real runs on fashion-mini, from the same first task: fine-tuning, feature distillation and
BFP, without any stored image. The network has two features, so nothing is projected: each panel
shows the feature plane itself. Dots are test images. Seed 1 was chosen for the picture because
its features turn the most.
"""

import sys
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

import torch
from step_figure import STYLE
from torch import Tensor, nn

import linsep

SEED = 1
SIDE, GAP, LEFT, TOP, HEIGHT = 240, 20, 20, 92, 398
WIDTH = 2 * LEFT + 3 * SIDE + 2 * GAP
DOTS = 60  # of a class
PANELS = {
    "ft": ("Fine-tuning", "The old classes move; their line no longer fits."),
    "ft+fd": ("Feature distillation", "The old classes are pinned to where they were."),
    "ft+bfp": ("Backward feature projection", "They may move if a linear map recovers them."),
}
Place = tuple[float, float]  # in the drawing, from its upper left corner
COLOURS = (
    ".p0,.p1,.p2{stroke-width:5.4;stroke-linecap:round;opacity:.6}"
    ".g{fill:none;stroke-dasharray:3 3}"
    ".p0,.g0{stroke:var(--net)}.p1,.g1{stroke:var(--new)}.p2{stroke:var(--old);opacity:.4}"
    ".l,.t,.a{stroke:var(--ink);stroke-width:2}.t{stroke-dasharray:6 5}"
)


class Seen(NamedTuple):
    """A run after its second task."""

    y: Tensor  # labels of the old classes' test images
    before: Tensor  # their features after the first task, (n, 2)
    after: Tensor  # and after the second
    new: Tensor  # features of the new classes' test images
    line: Tensor  # a, b, c: the old classes part where a x + b y + c = 0 after the first task
    back: Tensor | None  # the line A^T w, where BFP has a map


def draw() -> str:
    torch.set_num_threads(1)
    shape = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    runs = {method: train(method) for method in PANELS}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {shape} role="img">',
        f"<title>{escape(words(runs))}</title>",
        f"<style>{STYLE}{COLOURS}</style>",
        f'<rect class="c" x=".75" y=".75" width="{WIDTH - 1.5}" height="{HEIGHT - 1.5}" rx="8"/>',
        f'<text x="{LEFT}" y="30" class="b">Two classes, after the network has learned two more'
        "</text>",
        *_legend(),
    ]
    for number, (method, seen) in enumerate(runs.items()):
        parts += _panel(LEFT + number * (SIDE + GAP), *PANELS[method], seen)
    return "\n".join([*parts, "</svg>\n"])


def words(runs: dict[str, Seen]) -> str:
    """The picture in a sentence."""
    ft, fd, bfp = (f"{100 * accuracy(seen, seen.line):.0f} %" for seen in runs.values())
    back = runs["ft+bfp"].back
    assert back is not None
    return (
        "Two-dimensional features of two old classes after two new ones were learned. The line "
        f"that parted them is right for {ft} of their images after fine-tuning, {fd} with feature "
        f"distillation and {bfp} with BFP, where the line mapped back by A is right for "
        f"{100 * accuracy(runs['ft+bfp'], back):.0f} %."
    )


def train(method: str) -> Seen:
    torch.manual_seed(SEED)
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 2))
    config = linsep.Config(
        scenario="fashion-mini", method=method, seed=SEED, training={"epochs": 10, "lr": 0.03}
    )
    run = linsep.build(config, net=net)
    old, new = (split.test for split in run.scenario.groups[:2])
    for event in run:
        if isinstance(event, linsep.TaskEnd) and event.task == 0:
            before = run.learner.embed(old)
            state = {
                name: value.clone() for name, value in run.learner.net.head.state_dict().items()
            }
            a, b = state["weight"][0] - state["weight"][1]
            line = torch.stack([a, b, state["bias"][0] - state["bias"][1]])
        elif isinstance(event, linsep.TaskEnd):
            break
    back = None
    if "bfp" in run.learner.terms:
        weight, bias = (p.detach() for p in run.learner.terms["bfp"].parameters())
        back = torch.cat([weight.T @ line[:2], (line[:2] @ bias + line[2])[None]])
    return Seen(old.y, before, run.learner.embed(old), run.learner.embed(new), line, back)


def accuracy(seen: Seen, line: Tensor) -> float:
    right = (seen.after @ line[:2] + line[2] > 0) == (seen.y == 0)
    return float(right.float().mean())


def _legend() -> Iterator[str]:
    x = LEFT + 5.0
    kinds = (
        ("p0", "T-shirt"), ("p1", "trouser"), ("p2", "new: pullover, dress"),
    )  # fmt: skip
    for kind, text in kinds:
        yield f'<path class="{kind}" d="M{x:g} 46h0"/>'
        yield f'<text x="{x + 9:g}" y="50" class="s">{text}</text>'
        x += 34 + 6.1 * len(text)
    for kind, text in (("g", "where it was"), ("l", "line that parts the old classes")):
        yield f'<path class="{kind}" d="M{x:g} 46h22"/>'
        yield f'<text x="{x + 28:g}" y="50" class="s">{text}</text>'
        x += 52 + 6.1 * len(text)


def _panel(left: float, title: str, line: str, seen: Seen) -> Iterator[str]:
    points = torch.cat([seen.before, seen.after, seen.new])
    low, high = points.quantile(0.004, dim=0), points.quantile(0.996, dim=0)
    centre, scale = (low + high) / 2, SIDE / (1.12 * float((high - low).max()))

    def at(point: Tensor) -> Place:
        x, up = ((point - centre) * scale).tolist()
        return left + SIDE / 2 + x, TOP + SIDE / 2 - up

    clip, square = f"c{left:g}", f'x="{left}" y="{TOP}" width="{SIDE}" height="{SIDE}"'
    yield f'<clipPath id="{clip}"><rect {square}/></clipPath>'
    yield f'<text x="{left}" y="{TOP - 12}" class="b">{escape(title)}</text>'
    yield f'<rect class="c" {square}/><g clip-path="url(#{clip})">'
    yield from _dots(seen, at)
    for c in (0, 1):
        mean, spread = seen.before[seen.y == c].mean(0), seen.before[seen.y == c].std(0)
        (x, y), (rx, ry) = at(mean), (1.6 * spread * scale).tolist()
        shape = f'cx="{x:.1f}" cy="{y:.1f}" rx="{rx:.1f}" ry="{ry:.1f}"'
        yield f'<ellipse class="g g{c}" {shape}/>'
    shown = seen.line if seen.back is None else seen.back
    yield _line(shown, at, "l", centre, 2 * SIDE / scale)
    if seen.back is not None:
        yield _line(seen.line, at, "t", centre, 2 * SIDE / scale)
        yield from _arrow(at(seen.after.mean(0)), at(seen.before.mean(0)))
    yield "</g>"
    name = "the line" if seen.back is None else "the line A\u1d40w"
    text = f"{name} is right for {100 * accuracy(seen, shown):.0f} %"
    yield f'<text x="{left}" y="{TOP + SIDE + 20}" class="s">{escape(line)}</text>'
    yield f'<text x="{left}" y="{TOP + SIDE + 38}" class="b">{escape(text)}</text>'


def _dots(seen: Seen, at: Callable[[Tensor], Place]) -> Iterator[str]:
    groups = [(seen.new, 2), *((seen.after[seen.y == c], c) for c in (0, 1))]
    for features, kind in groups:
        places = map(at, features[:: max(1, len(features) // (DOTS * (1 + kind // 2)))])
        yield f'<path class="p{kind}" d="{"".join(f"M{x:.0f} {y:.0f}h0" for x, y in places)}"/>'


def _line(
    line: Tensor, at: Callable[[Tensor], Place], kind: str, centre: Tensor, reach: float
) -> str:
    """A line through the panel: the nearest point to the centre, and far to both sides."""
    normal = line[:2] / line[:2].norm()
    nearest = centre - ((line[:2] @ centre + line[2]) / line[:2].norm()) * normal
    along = torch.stack([-normal[1], normal[0]]) * reach
    (x, y), (u, v) = at(nearest - along), at(nearest + along)
    return f'<path class="{kind}" d="M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}"/>'


def _arrow(start: Place, end: Place) -> Iterator[str]:
    (x, y), (u, v) = start, end
    length = ((u - x) ** 2 + (v - y) ** 2) ** 0.5
    dx, dy = (u - x) / length, (v - y) / length
    yield f'<path class="a" d="M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}"/>'
    for side in (-5, 5):
        barb = f"{side * dy - 9 * dx:.1f} {-side * dx - 9 * dy:.1f}"
        yield f'<path class="a" d="M{u:.1f} {v:.1f}l{barb}"/>'
    beside = f'x="{(x + u) / 2 + 10 * dy + 4:.1f}" y="{(y + v) / 2 - 10 * dx:.1f}"'
    yield f'<text {beside} class="b">A</text>'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(), encoding="utf-8")
