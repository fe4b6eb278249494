"""No input, however bad, ends in a traceback: commands refuse it in one line, or do the rest."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .case import problems
from .everything import KINDS, MEMORY, ROOM, Kinds, kinds, quick

pytestmark = pytest.mark.slow
LEAST = 3000


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="linsep-hostile-", dir=MEMORY))
    with quick(made / "cache"):
        yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def cases(home: Path) -> Kinds:
    return kinds(home)


def test_there_are_thousands_of_cases_each_with_a_name(cases: Kinds) -> None:
    assert tuple(cases) == KINDS
    names = [f"{kind}: {case.name}" for kind, (found, _) in cases.items() for case in found]
    assert len(names) >= LEAST
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_input_gives_one_line_and_never_a_traceback(
    kind: str, cases: Kinds, home: Path
) -> None:
    found, stage = cases[kind]
    assert not problems(found, stage, home / ROOM)
