"""A drawing with spots to point at, and its files: SVG, PDF, PNG.

A spot is a place in the drawing with a text that is shown there on hover, by touch or by keyboard.
The same drawing gives the same bytes. Colours that are black come out as the colour of the text
around the drawing.
"""

import io
import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import count
from typing import Any, Literal

from ..compare.tables import Table
from . import style

Share = Literal["", "x", "y", "xy"]  # axes that panels have in common
Room = Literal["third", "half", "whole"]  # of a page, at least; a phone shows one after the other
WIDTHS: dict[Room, float] = {"third": 4.1, "half": 6.4, "whole": 10.4}  # inches
READABLE = 11.0  # pixels of the smallest text, below which a drawing scrolls instead of shrinking
LARGEST = 15.0  # pixels of the smallest text, beyond which a drawing stops growing
Size = tuple[float, float]
Axes = Any  # matplotlib's, which is imported only where something is drawn
NEAR = 6.0  # points around a spot that belong to it
UNSAID = {  # by format, what a file would tell of when and how it was made
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "pdf": dict.fromkeys(("CreationDate", "Creator")),
    "png": {"Software": None},
}
FORMATS = tuple(UNSAID)


@dataclass(frozen=True)
class Spot:
    axes: Any
    x: float
    y: float
    text: str
    size: Size | None = None  # of a cell around (x, y), in data units; else round
    variant: str = ""  # that it comes and goes with


class Canvas:
    """A matplotlib figure and its spots; `room` sets its width, and `height` is in inches."""

    def __init__(self, room: Room, height: float) -> None:
        from matplotlib.figure import Figure as Drawing

        size = WIDTHS[room], height
        self.drawing: Any = Drawing(figsize=size, layout="constrained", dpi=72)
        self.spots: list[Spot] = []
        self.grids: list[Any] = []  # axes whose cells are found in the figure's table

    def panels(
        self, titles: Collection[str] = ("",), columns: int = 0, *, share: Share = ""
    ) -> list[Axes]:
        """Axes with these titles, in rows of `columns` panels, or all in one row."""
        columns = columns or len(titles)
        shape = math.ceil(len(titles) / columns), columns
        sharing = {"sharex": "x" in share, "sharey": "y" in share}
        made = self.drawing.subplots(*shape, **sharing, squeeze=False).ravel().tolist()
        for axes, title in zip(made, titles, strict=False):
            axes.set_title(title)
        for axes in made[len(titles) :]:
            axes.set_axis_off()
        return list(made[: len(titles)])

    def spot(
        self, axes: Axes, x: float, y: float, text: str, size: Size | None = None, variant: str = ""
    ) -> None:
        self.spots.append(Spot(axes, x, y, text, size, variant))


@dataclass(frozen=True, eq=False)
class Figure:
    """What a report shows and `linsep figures` writes."""

    name: str  # of its files, and unique in a report
    title: str
    caption: str
    draw: Callable[[], Canvas]
    data: Table
    room: Room = "third"
    variants: Sequence[str] = ()  # it comes and goes with these; () if it is about all of them

    def svg(self) -> str:
        with style.house(self.name):
            return _svg(self.draw(), self.title)

    def file(self, format_: str) -> bytes:
        if format_ == "svg":
            return self.svg().encode()
        out, look = io.BytesIO(), {"dpi": 200, "facecolor": "white"} if format_ == "png" else {}
        with style.house():
            self.draw().drawing.savefig(out, format=format_, metadata=UNSAID[format_], **look)
        return out.getvalue()


def numbered(figures: Sequence[Figure]) -> list[Figure]:
    """Names that would be alike on a disk get a number."""
    found: dict[str, Figure] = {}
    for figure in figures:
        names = (figure.name if n == 1 else f"{figure.name}-{n}" for n in count(1))
        name = next(name for name in names if name.lower() not in found)
        found[name.lower()] = replace(figure, name=name)
    return list(found.values())


