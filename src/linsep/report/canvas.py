"""A drawing with spots to point at, and its files: SVG, PDF, PNG.

A spot is a place in the drawing with a text that is shown there on hover, by touch or by keyboard.
The same drawing gives the same bytes. Colours that are black come out as the colour of the text
around the drawing.

Knows matplotlib and what its SVG looks like. Knows nothing of runs.
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
Axes = Any  # matplotlib's, which is imported only where something is drawn
LONG_PATH = 120  # letters
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
    size: tuple[float, float] | None = None  # of a cell around (x, y), in data units; else round
    arm: str = ""  # that it comes and goes with


class Canvas:
    """A matplotlib figure that has so much room, so many inches high, and its spots."""

    def __init__(self, room: Room, height: float) -> None:
        from matplotlib.figure import Figure as Drawing

        size = WIDTHS[room], height
        self.drawing: Any = Drawing(figsize=size, layout="constrained", dpi=72)
        self.spots: list[Spot] = []
        self.grids: list[Any] = []  # axes whose cells are found in the figure's table

    def panels(
        self, titles: Collection[str] = ("",), columns: int = 0, *, share: Share = ""
    ) -> list[Axes]:
        """Axes with these titles, in rows of so many columns, or all in one; `share` is 'xy'."""
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
        self,
        axes: Axes,
        x: float,
        y: float,
        text: str,
        size: tuple[float, float] | None = None,
        arm: str = "",
    ) -> None:
        self.spots.append(Spot(axes, x, y, text, size, arm))


@dataclass(frozen=True, eq=False)
class Figure:
    """What a report shows and `linsep figures` writes."""

    name: str  # of its files, and unique in a report
    title: str
    caption: str
    draw: Callable[[], Canvas]
    data: Table
    room: Room = "third"
    arms: Sequence[str] = ()  # it comes and goes with these; () if it is about all of them

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
    points = "L".join(f"{_number(14 + scale * x)} {_number(6 - scale * y)}" for x, y in outline)
    colour = "currentColor" if look.colour == style.INK else look.colour
    dashes = {"--": "6 3", ":": "2 3", "-.": "6 3 2 3"}.get(look.dash, "none")
    return (
        f'<svg width="28" height="12" viewBox="0 0 28 12" aria-hidden="true"><path d="M0 6H28" '
        f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
        f'<path d="M{points}Z" fill="{colour}"/></svg>'
    )


# --- SVG -----------------------------------------------------------------------------------------


def _svg(canvas: Canvas, title: str) -> str:
    """matplotlib's SVG, smaller, with the page's colours and fonts, and with the spots."""
    out = io.StringIO()
    canvas.drawing.savefig(out, format="svg", metadata=UNSAID["svg"])
    text = out.getvalue()
    body = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.S)
    body = re.sub(r"<[^>]*>", _shorter, body)
    body = _one_grid(_styled_once(body))
    body = re.sub(r"<defs>\s*</defs>", "", re.sub(r">\s*\n\s*<", "><", body))
    for _ in range(3):  # groups around a single shape, or around such a group
        body = re.sub(r"<g>((?:<path [^>]*/>)*|<text[^>]*>[^<]*</text>)</g>", r"\1", body)
    body = re.sub(r'(?<= d=")[^"]*', lambda m: re.sub(" ?([A-Za-z]) ?", r"\1", m[0]), body)
    width, height = (72 * v for v in canvas.drawing.get_size_inches())
    size = f'width="{1.25 * width:g}" height="{1.25 * height:g}" viewBox="0 0 {width:g} {height:g}"'
    least, most = (pixels / style.TEXT * width for pixels in (READABLE, LARGEST))
    size += f' style="min-width:{math.ceil(least)}px;max-width:{math.floor(most)}px"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
        f'aria-label="{escape(style.clean(title, 200))}" font-family="{style.FONTS}" '
        f'fill="currentColor" stroke-linejoin="round">{body.strip()}\n'
        f"{_grids(canvas, height)}{_spots(canvas, height)}</svg>\n"
    )


def _shorter(tag: re.Match[str]) -> str:
    """A tag with the page's colours and fonts, and with no more digits than can be seen."""
    text = tag[0].replace("#000000", "currentColor").replace("xlink:href", "href")
    text = re.sub(r' id="(arm|key)-(\d+)"', r' class="\1" data-arm="\2"', text)
    text = re.sub(r' id="[^"]*_\d+"', "", text)  # of groups, which nothing refers to
    text = re.sub(r"font: ((?:bold |italic )?)([\d.]+)px [^;\"]*", _font, text)
    text = re.sub(r"font-family: [^;\"]*(; )?|stroke-linejoin: miter; ", "", text)
    text = re.sub(r'(?<= style=")[^"]*', lambda m: re.sub(r"(?<=[:;]) ", "", m[0]), text)
    text = re.sub(r' transform="rotate\(-?0 [^"]*"', "", text)
    text = re.sub(r' d="([^"]*)"', lambda m: f' d="{_short(m[1])}"', text)
    return re.sub(r'( (?:x|y)=")([-\d.]+)"', lambda m: f'{m[1]}{_number(float(m[2]))}"', text)


