"""The public names: complete, light to import, each with an example that runs."""

import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import linsep
from linsep.optional import EXTRAS

LIGHT = """
import sys
import linsep
assert dir(linsep) == linsep.__all__ == sorted(linsep.__all__), dir(linsep)
assert not any(name.startswith("_") for name in dir(linsep))
linsep.Config, linsep.LinsepError, linsep.metrics.METRICS
heavy = {"torch", "numpy", "scipy", "sklearn", "pandas", "matplotlib", "rich"} & set(sys.modules)
assert not heavy, heavy
"""
HELP = """
import sys
from linsep.cli import main
sys.argv = ["linsep", "--help"]
try:
    main()
except SystemExit as end:
    assert not end.code
heavy = {"torch", "numpy", "scipy", "sklearn", "pandas", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.mark.parametrize("program", [LIGHT, HELP], ids=["import linsep", "linsep --help"])
def test_starting_is_cheap_and_names_are_listed(program: str) -> None:
    """By what is imported, not by a clock: torch alone takes seconds."""
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        linsep.trian  # noqa: B018


SLOW = {"testing"}  # checks all laws of a method
EXAMPLES = [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in linsep.__all__]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_public_name_has_an_example_that_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = getattr(linsep, name)
    (example,) = doctest.DocTestFinder(recurse=False).find(
        found, name, module=found if inspect.ismodule(found) else False, globs={}
    )
    assert example.examples, f"linsep.{name} has no example"
    for package in EXTRAS:
        if f"import {package}\n" in (found.__doc__ or ""):
            pytest.importorskip(package)
    failed, _ = doctest.DocTestRunner(optionflags=doctest.FAIL_FAST).run(example)
    assert not failed
