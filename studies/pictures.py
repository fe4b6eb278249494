"""The figures of the pages: the primary tests, the features, and accuracy against compute."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from linsep.compare.statistics import Summary
from linsep.compare.variants import is_bound, title

from .evidence import Finding, Outcome, Verdict
from .features import Analysed, Line
from .frontier import Combination, Frontier
from .svg import LETTER, WIDTH, Scale, axis, colour, levels, log_axis, svg, text

# --- the evidence: what BFP adds, three times -----------------------------------------------------

GROUPS = {  # claims, and what they say of BFP
    ("er", "derpp"): "In all",
    ("control",): "By its loss alone (against BFP at weight 0)",
    ("recalibrated",): "In all, with recalibrated BatchNorm statistics",
}
LABELS, TOP, ROW, HEADING = 74, 60, 26, 24  # units
COLOURS: dict[Verdict, str] = {
    "supported": "#0072B2", "partly supported": "#56B4E9", "not supported": "#D55E00",
    "inconclusive": "#7f7f7f",
}  # fmt: skip


def evidence_picture(found: Sequence[Finding]) -> str:
    """Differences with intervals, and the paper's own; of the tests whose pairs are all there."""
    tests = {f.claim.name: [o for o in f.outcomes if o.decided] for f in found}
    groups = {words: [o for name in names for o in tests[name]] for names, words in GROUPS.items()}
    ends = [v for rows in groups.values() for o in rows for v in _ends(o)]
    x, marks = axis([0.0, *ends], LABELS, WIDTH - 20, 11)
    parts, y = list[str](), float(TOP)
    for words, rows in groups.items():
        parts.append(text(14, y + 17, words, "s h"))
        y += HEADING
        for outcome in rows:
            parts.append(_test(outcome, x, y + ROW / 2))
            y += ROW
    lines = [_mark(mark, x(mark), TOP, y) for mark in marks]
    lines.append(text(WIDTH - 20, TOP + 17, "better →", "s e"))
    heading = "What BFP adds to final accuracy"
    below = "Class-IL, in percentage points with 95 % intervals"
    parts = [*lines, *parts, _verdicts(y + 50, [o for rows in groups.values() for o in rows])]
    return svg(y + 66, f"{heading}, {below}", heading, below, parts)


def _ends(outcome: Outcome) -> list[float]:
    assert outcome.pairs is not None
    gap = outcome.pairs.difference
    return [v for v in (gap.low, gap.high, outcome.printed) if v is not None]


def _mark(value: float, x: float, top: float, foot: float) -> str:
    line = f'<path class="{"g" if value else "z"}" d="M{x:.1f} {top:g}V{foot:g}"/>'
    return line + text(x, foot + 17, f"{value:+g}" if value else "0", "s m")


def _test(outcome: Outcome, x: Scale, y: float) -> str:
    assert outcome.pairs is not None
    gap, ink = outcome.pairs.difference, COLOURS[outcome.verdict]
    assert gap.low is not None
    assert gap.high is not None
    name = title(outcome.contrast.variant.method.partition("+")[0])
    parts = [text(LABELS - 10, y + 4, name, "e")]
    line = f'd="M{x(gap.low):.1f} {y:.1f}H{x(gap.high):.1f}" stroke="{ink}" stroke-width="3"'
    parts += [
        f"<path {line}/>",
        f'<circle cx="{x(gap.mean):.1f}" cy="{y:.1f}" r="5" fill="{ink}"/>',
    ]
    return "".join([*parts, _diamond(x(outcome.printed), y) if outcome.printed is not None else ""])


def _diamond(x: float, y: float) -> str:
    shape = f"M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z"
    return f'<path d="{shape}" fill="none" stroke="var(--ink)" stroke-width="1.5"/>'


def _verdicts(y: float, rows: Sequence[Outcome]) -> str:
    parts, x, there = list[str](), 14.0, {outcome.verdict for outcome in rows}
    for verdict in (verdict for verdict in COLOURS if verdict in there):
        parts.append(f'<circle cx="{x + 5:g}" cy="{y - 4:g}" r="5" fill="{COLOURS[verdict]}"/>')
        parts.append(text(x + 15, y, verdict, "s"))
        x += 28 + LETTER * len(verdict)
    return "".join([*parts, _diamond(x + 6, y - 4), text(x + 17, y, "the paper", "s")])


# --- the features: four panels, a line for each method -------------------------------------------

DASHES = {"fd": "3 3", "bfp": "8 3"}  # of add-ons; a method without one has a plain line
LEFT, RIGHT, FIRST, PANEL, DOWN = 40, WIDTH - 14, 136, 140, 212


