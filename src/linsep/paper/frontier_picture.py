"""Accuracy against cost in one drawing: every sum at its passes, and the line of the frontier.

Every sum has a dot, filled where a head fitted anew predicts. Those on the frontier, those of the
main comparison and these with such a head have their names in a column beside the dots, from the
most accurate on, each at the end of a thin line; the others show theirs under the mouse.
Knows sums. Knows nothing of how they were found.
"""

from collections.abc import Sequence
from html import escape

from ..compare.titles import is_bound
from .drawing import ACCENT, DIM, PALE, Scale, axis, opened, text
from .frontier import HEADS, Frontier, Sum

WIDTH, LEFT, PLOT, TOP, BOTTOM = 1000, 56, 480, 54, 52  # pixels
HEIGHT, LINE = 420, 17  # of the plot, and of a line of text
NAMED = ("main", *HEADS)


def picture(found: Frontier) -> str:
    sums = [one for one in found.sums if not is_bound(one.method)]
    faa = [one.summary("class_il.faa").mean for one in sums]
    ends = [end for one in sums for end in _ends(one)]
    y, marks_y = axis([*faa, *ends] or [0.0, 100.0], TOP + HEIGHT, TOP)
    x, marks_x = axis([0.0, *(one.passes for one in sums)], LEFT, LEFT + PLOT)
    parts = opened(WIDTH, TOP + HEIGHT + BOTTOM, "Class-IL accuracy of each sum against its passes")
    heading = "Class-IL FAA in percent against passes; a filled dot has a head fitted anew"
    parts.append(text(16, 28, heading, "bold"))
    for mark in marks_y:
        parts.append(f'<path d="M{LEFT} {y(mark):.1f}H{LEFT + PLOT}" stroke="{PALE}"/>')
        parts.append(text(LEFT - 8, y(mark) + 4, f"{mark:g}", anchor="end"))
    foot = TOP + HEIGHT
    for mark in marks_x:
        parts.append(text(x(mark), foot + 18, f"{mark:g}", anchor="middle"))
    parts.append(
        text(LEFT + PLOT / 2, foot + 38, "passes, as a multiple of fine-tuning's", anchor="middle")
    )
    parts.append(_steps(found.leading, x, y))
    named = [one for one in sums if one in found.leading or one.part in NAMED]
    heights = [y(one.summary("class_il.faa").mean) for one in named]
    places = {id(one): at for one, at in zip(named, _places(heights, TOP + 8, foot), strict=True)}
    parts += [_line(one, x, y, places[id(one)], found) for one in named]
    parts += [_dot(one, x, y, leads=one in found.leading) for one in reversed(sums)]
    return "\n".join([*parts, "</svg>\n"])


def _ends(one: Sum) -> tuple[float, float]:
    found = one.summary("class_il.faa")
    return found.mean - (found.std or 0.0), found.mean + (found.std or 0.0)


def _places(wanted: Sequence[float], first: float, last: float) -> list[float]:
    """Heights of names in order: where they are wanted, but a line apart and within the plot."""
    found: list[float] = []
    for height in wanted:
        found.append(max(height, found[-1] + LINE if found else first))
    for i in reversed(range(len(found))):
        found[i] = min(found[i], found[i + 1] - LINE if i + 1 < len(found) else last)
    return found


def _steps(leading: Sequence[Sum], x: Scale, y: Scale) -> str:
    """The frontier: what can be reached by passing no more than this."""
    if not leading:
        return ""
    first, *rest = [(x(one.passes), y(one.summary("class_il.faa").mean)) for one in leading]
    path = f"M{first[0]:.1f} {first[1]:.1f}" + "".join(f"H{a:.1f}V{b:.1f}" for a, b in rest)
    line = f'd="{path}H{LEFT + PLOT}" fill="none" stroke="{ACCENT}" stroke-width="1.5"'
    return f'<path {line} stroke-dasharray="5 3"/>'


def _line(one: Sum, x: Scale, y: Scale, name_at: float, found: Frontier) -> str:
    """From the dot to its name."""
    at, side = (x(one.passes), y(one.summary("class_il.faa").mean)), LEFT + PLOT
    lead = f"M{at[0]:.1f} {at[1]:.1f}L{side} {at[1]:.1f}L{side + 22} {name_at:.1f}"
    bold = "bold" if one in found.leading else ""
    name = text(side + 28, name_at + 4, one.title, bold)
    return f'<path d="{lead}" fill="none" stroke="{PALE}"/>{name}'


def _dot(one: Sum, x: Scale, y: Scale, *, leads: bool) -> str:
    at, (low, high) = (x(one.passes), y(one.summary("class_il.faa").mean)), _ends(one)
    colour = ACCENT if leads else DIM
    filled = colour if one.part in HEADS else "#ffffff"
    place = f'cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="5"'
    return "".join([
        f'<path d="M{at[0]:.1f} {y(low):.1f}V{y(high):.1f}" stroke="{colour}" opacity="0.5"/>',
        f'<circle {place} fill="{filled}" stroke="{colour}" stroke-width="1.5">',
        f"<title>{escape(one.title)}</title></circle>",
    ])  # fmt: skip