def swatch(look: style.Look) -> str:
    """A line and its marker, as legends show them, as a small SVG."""
    from matplotlib.markers import MarkerStyle

    shape = MarkerStyle(look.marker)
    path = shape.get_path().transformed(shape.get_transform())
    scale = 4.4 / max(abs(v) for v in path.get_extents().get_points().ravel())
    outline: Any = path.to_polygons()[0]
    points = "L".join(f"{14 + scale * x:.2f} {6 - scale * y:.2f}" for x, y in outline)
    colour = "currentColor" if look.colour == style.INK else look.colour
    dashes = {"--": "6 3", ":": "2 3", "-.": "6 3 2 3"}.get(look.dash, "none")
    return (
        f'<svg width="28" height="12" viewBox="0 0 28 12" aria-hidden="true"><path d="M0 6H28" '
        f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
        f'<path d="M{points}Z" fill="{colour}"/></svg>'
    )


# --- SVG -----------------------------------------------------------------------------------------


def _svg(canvas: Canvas, title: str) -> str:
    """matplotlib's SVG with the page's colours, data-variant instead of ids, and the spots."""
    out = io.StringIO()
    canvas.drawing.savefig(out, format="svg", metadata=UNSAID["svg"])
    text = re.sub(r"<!--.*?-->|(?<=>)\s+(?=<)", "", out.getvalue())
    text = re.sub(r"<[^>]*>", _for_the_page, text)
    width, height = (72 * inches for inches in canvas.drawing.get_size_inches())
    least, most = (pixels / style.TEXT * width for pixels in (READABLE, LARGEST))
    root = (
        f'<svg role="img" aria-label="{escape(style.clean(title, 200))}" fill="currentColor" '
        f'style="min-width:{math.ceil(least)}px;max-width:{math.floor(most)}px"'
    )
    body = text[text.index("<svg") + len("<svg") : text.rindex("</svg>")]
    return f"{root}{body}{_grids(canvas, height)}{_spots(canvas, height)}</svg>\n"


def _for_the_page(tag: re.Match[str]) -> str:
    """A tag in the page's colours, with the variant that it belongs to, and with short numbers."""
    text = tag[0].replace("#000000", "currentColor")
    text = re.sub(r' id="(variant|key)-(\d+)"', r' class="\1" data-variant="\2"', text)
    text = re.sub(r' id="[\w.]+_\d+"', "", text)  # of groups, alike in every drawing
    return re.sub(r"(?<=\d\.\d\d)\d+", "", text)


def _spots(canvas: Canvas, height: float) -> str:
    parts = []
    for spot in canvas.spots:
        text = escape(style.clean(spot.text, 200))
        if spot.size is None:
            x, y = spot.axes.transData.transform((spot.x, spot.y))
            shape, sides = "circle", f'cx="{x:.2f}" cy="{height - y:.2f}" r="{NEAR:g}"'
        else:
            w, h = spot.size
            corners = [(spot.x + s * w, spot.y + s * h) for s in (-0.5, 0.5)]
            shape, sides = "rect", _rect(spot.axes.transData.transform(corners), height)
        variant = f' data-variant="{spot.variant}"' if spot.variant else ""
        parts.append(f"<{shape}{variant} {sides}><title>{text}</title></{shape}>")
    return f'<g class="spots" fill="transparent">{"".join(parts)}</g>' if parts else ""


def _grids(canvas: Canvas, height: float) -> str:
    """A field whose cells' texts a script finds in the figure's table: one shape for thousands."""
    parts = []
    for axes in canvas.grids:
        box = _rect(axes.get_window_extent().get_points(), height)
        side = len(axes.images[0].get_array())
        parts.append(f'<rect class="grid" data-side="{side}" {box} fill="transparent"/>')
    return "".join(parts)


def _rect(corners: Any, height: float) -> str:
    """Attributes of a rectangle between two corners, whose y counts from below."""
    (x0, x1), (y0, y1) = (sorted(values) for values in zip(*corners, strict=True))
    sides = {"x": x0, "y": height - y1, "width": x1 - x0, "height": y1 - y0}
    return " ".join(f'{name}="{value:.2f}"' for name, value in sides.items())