def _font(match: re.Match[str]) -> str:
    kind = {"bold": "font-weight: bold; ", "italic": "font-style: italic; "}
    return f"{kind.get(match[1].strip(), '')}font-size: {match[2]}px"


def _short(path: str) -> str:
    """Coordinates to a hundredth of a point; long lines to a tenth, each from the one before."""
    if len(path) >= LONG_PATH and not re.search("[^-ML0-9. \n]", path):
        return _steps(path)
    found = re.sub(r"-?\d+\.\d+", lambda m: _number(float(m[0])), path)
    return " ".join(found.split())


def _steps(path: str) -> str:
    """'M 10 10 L 12 11 M 30 10' -> 'm10 10l2 1m18-1'."""
    parts, before = [], (0, 0)
    for kind, x, y in re.findall(r"([ML]) ([-\d.]+) ([-\d.]+)", path):
        here = round(10 * float(x)), round(10 * float(y))
        step = [_number((b - a) / 10, 1) for a, b in zip(before, here, strict=True)]
        step = [re.sub(r"^(-?)0\.", r"\1.", number) for number in step]
        parts.append(f"{kind.lower()}{step[0]} {step[1]}".replace(" -", "-"))
        before = here
    return re.sub(r"l0 (-?[\d.]+)", r"v\1", "".join(parts))  # dots and strokes


def _number(value: float, digits: int = 2) -> str:
    return f"{value:z.{digits}f}".rstrip("0").rstrip(".")


def _styled_once(body: str) -> str:
    """Move the style of a marker that is drawn alike everywhere to its definition."""
    use = re.compile(r'(<use href="#([^"]+)"[^>]*?) style="([^"]*)"/>')
    styles: dict[str, set[str]] = {}
    for _, marker, look in use.findall(body):
        styles.setdefault(marker, set()).add(look)
    once = {marker: looks.pop() for marker, looks in styles.items() if len(looks) == 1}

    def defined(tag: re.Match[str]) -> str:
        return f'{tag[1]} style="{once[tag[2]]}"/>' if tag[2] in once else tag[0]

    body = use.sub(lambda tag: f"{tag[1]}/>" if tag[2] in once else tag[0], body)
    return re.sub(r'(<path id="([^"]+)"[^>]*?)(?: style="[^"]*")?/>', defined, body)


def _one_grid(body: str) -> str:
    """All grid lines of a panel as one path, where the first of them was: below all else."""
    line = re.compile(r'<path d="(M [^"]*)" (clip-path="[^"]*" style="[^"]*opacity:0\.25[^"]*")/>')
    lines: dict[str, list[str]] = {}
    for path, look in line.findall(body):
        lines.setdefault(look, []).append(path)

    def once(tag: re.Match[str]) -> str:
        paths = lines.pop(tag[2], None)
        return f'<path d="{" ".join(paths)}" {tag[2]}/>' if paths else ""

    return line.sub(once, body)


def _spots(canvas: Canvas, height: float) -> str:
    parts = []
    for spot in canvas.spots:
        text = escape(style.clean(spot.text, 200))
        if spot.size is None:
            x, y = spot.axes.transData.transform((spot.x, spot.y))
            shape, sides = "circle", f'cx="{_number(x)}" cy="{_number(height - y)}" r="{NEAR:g}"'
        else:
            w, h = spot.size
            corners = [(spot.x + s * w, spot.y + s * h) for s in (-0.5, 0.5)]
            shape, sides = "rect", _rect(spot.axes.transData.transform(corners), height)
        arm = f' data-arm="{spot.arm}"' if spot.arm else ""
        parts.append(f"<{shape}{arm} {sides}><title>{text}</title></{shape}>")
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
    return " ".join(f'{name}="{_number(value)}"' for name, value in sides.items())
