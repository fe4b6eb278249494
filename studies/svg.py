"""Drawings without a library: the same bytes on every machine, in the reader's light or dark mode.

All are as wide as a phone's screen shows without shrinking the text, and grow on a wide page.
"""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from math import floor, log10

from linsep.report.canvas import PALETTE
from linsep.settings.catalogue import METHODS

WIDTH, SHOWN = 420, 630  # units of a drawing, pixels on a wide page
LETTER = 6.6  # the width of one, rather too large: fonts differ
STYLE = """
svg{--ink:#1f2430;--soft:#5b6270;--card:#fff;--edge:#d5d9e2}
@media(prefers-color-scheme:dark){svg{--ink:#e7e9ef;--soft:#a9b0c0;--card:#1b1d27;--edge:#3d4252}}
text{font:13px Arial,Helvetica,"DejaVu Sans Condensed",sans-serif;fill:var(--ink)}
.b{font-weight:bold}.s{font-size:12px;fill:var(--soft)}.m{text-anchor:middle}.e{text-anchor:end}
.l{font-size:12px}.l,.h{paint-order:stroke;stroke:var(--card);stroke-width:3px}
.c{fill:var(--card);stroke:var(--edge)}.g{stroke:var(--edge)}.z{stroke:var(--soft)}
"""
Scale = Callable[[float], float]  # where a value is drawn


def svg(height: float, said: str, heading: str, below: str, parts: Iterable[str]) -> str:
    """A drawing on a card; `said` is for those who cannot see it."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" '
        f'width="{SHOWN}" height="{height * SHOWN / WIDTH:.0f}" role="img">',
        f"<title>{escape(said)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="c" x=".75" y=".75" width="{WIDTH - 1.5}" height="{height - 1.5:g}" rx="8"/>',
        text(14, 26, heading, "b"),
        text(14, 44, below, "s"),
        *parts,
        "</svg>\n",
    ])  # fmt: skip


def text(x: float, y: float, words: str, kind: str = "") -> str:
    look = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{look}>{escape(words)}</text>'


def colour(method: str) -> str:
    """That of its base method, as in every report, and the text's where that is black."""
    name = METHODS[method.partition("+")[0]].look[0]
    return "var(--ink)" if name == "ink" else PALETTE[name]


def axis(values: Sequence[float], start: float, end: float, most: int) -> tuple[Scale, list[float]]:
    """Where a value is drawn, and round values to mark, at most `most` of them."""
    low, high = min(values), max(values)
    step = next(s for s in (0.5, 1, 2, 5, 10, 20, 50) if (high - low) / s <= most - 1)
    first, last = step * floor(low / step), -step * floor(-high / step)
    last = max(last, first + step)
    marks = [first + i * step for i in range(round((last - first) / step) + 1)]
    return lambda value: start + (end - start) * (value - first) / (last - first), marks


def log_axis(ticks: Sequence[float], start: float, end: float) -> Scale:
    low, high = log10(ticks[0]), log10(ticks[-1])
    return lambda value: start + (end - start) * (log10(value) - low) / (high - low)


def levels(left: float, right: float, y: Scale, marks: Sequence[float]) -> list[str]:
    """A pale line at each mark of a vertical axis, and its label."""
    lines = [f'<path class="g" d="M{left:g} {y(mark):.1f}H{right:g}"/>' for mark in marks]
    return lines + [text(left - 6, y(mark) + 4, f"{mark:g}", "s e") for mark in marks]
