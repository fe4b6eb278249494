"""What the drawings of the pages share: SVG without a library, the same byte for byte."""

from collections.abc import Callable, Sequence
from html import escape

INK, PALE = "#222222", "#dddddd"
FONTS = "Arial, Helvetica, 'DejaVu Sans Condensed', sans-serif"
ACCENT, DIM = "#0072b2", "#767676"
Scale = Callable[[float], float]  # where a value is drawn


def opened(width: int, height: int, title: str) -> list[str]:
    """The first lines: its size, its title for those who cannot see it, and a white ground."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="{FONTS}" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>',
    ]


def text(x: float, y: float, words: str, weight: str = "", anchor: str = "start") -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{INK}"{bold}>'
        f"{escape(words)}</text>"
    )


def step_of(extent: float, most: int = 10) -> float:
    """A round distance between the marks of an axis that gives at most so many."""
    return next(s for s in (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0) if extent / s <= most)


def axis(
    values: Sequence[float], start: float, end: float, most: int = 10
) -> tuple[Scale, list[float]]:
    """Where a value is drawn, and the round values that are marked, about so many at most."""
    step = step_of(max(values) - min(values), most)
    low = step * (min(values) // step)
    high = max(low + step, -step * (-max(values) // step))
    marks = [low + i * step for i in range(round((high - low) / step) + 1)]
    return lambda value: start + (end - start) * (value - low) / (high - low), marks
