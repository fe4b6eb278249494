"""How methods are called and drawn, the same in every figure of every report.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; yellow is left out, since it
cannot be seen on white. Black is written as the colour of the page's text, so that it turns white
in the dark. A base method has its colour and marker. With BFP it has another colour, far from the
first for every kind of colour vision, another marker and dashes, since these two are compared.
Other add-ons keep the base's colour. Variants of one method that differ in options share the colour
and differ in dashes and markers.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from ..optional import needed
from ..settings.catalogue import METHODS

INK, GREY = "#000000", "#999999"
ORANGE, SKY, GREEN = "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, GREY, INK)
DIM = "#7f7f7f"  # for what should be seen less, on white and on black

NAMED = {
    "ink": INK, "grey": GREY, "orange": ORANGE, "sky": SKY, "green": GREEN, "blue": BLUE,
    "red": RED, "purple": PURPLE,
}  # fmt: skip

# Base methods: a colour and a marker. Two that share a colour differ in the marker.
BASES = {name: (NAMED[entry.look[0]], entry.look[1]) for name, entry in METHODS.items()}
# Colours with BFP: of methods by name, and of others by the colour without.
WITH_BFP = {"er": BLUE, "derpp": RED, "ft": SKY, "der": INK}
PARTNERS = {
    ORANGE: GREEN, SKY: GREY, GREEN: RED, BLUE: ORANGE, RED: SKY, PURPLE: INK, GREY: BLUE,
    INK: PURPLE,
}  # fmt: skip
# Of terms, by the base's marker: two bases that share a colour share none of these.
MARKERS = {
    "o": {"bfp": "s", "bfp2": "v", "fd": "^"},
    "P": {"bfp": "p", "bfp2": "<", "fd": ">"},
    "X": {"bfp": "H", "bfp2": "d", "fd": "*"},
}
MORE = ("D", "p", "<", ">", "*", "X", "H")  # of further variants of one method
DASHES = ("-", "--", ":", "-.")

TEXT = 9.0  # points of the smallest text
RC = {
    "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"], "pdf.fonttype": 42,
    "text.parse_math": False,
    "font.size": TEXT, "axes.titlesize": TEXT, "axes.labelsize": TEXT, "legend.fontsize": TEXT,
    "xtick.labelsize": TEXT, "ytick.labelsize": TEXT, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": DIM, "grid.alpha": 0.25,
    "grid.linewidth": 0.6, "axes.axisbelow": True, "lines.linewidth": 1.5, "lines.markersize": 4.0,
    "legend.frameon": False, "figure.dpi": 72.0, "axes.linewidth": 0.7, "image.cmap": "viridis",
    "image.interpolation": "none", "image.composite_image": False, "axes.unicode_minus": True,
    "axes.titlelocation": "left", "axes.formatter.useoffset": False, "figure.facecolor": "none",
    "axes.facecolor": "none", "savefig.facecolor": "none", "path.simplify": True,
}  # fmt: skip


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


def labelled(title: str, *, bound: bool) -> str:
    """A variant's title, and whether it is a bound for the others: 'JT (bound)'."""
    return clean(title) + (" (bound)" if bound else "")


def colour(method: str) -> str:
    """Return a method's colour, which depends on its name alone."""
    base, *terms = method.split("+")
    other = PALETTE[crc32(base.encode()) % len(PALETTE)]
    plain = BASES.get(base, (other, ""))[0]
    return WITH_BFP.get(base, PARTNERS[plain]) if "bfp" in terms else plain


def marker(method: str) -> str:
    """Return a method's marker, which depends on its name alone."""
    base, *terms = method.split("+")
    plain = BASES.get(base, ("", "h"))[1]
    return MARKERS.get(plain, MARKERS["o"]).get(terms[-1], "d") if terms else plain


def looks(variants: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Look]:
    """Return the look of every (method, label); variants of one method differ in dashes."""
    found: dict[tuple[str, str], Look] = {}
    before: dict[str, int] = {}
    for method, label in dict.fromkeys(variants):  # the same variant may be in several blocks
        shape, first = marker(method), 1 if "+" in method else 0
        number = before.setdefault(method, 0)
        before[method] += 1
        if number:
            others = [m for m in MORE if m != shape]
            shape = others[(number - 1) % len(others)]
        dash = DASHES[(first + number) % len(DASHES)]
        found[method, label] = Look(colour(method), shape, dash, str(len(found)))
    return found


def class_colours(n: int) -> list[str]:
    """For n classes: colour-blind safe ones as far as they reach, then a range of hues."""
    return list(PALETTE[:n]) if n <= len(PALETTE) else _shades("turbo", 0.04, 0.96, n)


def ramp(n: int) -> list[str]:
    """Shades from first to last that can be seen on white and on black."""
    return _shades("viridis", 0.25, 0.85, n)


def _shades(name: str, low: float, high: float, n: int) -> list[str]:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps[name](low + (high - low) * i / max(1, n - 1))) for i in range(n)]


def log_scale(axes: Any) -> None:
    """A logarithmic x axis with plain numbers, which matplotlib would write as powers."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, place: f"{value:g}")
    axes.minorticks_off()


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
        matplotlib.rcParams.update(RC | {"svg.hashsalt": f"linsep {figure}"})
        yield
