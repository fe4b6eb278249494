"""How figures look: colours and markers tell methods apart for every reader; text is legible."""

import math
import re
from pathlib import Path

import pytest

from linsep.methods import METHODS, TERMS
from linsep.report import style
from linsep.report.canvas import READABLE
from linsep.report.gather import gather
from linsep.report.page import figures
from linsep.storage.store import Store
from linsep.testing import BACKWARD
from tests.helpers.made_reports import make_full_run


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
