"""How figures look, and how one becomes SVG, PDF or PNG.

A base method has a colour and a marker, the same in every figure of every report; add-ons keep the
colour and have dashes and markers of their own. Colours are Okabe and Ito's, which colour-blind
readers can tell apart, without yellow, which cannot be seen on white. Black is written as the
colour of the page's text, so that it turns white in the dark.
"""

import io
import math
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from itertools import count
from typing import Any, Literal, NamedTuple
from xml.etree import ElementTree
from zlib import crc32

from ..compare.tables import Table
from ..optional import needed
from ..settings.catalogue import METHODS

PALETTE = {
    "blue": "#0072B2", "orange": "#E69F00", "green": "#009E73", "purple": "#CC79A7",
    "sky": "#56B4E9", "red": "#D55E00", "grey": "#999999", "ink": "#000000",
}  # fmt: skip
BLUE, INK = PALETTE["blue"], PALETTE["ink"]
DIM = "#7f7f7f"  # for what should be seen less, on white and on black

# Markers of add-ons, by the base's: two bases that share a colour share none of these.
MARKERS = {
    "o": {"bfp": "s", "bfp2": "v", "fd": "^"},
    "P": {"bfp": "p", "bfp2": "<", "fd": ">"},
    "X": {"bfp": "H", "bfp2": "d", "fd": "*"},
}
MORE = ("D", "p", "<", ">", "*", "X", "H")  # of further variants of one method
DASHES = ("-", "--", ":", "-.")

TEXT = 9.0  # points of all text, as report.mplstyle has it
Share = Literal["", "x", "y", "xy"]  # axes that panels have in common
Room = Literal["third", "half", "whole"]  # of a page, at least; a phone shows one after the other
WIDTHS: dict[Room, float] = {"third": 3.5, "half": 6.0, "whole": 8.8}  # inches
READABLE = 11.0  # pixels of the smallest text, below which a drawing scrolls instead of shrinking
LARGEST = 15.0  # pixels of the smallest text, beyond which a drawing stops growing
NEAR = 6.0  # points around a spot that belong to it
Axes = Any  # matplotlib's, which is imported only where something is drawn
UNSAID = {  # by format, what a file would tell of when and how it was made
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "pdf": dict.fromkeys(("CreationDate", "Creator")),
    "png": {"Software": None},
}
FORMATS = tuple(UNSAID)


# --- looks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    colour: str
    marker: str
    dash: str
    variant: str = ""  # the entry of the page's legend that it is of

    @property
    def gid(self) -> str | None:
        """The mark of a variant's parts in a drawing, by which the page's script finds them."""
        return f"variant-{self.variant}" if self.variant else None

    @property
    def on_page(self) -> str:
        """The colour in HTML, where black is that of the page's text."""
        return "currentColor" if self.colour == INK else self.colour

    @property
    def plain(self) -> dict[str, Any]:
        """What matplotlib is told of everything that belongs to the variant."""
        return {"color": self.colour, "gid": self.gid}


def looks(variants: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Look]:
    """Return the look of every (method, label); variants of one method differ in dashes."""
    found: dict[tuple[str, str], Look] = {}
    before: dict[str, int] = {}
    for method, label in dict.fromkeys(variants):  # the same variant may be in several blocks
        base, *addons = method.split("+")
        number = before.setdefault(method, 0)
        before[method] += 1
        colour, marker = _base_look(base)
        if addons:
            marker = MARKERS.get(marker, MARKERS["o"]).get(addons[-1], "d")
        if number:
            others = [m for m in MORE if m != marker]
            marker = others[(number - 1) % len(others)]
        dash = DASHES[(bool(addons) + number) % len(DASHES)]
        found[method, label] = Look(colour, marker, dash, str(len(found)))
    return found


def _base_look(base: str) -> tuple[str, str]:
    """A method's colour and marker, which depend on its name alone."""
    if base in METHODS:
        colour, marker = METHODS[base].look
        return PALETTE[colour], marker
    return list(PALETTE.values())[crc32(base.encode()) % len(PALETTE)], "h"