def features_picture(several: Sequence[Analysed]) -> str:
    panels: list[tuple[str, str, dict[str, Line]]] = [
        ("Directions that the features fill (figure 2)", "after task", {
            one.method: one.by_task("spectrum", "effective rank") for one in several}),
        ("Accuracy of a linear probe in percent (figure 4)", "percent of the training images", {
            one.method: one.by_portion() for one in several}),
        ("CKA of seen classes x 100 (figure 5)", "before and after task", {
            one.method: one.by_task("cka", "seen, centred") for one in several}),
        ("CKA of new classes x 100 (figure 5)", "before and after task", {
            one.method: one.by_task("cka", "unseen, centred") for one in several}),
    ]  # fmt: skip
    parts = _methods([one.method for one in several])
    for i, (heading, below, lines) in enumerate(panels):
        known = {method: line for method, line in lines.items() if len(line) > 1}
        parts += _panel(heading, below, known, FIRST + DOWN * i, log=i == 1)
    said = "Effective rank, linear probes and CKA by method"
    below = "means over five seeds; bands are standard deviations"
    return svg(FIRST + DOWN * 4 - 10, said, "What happens to the features", below, parts)


def _methods(methods: Sequence[str]) -> list[str]:
    """The legend, three in a line."""
    parts = list[str]()
    for i, method in enumerate(methods):
        x, y = 14 + 132 * (i % 3), 62 + 18 * (i // 3)
        parts += [
            f'<path d="M{x} {y}h20" {_stroke(method)}/>',
            text(x + 25, y + 4, title(method), "s"),
        ]
    return parts


def _stroke(method: str) -> str:
    dash = DASHES.get(method.rpartition("+")[2], "none")
    return f'stroke="{colour(method)}" stroke-width="2.2" stroke-dasharray="{dash}" fill="none"'


def _panel(
    heading: str, below: str, lines: Mapping[str, Line], top: float, *, log: bool
) -> list[str]:
    foot = top + PANEL
    ends = [v for line in lines.values() for _, found in line for v in _band(found)]
    y, marks = axis(ends, foot, top, 6)
    ticks = sorted({at for line in lines.values() for at, _ in line})
    x = log_axis(ticks, LEFT + 10, RIGHT - 10) if log else axis(ticks, LEFT + 10, RIGHT - 10, 5)[0]
    parts = [text(14, top - 10, heading), *levels(LEFT, RIGHT, y, marks)]
    parts += [text(x(at), foot + 17, f"{at:.3g}", "s m") for at in ticks]
    parts.append(text((LEFT + RIGHT) / 2, foot + 34, below, "s m"))
    for method, line in lines.items():
        high = "L".join(f"{x(at):.1f} {y(_band(found)[1]):.1f}" for at, found in line)
        low = "L".join(f"{x(at):.1f} {y(_band(found)[0]):.1f}" for at, found in reversed(line))
        parts.append(f'<path d="M{high}L{low}Z" fill="{colour(method)}" opacity=".16"/>')
    for method, line in lines.items():
        path = "L".join(f"{x(at):.1f} {y(found.mean):.1f}" for at, found in line)
        parts.append(f'<path d="M{path}" {_stroke(method)}/>')
    return parts


def _band(found: Summary) -> tuple[float, float]:
    return found.mean - (found.std or 0.0), found.mean + (found.std or 0.0)


# --- the frontier: every combination at its compute ----------------------------------------------

FLOOR = 30.0  # percent; what is below is in the table only
BETWEEN = (36, WIDTH - 14, 108, 470)  # left, right, top, foot of the plot
FAMILIES = {"ft": "FT, LwF", "er": "ER", "er_ace": "ER-ACE", "derpp": "DER++"}
HEADS = {"": "trained head", "refit": "re-trained head", "transport": "carried statistics"}
NAMED = (  # parts and methods, the most important first: its place is chosen first
    ("transport, fd", "ft+fd+transport"), ("main", "derpp+bfp"), ("main", "derpp"), ("main", "er"),
    ("main", "er+bfp"), ("transport", "ft+transport"), ("transport", "ft+bfp+transport"),
    ("refit", "er+refit"), ("chosen refit", "derpp+fd+ser+refit"), ("refit", "derpp+bfp+refit"),
    ("transport", "derpp+bfp+transport"),
)  # fmt: skip
Box = tuple[float, float, float, float]  # left, top, right, bottom


def frontier_picture(found: Frontier) -> str:
    """A mark for each combination, in its base method's colour; the best known have their names."""
    left, right, top, foot = BETWEEN
    shown = [c for c in found.combinations if c.faa.mean >= FLOOR and not is_bound(c.method)]
    y, marks = axis([FLOOR, *(c.faa.mean for c in shown)], foot, top, 6)
    x, ticks = axis([1.0, *(c.compute for c in shown)], left + 12, right, 7)
    places = [(x(c.compute), y(c.faa.mean)) for c in shown]
    named = [c for c in shown if (c.part, c.method) in NAMED]
    parts = levels(left, right, y, marks) + _legend()
    parts += [text(x(tick), foot + 17, f"{tick:g}", "s m") for tick in ticks]
    parts.append(text((left + right) / 2, foot + 36, "compute, relative to fine-tuning", "s m"))
    steps = [(x(c.compute), y(c.faa.mean)) for c in found.leading if c in shown]
    parts.append(_steps(steps, right))
    for c, place in zip(shown, places, strict=True):
        parts.append(_dot(c, *place, faint=c not in named))
    ends = [*(across for across, _ in steps[1:]), float(right)]
    covered = [(a - 5, b - 5, a + 5, b + 5) for a, b in places]
    covered += [(a, b - 1, end, b + 1) for (a, b), end in zip(steps, ends, strict=False)]
    parts += _names(named, x, y, covered)
    below = len([c for c in found.combinations if c.faa.mean < FLOOR])
    said = "Class-IL accuracy of each combination against its compute"
    heading = "Accuracy against compute"
    under = f"Class-IL FAA in percent; {below} combinations below {FLOOR:g} are not shown"
    return svg(foot + 50, said, heading, under, parts)


def _legend() -> list[str]:
    parts, x = list[str](), 14.0
    for base, name in FAMILIES.items():
        parts += [_shape("", x + 6, 65, colour(base)), text(x + 16, 69, name)]
        x += 36 + 8 * len(name)
    x = 14.0
    for head, name in HEADS.items():
        parts += [_shape(head, x + 6, 87, "var(--soft)"), text(x + 16, 91, name, "s")]
        x += 30 + LETTER * len(name)
    return parts


def _steps(points: Sequence[tuple[float, float]], right: float) -> str:
    """The frontier: the best accuracy for at most this compute."""
    if not points:
        return ""
    first, *rest = points
    path = f"M{first[0]:.1f} {first[1]:.1f}" + "".join(f"H{a:.1f}V{b:.1f}" for a, b in rest)
    return f'<path class="z" d="{path}H{right:g}" fill="none" stroke-dasharray="4 3"/>'


def _dot(one: Combination, x: float, y: float, *, faint: bool) -> str:
    mark = _shape(one.head, x, y, colour("ft" if one.base == "lwf" else one.base))
    pale = ' opacity=".45"' if faint else ""
    return f"<g{pale}><title>{escape(one.title)}</title>{mark}</g>"


def _shape(head: str, x: float, y: float, ink: str) -> str:
    """A ring for a trained head, a disc for a re-trained one, a diamond for carried statistics."""
    if head == "transport":
        return f'<path d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z" fill="{ink}"/>'
    fill = ink if head else "var(--card)"
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{fill}" stroke="{ink}" stroke-width="2"/>'
    )


