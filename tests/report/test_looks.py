"""How figures look: colours and markers tell methods apart for every reader; text is legible."""

import math
import re
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from linsep.methods import METHODS, TERMS
from linsep.report import style
from linsep.report.canvas import READABLE
from linsep.report.gather import gather
from linsep.report.page import figures
from linsep.storage.store import Store
from linsep.testing import BACKWARD
from tests.helpers.made_reports import make_full_run

# Machado, Oliveira and Fernandes (2009), severity 1: what of linear RGB a reader sees.
VISION = {
    "trichromat": np.eye(3),
    "protanope": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranope": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanope": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
         [0.004733, 0.691367, 0.303900]]
    ),
}  # fmt: skip
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
     [0.0193339, 0.1191920, 0.9503041]]
)  # fmt: skip
WHITE = np.array([0.95047, 1.0, 1.08883])
CSS = (Path(style.__file__).parent / "report.css").read_text()
THEMES = {"light": 0, "dark": 1}


def theme(name: str, variable: str) -> str:
    """A colour of the page."""
    return re.findall(rf"--{variable}: (#[0-9a-f]{{6}})", CSS)[THEMES[name]]


def linear(colour: str) -> np.ndarray:
    share = np.array(list(bytes.fromhex(colour[1:]))) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    ratio = TO_XYZ @ rgb.clip(0, 1) / WHITE
    f = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(a: str, b: str, reader: str) -> float:
    """CIE76: 2.3 is just noticeable, and neighbours in a legend should have ten times that."""
    seen = [lab(VISION[reader] @ linear(colour)) for colour in (a, b)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def colour_in(name: str, method: str) -> str:
    found = style.colour(method)
    return theme(name, "ink") if found == style.INK else found


def test_the_simulation_is_one() -> None:
    """White stays white, and red and green of one lightness become alike for a deuteranope."""
    for reader in VISION:
        assert VISION[reader] @ np.ones(3) == pytest.approx(np.ones(3), abs=2e-6)
    assert distance("#c05a3c", "#7d7d1e", "trichromat") > 40
    assert distance("#c05a3c", "#7d7d1e", "deuteranope") < 20


@pytest.mark.parametrize(("name", "reader"), list(product(THEMES, VISION)))
def test_a_method_and_the_same_with_bfp_have_far_colours(name: str, reader: str) -> None:
    for base in [*style.BASES, "mine", "another_method"]:
        a, b = colour_in(name, base), colour_in(name, f"{base}+bfp")
        assert distance(a, b, reader) > 25, (base, a, b)
    for base in ("er", "derpp"):  # those of the paper's main tables
        a, b = colour_in(name, base), colour_in(name, f"{base}+bfp")
        assert distance(a, b, reader) > 75, (base, a, b)


@pytest.mark.parametrize(("name", "reader"), list(product(THEMES, VISION)))
def test_the_papers_four_differ_in_colour_and_marker(name: str, reader: str) -> None:
    four = ("er", "er+bfp", "derpp", "derpp+bfp")
    for a, b in combinations(four, 2):
        far = distance(colour_in(name, a), colour_in(name, b), reader)
        assert far > 25 or (far > 15 and style.marker(a) != style.marker(b)), (a, b, far)


@pytest.mark.parametrize("name", THEMES)
def test_colours_are_seen_on_the_page(name: str) -> None:
    paper = float((TO_XYZ @ linear(theme(name, "paper")))[1])
    for method in (m for base in style.BASES for m in (base, f"{base}+bfp")):
        light = float((TO_XYZ @ linear(colour_in(name, method)))[1])
        low, high = sorted((paper, light))
        assert (high + 0.05) / (low + 0.05) > 2.2, method


def test_known_methods_can_be_told_apart_without_colours_too() -> None:
    for terms in style.MARKERS.values():
        assert set(terms) <= set(TERMS)
    arms = [(m, m) for base in METHODS for m in (base, *(f"{base}+{t}" for t in BACKWARD))]
    looks = style.looks(arms)
    known = [m for base in style.BASES for m in (base, f"{base}+bfp") if base != "jt"]
    pairs = {(looks[m, m].colour, looks[m, m].marker) for m in [*known, "jt"]}
    assert len(pairs) == len(known) + 1
    for base in METHODS:
        own = [looks[m, m] for m in (base, *(f"{base}+{t}" for t in BACKWARD))]
        assert len({look.marker for look in own}) == 4
        assert {look.dash for look in own[1:]}.isdisjoint({own[0].dash})


@pytest.mark.slow
def test_text_is_legible_at_any_width(tmp_path: Path) -> None:
    """No text is smaller than the one that the smallest width of a drawing is derived from."""
    make_full_run(tmp_path / "five", "er", parts=[])
    make_full_run(tmp_path / "five", "er+bfp")
    make_full_run(tmp_path / "ten", "er", tasks=10, parts=[])
    runs = [gather(Store(tmp_path / name).select()) for name in ("five", "ten")]
    drawn = [figure for found in runs for figure in figures(found)]
    assert {"gains", "losses", "cka", "probe"} <= {figure.name for figure in drawn}
    for figure in drawn:
        svg = figure.svg()
        least = re.search(r"min-width:(\d+)px", svg)
        wide = re.search(r'viewBox="0 0 ([\d.]+) ', svg)
        assert least is not None
        assert wide is not None
        scale = int(least[1]) / float(wide[1])
        sizes = [float(size) for size in re.findall(r"font-size: ?([\d.]+)px", svg)]
        assert sizes, figure.name
        assert scale * min(sizes) >= READABLE or math.isclose(scale * min(sizes), READABLE)
