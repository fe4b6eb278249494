"""All paired differences of the evidence in one drawing: an SVG without a library, byte for byte.

Knows outcomes. Knows nothing of how they were found.
"""

from collections.abc import Callable, Sequence

from ..compare.titles import title
from .claims import CARRIED, Contrast, Side
from .drawing import ACCENT, DIM, PALE, opened, step_of, text
from .evidence import FEWEST, Finding, Outcome, Verdict

WIDTH, LABELS, RIGHT, ROW, TOP, BOTTOM = 940, 452, 30, 26, 54, 58  # pixels
WIDEST = 20.0  # points; a wider interval does not stretch the axis and ends in an arrow
COLOURS: dict[Verdict, str] = {
    "holds": ACCENT, "does not hold": "#d55e00", "undecided": DIM,
}  # fmt: skip
MEASURES = {
    "class_il.faa": "Class-IL FAA", "class_il.ff": "Class-IL FF", "class_il.ala": "Class-IL ALA",
    "task_il.faa": "Task-IL FAA", "probe.accuracy": "linear probe", "cka.seen": "CKA, seen classes",
    "cka.unseen": "CKA, new classes",
}  # fmt: skip
PLAIN = f", {MEASURES['class_il.faa']}"  # what a label need not say
WHERE = {
    "stream": "BatchNorm by the stream", "reestimated": "BatchNorm re-estimated",
    "cifar100": "Split CIFAR-100", "shuffled": "shuffled classes", "resnet": "ResNet-18",
}  # fmt: skip


def side_title(side: Side) -> str:
    """'DER++ w/ BFP', 'DER++ w/ BFP at weight 0'."""
    weight = 0 if side.part == "control" else side.fields.get("bfp.weight")
    return title(side.method) + (f" at weight {weight:g}" if weight is not None else "")


def contrast_title(outcome: Outcome) -> str:
    """'DER++ w/ BFP − DER++, Class-IL FAA'."""
    contrast = outcome.contrast
    where = WHERE.get(contrast.arm.part) or WHERE.get(contrast.against.part)
    parts = [_sides(contrast), MEASURES[contrast.measure], where]
    return ", ".join(filter(None, parts))


def _sides(contrast: Contrast) -> str:
    arm, against = contrast.arm, contrast.against
    if arm.fields and arm.method == against.method:
        high, low = (side.fields["bfp.weight"] for side in (arm, against))
        return f"{title(arm.method)} at weight {high:g} − at weight {low:g}"
    return f"{side_title(arm)} − {side_title(against)}"


def picture(found: Sequence[Finding]) -> str:
    """Every test of a claim of the paper with pairs enough to say something: its mean difference,
    its interval and the paper's own figure.
    """
    tests = [outcome for f in found if f.claim not in CARRIED for outcome in f.outcomes]
    rows = [o for o in tests if o.pairs is not None and o.pairs.difference.n >= FEWEST]
    ends = [0.0, *(v for o in rows for v in _ends(o))]
    low, high = min(ends), max(ends)
    step = max(1.0, step_of(high - low))
    low = step * (low // step)
    high = max(low + step, -step * (-high // step))
    height = TOP + ROW * len(rows) + BOTTOM

    def x(value: float) -> float:
        return LABELS + (WIDTH - LABELS - RIGHT) * (value - low) / (high - low)

    parts = opened(WIDTH, height, "Paired differences of the evidence, with 95 % intervals")
    heading = (
        "Paired differences in percentage points of Class-IL FAA, unless named, with 95 % intervals"
    )
    parts.append(text(16, 28, heading, "bold"))
    foot = TOP + ROW * len(rows)
    for i in range(round((high - low) / step) + 1):
        at = low + i * step
        colour = "#333333" if at == 0 else PALE
        parts.append(f'<path d="M{x(at):.1f} {TOP}V{foot}" stroke="{colour}"/>')
        parts.append(text(x(at), foot + 18, f"{at:+g}" if at else "0", anchor="middle"))
    for i, outcome in enumerate(rows):
        parts.append(_row(outcome, x, TOP + ROW * (i + 0.5)))
    parts.append(_legend(height - 16))
    return "\n".join([*parts, "</svg>\n"])


def _ends(outcome: Outcome) -> list[float]:
    """What the axis has to hold of a test."""
    assert outcome.pairs is not None
    gap = outcome.pairs.difference
    narrow = gap.low is not None and gap.high is not None and gap.high - gap.low <= WIDEST
    values = (gap.mean, outcome.printed, *((gap.low, gap.high) if narrow else ()))
    return [value for value in values if value is not None]


def _row(outcome: Outcome, x: Callable[[float], float], y: float) -> str:
    assert outcome.pairs is not None
    gap, colour = outcome.pairs.difference, COLOURS[outcome.verdict]
    label = f"{contrast_title(outcome).replace(PLAIN, '')} (n = {gap.n})"
    parts = [text(LABELS - 12, y + 4, label, anchor="end")]
    if gap.low is not None and gap.high is not None:
        parts.append(_interval(x(gap.low), x(gap.high), y, colour))
    parts.append(f'<circle cx="{x(gap.mean):.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>')
    if outcome.printed is not None:
        parts.append(_diamond(x(outcome.printed), y))
    return "".join(parts)


def _interval(low: float, high: float, y: float, colour: str) -> str:
    """A line between two places; an end outside the axis is an arrow at its edge."""
    left, right = max(low, LABELS), min(high, WIDTH - RIGHT)
    drawn = [f"M{left:.1f} {y:.1f}H{right:.1f}"]
    drawn += [f"M{left + 6:.1f} {y - 5:.1f}l-6 5l6 5"] * (left > low)
    drawn += [f"M{right - 6:.1f} {y - 5:.1f}l6 5l-6 5"] * (right < high)
    return f'<path d="{"".join(drawn)}" fill="none" stroke="{colour}" stroke-width="2.5"/>'


def _diamond(x: float, y: float) -> str:
    shape = f"M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z"
    return f'<path d="{shape}" fill="none" stroke="#333333" stroke-width="1.5"/>'


def _legend(y: float) -> str:
    parts, x = [], 16.0
    for verdict, colour in COLOURS.items():
        parts.append(f'<circle cx="{x + 5:.1f}" cy="{y - 4:.1f}" r="5" fill="{colour}"/>')
        words = verdict if verdict == "undecided" else f"claim {verdict}"
        parts.append(text(x + 16, y, words))
        x += 46 + 7 * len(words)
    return "".join([*parts, _diamond(x + 6, y - 4), text(x + 20, y, "the paper's figure")])
