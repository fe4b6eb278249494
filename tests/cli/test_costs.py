"""`linsep list` shows what methods and terms cost, as worked out by hand for the paper's size."""

import pytest

from linsep.cli import costs
from linsep.methods import METHODS, TERMS

LATER = 4 / 5  # of the tasks have a past


@pytest.mark.parametrize(
    ("method", "passes"),
    [
        ("ft", 1.0),
        ("jt", 1.0),
        ("er", 2.0),
        ("derpp", 3.0),
        ("agem", 1 + LATER),  # no reference in the first task
        ("lwf", 1 + LATER / 3),
        ("gdumb", 63 * 200 * 5 / (50 * 50_000)),  # its own epochs, on the memory alone
    ],
)
def test_methods_cost_what_they_do_by_hand(method: str, passes: float) -> None:
    """A draw of 32 beside batches of 31.95 on average, and none in the very first step."""
    assert float(costs.of_method(method).removesuffix("x")) == pytest.approx(passes, abs=0.01)


def test_terms_cost_what_they_add_to_er() -> None:
    added = LATER * (1 + 2 / 3)  # a draw, and two frozen passes
    for term in ("bfp", "bfp2", "fd"):
        assert float(costs.of_term(term).removesuffix("x")) == pytest.approx(added, abs=0.01)


def test_every_name_has_a_cost() -> None:
    assert all(costs.of_method(name).endswith("x") for name in METHODS)
    assert all(costs.of_term(name).startswith(("+", "-")) for name in TERMS)