def shades(name: str, low: float, high: float, n: int) -> list[str]:
    """Colours from a part of one of matplotlib's colour maps."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps[name](low + (high - low) * i / max(1, n - 1))) for i in range(n)]


def clean(text: str, longest: int = 60) -> str:
    """On one line, without what XML does not allow, and not too long for a label."""
    shown = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def slug(*texts: str) -> str:
    """A file's name, of letters, digits, '+', '-' and '_' only; at most 60 of each text.

    Two different texts may give the same name, to which `numbered` then adds a number.
    """
    parts = (re.sub(r"[^A-Za-z0-9+_]+", "-", text).strip("-")[:60] for text in texts)
    return "-".join(filter(None, parts))


@contextmanager
def house(figure: str = "") -> Iterator[None]:
    """Within it matplotlib draws in this style, with ids in SVG that are the figure's own."""
    matplotlib = needed("matplotlib", "a report")
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's fonts have it
        matplotlib.rcdefaults()
        with as_file(files(__package__) / "report.mplstyle") as style:
            matplotlib.rc_file(style, use_default_template=False)
        matplotlib.rcParams["svg.hashsalt"] = f"linsep {figure}"
        yield


# --- figures -------------------------------------------------------------------------------------


class Spot(NamedTuple):
    """A place in a drawing whose text is shown there on hover, by touch or by keyboard."""

    axes: Axes
    place: tuple[float, float]
    text: str
    size: tuple[float, float] | None = None  # of a cell around it, in data units; else round
    variant: str = ""  # that it comes and goes with


class Canvas:
    """A matplotlib figure and its spots; `room` sets its width, and `height` is in inches."""

    def __init__(self, room: Room, height: float) -> None:
        from matplotlib.figure import Figure as Drawing

        size = WIDTHS[room], height
        self.drawing: Any = Drawing(figsize=size, layout="constrained", dpi=72)
        self.spots: list[Spot] = []
        self.grids: list[Axes] = []  # whose cells are found in the figure's table

    def spot(self, axes: Axes, place: tuple[float, float], text: str, look: Look) -> None:
        """Show a text where a part of a variant is drawn."""
        self.spots.append(Spot(axes, place, text, variant=look.variant))

    def mark(
        self, axes: Axes, place: tuple[float, float], look: Look, label: str, std: float | None
    ) -> None:
        """A marker, and one standard deviation as a whisker."""
        whisker(axes, place, look, std)
        drawn = {"markersize": 6, "markeredgewidth": 0, "label": label}
        axes.plot(*([v] for v in place), look.marker, **drawn, **look.plain)

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


def whisker(axes: Axes, place: tuple[float, float], look: Look, std: float | None) -> None:
    if std:
        x, y = place
        axes.plot([x, x], [y - std, y + std], linewidth=1.2, alpha=0.6, **look.plain)


@dataclass(frozen=True, eq=False)
class Figure:
    """A drawing, its caption, and the table of the numbers that are drawn."""

    name: str  # of its files, and unique in a report
    title: str
    variant: str  # that it comes and goes with; "" if it is about all of them
    caption: str
    draw: Callable[[Canvas], None]
    data: Table
    room: Room = "whole"
    height: float = 3.6  # inches

    def drawn(self) -> Canvas:
        canvas = Canvas(self.room, self.height)
        self.draw(canvas)
        return canvas

    def svg(self) -> str:
        with house(self.name):
            return _svg(self.drawn(), self.title)

    def file(self, format_: str) -> bytes:
        if format_ == "svg":
            return self.svg().encode()
        out, look = io.BytesIO(), {"dpi": 200, "facecolor": "white"} if format_ == "png" else {}
        with house():
            self.drawn().drawing.savefig(out, format=format_, metadata=UNSAID[format_], **look)
        return out.getvalue()


def numbered(figures: Sequence[Figure]) -> list[Figure]:
    """Names that would be alike on a disk get a number."""
    found: dict[str, Figure] = {}
    for figure in figures:
        names = (figure.name if n == 1 else f"{figure.name}-{n}" for n in count(1))
        name = next(name for name in names if name.lower() not in found)
        found[name.lower()] = replace(figure, name=name)
    return list(found.values())


# --- SVG -----------------------------------------------------------------------------------------


