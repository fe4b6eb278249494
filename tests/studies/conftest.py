"""The published runs, read once for all tests of the study."""

from pathlib import Path

import pytest

from linsep.storage.store import Record, Store
from studies.claims import EVERY_CLAIM
from studies.evidence import RESULTS, Finding, Runs, findings


@pytest.fixture(scope="session")
def root() -> Path:
    return RESULTS.parent


@pytest.fixture(scope="session")
def records() -> list[Record]:
    return Store(RESULTS / "small").records()


@pytest.fixture(scope="session")
def runs(records: list[Record]) -> Runs:
    return Runs(records)


@pytest.fixture(scope="session")
def found(records: list[Record]) -> list[Finding]:
    return findings(EVERY_CLAIM, records)
