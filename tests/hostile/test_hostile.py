"""No input, however bad, ends in a traceback: commands refuse it in one line, or do the rest."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tests.helpers.undrawn import undrawn

from . import data_files, published, run_files, stage, words
from .case import Case, problems

pytestmark = pytest.mark.slow
ROOM = Path("outer", "inner", "room")  # below the home, so that "../.." leads to nobody's files
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a disk is slower
KINDS = (
    "results.json", "config.toml", "events.jsonl", "timing.jsonl", "manifest.json",
    "model.safetensors", "snapshots/task02.safetensors", "analysis/spectrum.json",
    "analysis/probe.json", "analysis/cka.json", "analysis/tsne.json", "analysis/projection.json",
    "analysis/drift.json",
    "stopped config.toml", "stopped events.jsonl", "stopped timing.jsonl",
    "stopped manifest.json", "stopped lease.1",
    "stopped state.safetensors", "contents of state.safetensors", "drawn results.json",
    "drawn events.jsonl", "drawn timing.jsonl",
    "drawn manifest.json", "drawn config.toml", "drawn memory.safetensors",
    "drawn analysis/spectrum.json", "drawn analysis/probe.json", "drawn analysis/cka.json",
    "drawn analysis/tsne.json", "drawn analysis/projection.json", "drawn analysis/drift.json",
    "arrays", "array files", "folders", "tables", "tinyimagenet", "pickles", "idx", "archives",
    "--set", "options", "paths", "documents",
)  # fmt: skip
LEAST = 3000
Kinds = dict[str, tuple[list[Case], Path]]  # and the stage of which each case has a copy


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Figures are computed and not drawn, and what is cached is cached here."""
    with tempfile.TemporaryDirectory(prefix="linsep-hostile-", dir=MEMORY) as made:
        cache = Path(made, "cache")
        folders = {"LINSEP_CACHE": str(cache), "LINSEP_DATA": str(cache / "data")}
        with undrawn(), mock.patch.dict("os.environ", folders):
            yield Path(made)


@pytest.fixture(scope="module")
def cases(home: Path) -> Kinds:
    """Build the stages and list what is tried on them."""

    def made(name: str) -> Path:
        (home / name.replace("/", " ")).mkdir()
        return home / name.replace("/", " ")

    finished, stopped, data, bare = map(made, ("finished", "stopped", "data", "bare"))
    stage.build_finished(finished)
    stage.build_stopped(stopped)
    listed = [
        (run_files.of_finished(finished), finished),
        (run_files.of_stopped(stopped), stopped),
    ]
    for file, part in stage.PARTS.items():
        drawn = made(file)
        stage.build_drawn(drawn, part)
        listed.append((run_files.of_drawn(drawn, file), drawn))
    listed += [(data_files.kinds(data), data), (published.kinds(), bare), (words.kinds(), bare)]
    return {name: (some, on) for found, on in listed for name, some in found.items()}


def test_there_are_thousands_of_cases(cases: Kinds) -> None:
    assert tuple(cases) == KINDS
    assert sum(len(found) for found, _ in cases.values()) >= LEAST


@pytest.mark.parametrize("kind", KINDS)
def test_bad_input_gives_one_line_and_never_a_traceback(
    kind: str, cases: Kinds, home: Path
) -> None:
    found, stage = cases[kind]
    assert not problems(found, stage, home / ROOM)