def _svg(canvas: Canvas, title: str) -> str:
    """matplotlib's SVG at half its size, in the page's colours, with variants' parts and spots."""
    out = io.StringIO()
    canvas.drawing.savefig(out, format="svg", metadata=UNSAID["svg"])
    root = ElementTree.fromstring(out.getvalue())
    width, height = (72 * inches for inches in canvas.drawing.get_size_inches())
    styles: dict[str, str] = {}
    (root,) = _tidy(root, styles)
    sheet = "".join(f".{name}{{{text}}}" for name, text in styles.items())
    ElementTree.SubElement(root, "style").text = sheet
    least, most = (pixels / TEXT * width for pixels in (READABLE, LARGEST))
    root.attrib |= {
        "xmlns": "http://www.w3.org/2000/svg", "role": "img", "aria-label": clean(title, 200),
        "fill": "currentColor", "font-size": f"{TEXT:g}",
        "font-family": "'DejaVu Sans', sans-serif", "stroke-linejoin": "round",
        "style": f"min-width:{math.ceil(least)}px;max-width:{math.floor(most)}px",
    }  # fmt: skip
    _add_spots(root, canvas, height)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _tidy(element: ElementTree.Element, styles: dict[str, str]) -> list[ElementTree.Element]:
    """The element with short numbers and its style as a class; of a bare group its children.

    A class is named after its declarations, so that two figures on a page cannot clash.
    """
    kept = [part for child in element for part in _tidy(child, styles)]
    element[:] = [part for part in kept if part.tag not in ("metadata", "style")]
    element.tag = element.tag.rpartition("}")[2]
    given = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
    for name in ("d", "x", "y") & given.keys():
        given[name] = " ".join(map(_short, given[name].split())).replace(" L ", "L")
    if given.get("transform", "").startswith("rotate(-0 "):
        del given["transform"]
    classes, style = list[str](), _declarations(given.pop("style", ""))
    if style == "fill:none":
        return []  # a background
    if style:
        classes.append(f"s{crc32(style.encode()):x}")
        styles[classes[0]] = style
    if element.tag in ("g", "text"):
        kind, _, variant = given.pop("id", "").partition("-")
        if kind in ("variant", "key"):
            classes.append(kind)
            given["data-variant"] = variant
    element.attrib = given | ({"class": " ".join(classes)} if classes else {})
    element.text, element.tail = (element.text or "").strip("\n") or None, None
    return list(element) if element.tag == "g" and not element.attrib else [element]


def _short(token: str) -> str:
    """A number of a drawing with as many digits as can be seen; letters of paths stay."""
    try:
        value = float(token)
    except ValueError:
        return token
    return f"{round(value, 2 if abs(value) < 10 else 1):g}"


def _declarations(style: str) -> str:
    """A style without what the root says for all, and black as the colour of the page's text."""
    parts = (part.strip().replace(": ", ":") for part in style.split(";"))
    said = ("font-family", f"font-size:{TEXT:g}px", f"font:{TEXT:g}px")
    kept = (part for part in parts if part and not part.startswith(said))
    return ";".join(kept).replace("#000000", "currentColor")


def _add_spots(root: ElementTree.Element, canvas: Canvas, height: float) -> None:
    """The spots, and for each grid a field whose cells a script looks up in the figure's table."""
    for axes in canvas.grids:
        sides = _sides(axes.get_window_extent().get_points(), height)
        more = {"class": "grid", "data-side": str(len(axes.images[0].get_array()))}
        ElementTree.SubElement(root, "rect", more | sides | {"fill": "transparent"})
    group = ElementTree.SubElement(root, "g", {"class": "spots", "fill": "transparent"})
    for spot in canvas.spots:
        given = {"data-variant": spot.variant} if spot.variant else {}
        (x, y), (w, h) = spot.place, spot.size or (0, 0)
        corners = spot.axes.transData.transform([(x + s * w, y + s * h) for s in (-0.5, 0.5)])
        if spot.size:
            given |= _sides(corners, height)
        else:
            x, y = corners[0]
            given |= {"cx": f"{x:.1f}", "cy": f"{height - y:.1f}", "r": f"{NEAR:g}"}
        shape = ElementTree.SubElement(group, "rect" if spot.size else "circle", given)
        ElementTree.SubElement(shape, "title").text = clean(spot.text, 200)


def _sides(corners: Any, height: float) -> dict[str, str]:
    """Attributes of a rectangle between two corners, whose y counts from below."""
    (x0, x1), (y0, y1) = (sorted(values) for values in zip(*corners, strict=True))
    sides = {"x": x0, "y": height - y1, "width": x1 - x0, "height": y1 - y0}
    return {name: f"{value:.1f}" for name, value in sides.items()}
