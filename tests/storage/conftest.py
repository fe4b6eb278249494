"""One run, trained once straight through and once stopped, for all tests of its folder."""

import shutil
from pathlib import Path

import pytest

from tests.helpers.real_runs import contents, interrupted, straight


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run to which nothing happened: to be read, not changed."""
    return straight(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="session")
def expected(whole: Path) -> dict[str, bytes]:
    """The files of a finished run, which every other one must end with."""
    return contents(whole)


@pytest.fixture(scope="session")
def _stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return interrupted(tmp_path_factory.mktemp("stopped"), 11)


@pytest.fixture
def finished(whole: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(whole, tmp_path / "finished" / whole.name))


@pytest.fixture
def stopped(_stopped: Path, tmp_path: Path) -> Path:
    """A copy of a run that was stopped in its second task, with two saved states."""
    return Path(shutil.copytree(_stopped, tmp_path / "stopped" / _stopped.name))