def _names(
    named: Sequence[Combination], x: Scale, y: Scale, others: Sequence[Box]
) -> Iterator[str]:
    """Each where it covers least: names that are there already, and then the others."""
    taken: list[Box] = []
    order = list(NAMED)
    for one in sorted(named, key=lambda c: order.index((c.part, c.method))):
        at, length = (x(one.compute), y(one.faa.mean)), LETTER * len(one.label)
        boxes = [box for box in _around(*at, length) if box[0] > BETWEEN[0] and box[2] < WIDTH - 4]
        best = min(boxes, key=lambda box: 9 * _covered(box, taken) + _covered(box, others))
        taken.append(best)
        yield text(best[0] + 1, best[3] - 3, one.label, "l")


def _around(x: float, y: float, length: float) -> Iterator[Box]:
    for left in (x + 9, x - length / 2, x - 9 - length):
        for top in (y - 7, y - 21, y + 7, y - 14, y):
            if left != x - length / 2 or abs(top + 7 - y) > 12:
                yield left, top, left + length, top + 14


def _covered(box: Box, others: Sequence[Box]) -> float:
    return sum(
        max(0.0, min(box[2], b[2]) - max(box[0], b[0]))
        * max(0.0, min(box[3], b[3]) - max(box[1], b[1]))
        for b in others
    )
