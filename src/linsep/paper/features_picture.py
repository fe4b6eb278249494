"""Four panels of what happens to the features, a line for each method: an SVG, byte for byte.

Knows analysed methods. Knows nothing of how they were found.
"""

from collections.abc import Sequence
from math import log10

from .drawing import DIM, PALE, Scale, axis, opened, text
from .features import Analysed, Line

COLOURS = {
    "ft": "#999999", "ft+fd": "#e69f00", "ft+bfp": "#d55e00",
    "derpp": "#56b4e9", "derpp+fd": "#009e73", "derpp+bfp": "#0072b2", "jt": "#222222",
}  # fmt: skip
WIDTH, LEFT, PLOT, ACROSS, HEIGHT, DOWN, TOP = 900, 52, 372, 436, 210, 290, 92  # pixels
MOST = 5  # marks of an axis, about


def picture(several: Sequence[Analysed]) -> str:
    panels: list[tuple[str, str, dict[str, Line]]] = [
        ("Directions that the features fill (figure 2)", "after task", {
            one.method: one.by_task("spectrum", "effective rank") for one in several}),
        ("Accuracy of a linear probe, % (figure 4)", "% of the training images", {
            one.method: one.by_portion() for one in several}),
        ("CKA of seen classes, x 100 (figure 5)", "before and after task", {
            one.method: one.by_task("cka", "seen, centred") for one in several}),
        ("CKA of new classes, x 100 (figure 5)", "before and after task", {
            one.method: one.by_task("cka", "unseen, centred") for one in several}),
    ]  # fmt: skip
    parts = opened(WIDTH, TOP + 2 * DOWN - 20, "Effective rank, linear probes and CKA by method")
    parts.append(text(16, 28, "What happens to the features, means over seeds", "bold"))
    parts.append(_legend(several))
    low = min(
        (v for _, _, lines in panels[2:] for line in lines.values() for _, v in line), default=0.0
    )
    for i, (heading, below, lines) in enumerate(panels):
        known = {method: line for method, line in lines.items() if len(line) > 1}
        least = [low, 100.0] if i > 1 else []
        place = LEFT + ACROSS * (i % 2), TOP + DOWN * (i // 2)
        parts.append(_panel(heading, below, known, place, least, portions=i == 1))
    return "\n".join([*parts, "</svg>\n"])


def _panel(
    heading: str,
    below: str,
    lines: dict[str, Line],
    place: tuple[int, int],
    least: Sequence[float],
    *,
    portions: bool,
) -> str:
    """One plot; `least` are values that its axis shows in any case."""
    left, top = place
    parts = [text(left, top - 10, heading)]
    if not lines:
        return "".join([*parts, text(left, top + 20, "not run yet")])
    points = [point for line in lines.values() for point in line]
    y, marks = axis([*(value for _, value in points), *least], top + HEIGHT, top, MOST)
    for mark in marks:
        parts.append(f'<path d="M{left} {y(mark):.1f}H{left + PLOT}" stroke="{PALE}"/>')
        parts.append(text(left - 8, y(mark) + 4, f"{mark:g}", anchor="end"))
    ticks = sorted({at for at, _ in points})
    x = _across(ticks, left, log=portions)
    for at in ticks:
        parts.append(text(x(at), top + HEIGHT + 18, f"{at:g}", anchor="middle"))
    parts.append(text(left + PLOT / 2, top + HEIGHT + 36, below, anchor="middle"))
    for method, line in lines.items():
        path = "L".join(f"{x(at):.1f} {y(value):.1f}" for at, value in line)
        parts.append(
            f'<path d="M{path}" fill="none" stroke="{COLOURS[method]}" stroke-width="2.2"/>'
        )
    return "".join(parts)


def _across(ticks: Sequence[float], left: int, *, log: bool) -> Scale:
    low, high = ((log10(t) if log else t) for t in (ticks[0], ticks[-1]))

    def x(at: float) -> float:
        return left + 12 + (PLOT - 24) * ((log10(at) if log else at) - low) / (high - low)

    return x


def _legend(several: Sequence[Analysed]) -> str:
    parts, x = [], 16.0
    for one in several:
        line = f'd="M{x:.1f} 48h22" stroke="{COLOURS.get(one.method, DIM)}" stroke-width="3"'
        parts += [f"<path {line}/>", text(x + 28, 52, one.title)]
        x += 52 + 7.2 * len(one.title)
    return "".join(parts)
