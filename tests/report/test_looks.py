"""How figures look: colours and markers tell methods apart for every reader; text is legible."""

from linsep.methods import ADDONS, METHODS
from linsep.report import style
from linsep.testing import BACKWARD


def test_known_methods_can_be_told_apart_without_colours_too() -> None:
    for terms in style.MARKERS.values():
        assert set(terms) <= set(ADDONS)
    variants = [(m, m) for base in METHODS for m in (base, *(f"{base}+{t}" for t in BACKWARD))]
    looks = style.looks(variants)
    known = [m for base in style.BASES for m in (base, f"{base}+bfp") if base != "jt"]
    pairs = {(looks[m, m].colour, looks[m, m].marker) for m in [*known, "jt"]}
    assert len(pairs) == len(known) + 1
    for base in METHODS:
        own = [looks[m, m] for m in (base, *(f"{base}+{t}" for t in BACKWARD))]
        assert len({look.marker for look in own}) == 4
        assert {look.dash for look in own[1:]}.isdisjoint({own[0].dash})
