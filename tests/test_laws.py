"""Laws every method must keep, with and without BFP, on a net with BatchNorm."""

from collections.abc import Callable

import pytest

from linsep import testing
from linsep.method import Method, Summand
from linsep.methods import METHODS, TERMS, assemble

NAMES = [base + extra for base in METHODS for extra in ("", *(f"+{t}" for t in TERMS))]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("law", testing.LAWS, ids=lambda law: law.__name__)
def test_law(law: Callable[[Method], None], name: str) -> None:
    law(assemble(name, {}))


@pytest.mark.parametrize("extra", TERMS)
@pytest.mark.parametrize("base", METHODS)
@pytest.mark.parametrize("law", testing.BACKWARD_LAWS, ids=lambda law: law.__name__)
def test_backward_law(law: Callable[[Method, Summand], None], base: str, extra: str) -> None:
    law(assemble(base, {}), TERMS[extra].recipe())


@pytest.mark.parametrize(
    "options",
    [
        {"derpp": {"target": "old_net", "first_task": False}, "bfp": {"on": "replay"}},
        {"derpp": {"distance": "squared"}, "bfp": {"on": "stream", "scale": "none"}},
        {"bfp": {"layers": ("block1", "features"), "init": "identity", "reset": False}},
    ],
)
def test_laws_hold_for_the_options(options: dict[str, dict[str, object]]) -> None:
    method = assemble("derpp+bfp", options)
    for law in testing.LAWS:
        law(method)


def test_laws_hold_for_a_shared_draw() -> None:
    run = testing.toy_run(assemble("derpp+bfp", {}), memory={"draws": "shared"})
    for _ in run:
        pass
    cursor = run.cursor._replace(task=2)
    assert list(run.learner.draw(run.scenario.tasks[2], cursor)) == ["replay"]
