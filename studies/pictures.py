"""The figures of the pages as SVG without a library, the same byte for byte on every machine."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from math import log10

from linsep.compare.naming import is_bound

from .evidence import FEWEST, Finding, Outcome, Verdict
from .evidence_page import PLAIN, contrast_title
from .features import Analysed, Line
from .frontier import HEADS, Frontier, Sum

INK, PALE, ACCENT, DIM = "#222222", "#dddddd", "#0072b2", "#767676"
FONTS = "Arial, Helvetica, 'DejaVu Sans Condensed', sans-serif"
Scale = Callable[[float], float]  # where a value is drawn


# --- what all of them share ----------------------------------------------------------------------


def svg(width: int, height: int, title: str, heading: str, parts: Iterable[str]) -> str:
    """A drawing on a white ground; the title is for those who cannot see it."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="{FONTS}" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>',
        text(16, 28, heading, "bold"),
        *parts,
        "</svg>\n",
    ])  # fmt: skip


def text(x: float, y: float, words: str, weight: str = "", anchor: str = "start") -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{INK}"{bold}>'
        f"{escape(words)}</text>"
    )


def axis(
    values: Sequence[float], start: float, end: float, most: int = 10, least: float = 0.5
) -> tuple[Scale, list[float]]:
    """Where a value is drawn, and the round values to mark: about `most`, `least` apart or more."""
    extent = max(values) - min(values)
    step = next(s for s in (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0) if extent / s <= most)
    step = max(least, step)
    low = step * (min(values) // step)
    high = max(low + step, -step * (-max(values) // step))
    marks = [low + i * step for i in range(round((high - low) / step) + 1)]
    return lambda value: start + (end - start) * (value - low) / (high - low), marks


def levels(left: int, width: int, y: Scale, marks: Sequence[float]) -> list[str]:
    """A pale line at each mark of a vertical axis, and its label."""
    return [
        part
        for mark in marks
        for part in (
            f'<path d="M{left} {y(mark):.1f}H{left + width}" stroke="{PALE}"/>',
            text(left - 8, y(mark) + 4, f"{mark:g}", anchor="end"),
        )
    ]


# --- the evidence: every paired difference -------------------------------------------------------

EDGE, ROW, TOP = 24, 46, 54  # pixels; labels are above their lines, for phones
EVIDENCE_WIDTH, EVIDENCE_FOOT = 460, 72
WIDEST = 20.0  # points; a wider interval does not stretch the axis and ends in an arrow
COLOURS: dict[Verdict, str] = {
    "supported": ACCENT, "smaller than a point": "#56b4e9", "not supported": "#d55e00",
    "inconclusive": DIM, "cannot be tested here": "#bbbbbb",
}  # fmt: skip


def evidence_picture(found: Sequence[Finding]) -> str:
    """The primary tests: mean differences, their intervals and the paper's own figures."""
    tests = [outcome for f in found if f.claim.family == "primary" for outcome in f.outcomes]
    rows = [o for o in tests if o.pairs is not None and o.pairs.difference.n >= FEWEST]
    ends = [0.0, *(v for o in rows for v in _ends(o))]
    x, marks = axis(ends, EDGE, EVIDENCE_WIDTH - EDGE, least=1.0)
    foot = TOP + ROW * len(rows)
    parts = []
    for mark in marks:
        colour = PALE if mark else "#333333"
        parts.append(f'<path d="M{x(mark):.1f} {TOP}V{foot}" stroke="{colour}"/>')
        parts.append(text(x(mark), foot + 18, f"{mark:+g}" if mark else "0", anchor="middle"))
    parts += [_row(outcome, x, TOP + ROW * (i + 0.75)) for i, outcome in enumerate(rows)]
    parts.append(text(EVIDENCE_WIDTH - EDGE, foot + 36, "better →", anchor="end"))
    height = foot + EVIDENCE_FOOT
    heading = "Change in final accuracy, in points with 95 % intervals"
    title = f"{heading}, for the primary tests in Class-IL"
    return svg(EVIDENCE_WIDTH, height, title, heading, [*parts, _verdicts(height - 16, rows)])


def _ends(outcome: Outcome) -> list[float]:
    """What the axis has to hold of a test."""
    assert outcome.pairs is not None
    gap = outcome.pairs.difference
    narrow = gap.low is not None and gap.high is not None and gap.high - gap.low <= WIDEST
    values = (gap.mean, outcome.printed, *((gap.low, gap.high) if narrow else ()))
    return [value for value in values if value is not None]


def _row(outcome: Outcome, x: Scale, y: float) -> str:
    assert outcome.pairs is not None
    gap, colour = outcome.pairs.difference, COLOURS[outcome.verdict]
    label = f"{contrast_title(outcome).replace(PLAIN, '')} (n = {gap.n})"
    clear = 'stroke="#ffffff" stroke-width="4" paint-order="stroke"'  # of the lines behind it
    parts = [f"<g {clear}>{text(16, y - 14, label)}</g>"]
    if gap.low is not None and gap.high is not None:
        parts.append(_interval(x(gap.low), x(gap.high), y, colour))
    parts.append(f'<circle cx="{x(gap.mean):.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>')
    if outcome.printed is not None:
        parts.append(_diamond(x(outcome.printed), y))
    return "".join(parts)


def _interval(low: float, high: float, y: float, colour: str) -> str:
    """A line between two places; an end outside the axis is an arrow at its edge."""
    left, right = max(low, EDGE), min(high, EVIDENCE_WIDTH - EDGE)
    drawn = [f"M{left:.1f} {y:.1f}H{right:.1f}"]
    drawn += [f"M{left + 6:.1f} {y - 5:.1f}l-6 5l6 5"] * (left > low)
    drawn += [f"M{right - 6:.1f} {y - 5:.1f}l6 5l-6 5"] * (right < high)
    return f'<path d="{"".join(drawn)}" fill="none" stroke="{colour}" stroke-width="2.5"/>'


def _diamond(x: float, y: float) -> str:
    shape = f"M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z"
    return f'<path d="{shape}" fill="none" stroke="#333333" stroke-width="1.5"/>'


def _verdicts(y: float, rows: Sequence[Outcome]) -> str:
    parts, x = [], 16.0
    there = {outcome.verdict for outcome in rows}
    for verdict, colour in COLOURS.items():
        if verdict not in there:
            continue
        parts.append(f'<circle cx="{x + 5:.1f}" cy="{y - 4:.1f}" r="5" fill="{colour}"/>')
        parts.append(text(x + 16, y, verdict))
        x += 30 + 6.2 * len(verdict)
    return "".join([*parts, _diamond(x + 6, y - 4), text(x + 18, y, "paper")])


# --- the features: four panels, a line for each method -------------------------------------------

METHODS = {
    "ft": "#999999", "ft+fd": "#e69f00", "ft+bfp": "#d55e00",
    "derpp": "#56b4e9", "derpp+fd": "#009e73", "derpp+bfp": "#0072b2", "jt": "#222222",
}  # fmt: skip
PANEL, PANEL_HEIGHT = 372, 210  # pixels
FIRST, ACROSS, DOWN = (52, 92), 436, 290  # the first panel's place, and from one to the next


def features_picture(several: Sequence[Analysed]) -> str:
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
    similarities = [v for *_, lines in panels[2:] for line in lines.values() for _, v in line]
    parts = [_methods(several)]
    for i, (heading, below, lines) in enumerate(panels):
        known = {method: line for method, line in lines.items() if len(line) > 1}
        shown = [min(similarities, default=0.0), 100.0] if i > 1 else []
        place = FIRST[0] + ACROSS * (i % 2), FIRST[1] + DOWN * (i // 2)
        parts.append(_panel(heading, below, known, place, shown, log=i == 1))
    title = "Effective rank, linear probes and CKA by method"
    heading = "What happens to the features, means over seeds"
    return svg(900, FIRST[1] + 2 * DOWN - 20, title, heading, parts)


def _panel(
    heading: str,
    below: str,
    lines: dict[str, Line],
    place: tuple[int, int],
    shown: Sequence[float],
    *,
    log: bool,
) -> str:
    """One plot; `shown` are values that its axis has in any case."""
    left, top = place
    parts = [text(left, top - 10, heading)]
    if not lines:
        return "".join([*parts, text(left, top + 20, "not run yet")])
    points = [point for line in lines.values() for point in line]
    foot = top + PANEL_HEIGHT
    y, marks = axis([*(value for _, value in points), *shown], foot, top, most=5)
    parts += levels(left, PANEL, y, marks)
    ticks = sorted({at for at, _ in points})
    x = _across(ticks, left, log=log)
    parts += [text(x(at), foot + 18, f"{at:g}", anchor="middle") for at in ticks]
    parts.append(text(left + PANEL / 2, foot + 36, below, anchor="middle"))
    for method, line in lines.items():
        path = "L".join(f"{x(at):.1f} {y(value):.1f}" for at, value in line)
        stroke = f'stroke="{METHODS[method]}" stroke-width="2.2"'
        parts.append(f'<path d="M{path}" fill="none" {stroke}/>')
    return "".join(parts)


def _across(ticks: Sequence[float], left: int, *, log: bool) -> Scale:
    low, high = ((log10(t) if log else t) for t in (ticks[0], ticks[-1]))

    def x(at: float) -> float:
        return left + 12 + (PANEL - 24) * ((log10(at) if log else at) - low) / (high - low)

    return x


def _methods(several: Sequence[Analysed]) -> str:
    parts, x = [], 16.0
    for one in several:
        line = f'd="M{x:.1f} 48h22" stroke="{METHODS.get(one.method, DIM)}" stroke-width="3"'
        parts += [f"<path {line}/>", text(x + 28, 52, one.title)]
        x += 52 + 7.2 * len(one.title)
    return "".join(parts)


# --- the frontier: every sum at its compute -------------------------------------------------------

FRONTIER_WIDTH, LEFT, PLOT, HEIGHT, LINE = 1000, 56, 480, 420, 17  # LINE: between two names
FOOT, SIDE = TOP + HEIGHT, LEFT + PLOT
NAMED = ("main", *HEADS)


def frontier_picture(found: Frontier) -> str:
    """Every sum has a dot, filled where a head fitted anew predicts. Those on the frontier, those
    of the main comparison and these with such a head have their names in a column beside the dots,
    from the most accurate on, each at the end of a thin line; the others show theirs under the
    mouse.
    """
    sums = [one for one in found.sums if not is_bound(one.method)]
    faa = [value for one in sums for value in (_faa(one), *_spread(one))]
    y, marks_y = axis(faa or [0.0, 100.0], FOOT, TOP)
    x, marks_x = axis([0.0, *(one.compute for one in sums)], LEFT, SIDE)
    parts = levels(LEFT, PLOT, y, marks_y)
    parts += [text(x(mark), FOOT + 18, f"{mark:g}", anchor="middle") for mark in marks_x]
    below = "compute, relative to fine-tuning"
    parts.append(text(LEFT + PLOT / 2, FOOT + 38, below, anchor="middle"))
    parts.append(_steps(found.leading, x, y))
    named = [one for one in sums if one in found.leading or one.part in NAMED]
    places = _places([y(_faa(one)) for one in named], TOP + 8, FOOT)
    parts += [_name(one, x, y, at, found) for one, at in zip(named, places, strict=True)]
    parts += [_dot(one, x, y, leads=one in found.leading) for one in reversed(sums)]
    title = "Class-IL accuracy of each sum against its compute"
    heading = "Class-IL FAA in percent against compute; a filled dot has a head fitted anew"
    return svg(FRONTIER_WIDTH, FOOT + 52, title, heading, parts)


def _faa(one: Sum) -> float:
    return one.summary("class_il.faa").mean


def _spread(one: Sum) -> tuple[float, float]:
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
    """The frontier: the best accuracy for at most these compute."""
    if not leading:
        return ""
    first, *rest = [(x(one.compute), y(_faa(one))) for one in leading]
    path = f"M{first[0]:.1f} {first[1]:.1f}" + "".join(f"H{a:.1f}V{b:.1f}" for a, b in rest)
    line = f'd="{path}H{SIDE}" fill="none" stroke="{ACCENT}" stroke-width="1.5"'
    return f'<path {line} stroke-dasharray="5 3"/>'


def _name(one: Sum, x: Scale, y: Scale, place: float, found: Frontier) -> str:
    """The name of a sum, and a line to it from its dot."""
    across, down = x(one.compute), y(_faa(one))
    lead = f"M{across:.1f} {down:.1f}L{SIDE} {down:.1f}L{SIDE + 22} {place:.1f}"
    name = text(SIDE + 28, place + 4, one.title, "bold" if one in found.leading else "")
    return f'<path d="{lead}" fill="none" stroke="{PALE}"/>{name}'


def _dot(one: Sum, x: Scale, y: Scale, *, leads: bool) -> str:
    across, (low, high) = x(one.compute), _spread(one)
    colour = ACCENT if leads else DIM
    filled = colour if one.part in HEADS else "#ffffff"
    place = f'cx="{across:.1f}" cy="{y(_faa(one)):.1f}" r="5"'
    return "".join([
        f'<path d="M{across:.1f} {y(low):.1f}V{y(high):.1f}" stroke="{colour}" opacity="0.5"/>',
        f'<circle {place} fill="{filled}" stroke="{colour}" stroke-width="1.5">',
        f"<title>{escape(one.title)}</title></circle>",
    ])  # fmt: skip
