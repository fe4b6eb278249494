"""All cases by kind, and the house they are tried in."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

from tests.helpers.undrawn import undrawn

from . import data_files, published, run_files, stage, words
from .case import Case

ROOM = Path("outer", "inner", "room")  # below the home, so that "../.." leads to nobody's files
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a disk is slower
KINDS = (
    "results.json", "config.toml", "events.jsonl", "timing.jsonl", "environment.json",
    "digests.json", "model.safetensors", "snapshots/task02.safetensors", "analysis/spectrum.json",
    "analysis/probe.json", "analysis/cka.json", "analysis/tsne.json", "analysis/projection.json",
    "analysis/drift.json",
    "stopped config.toml", "stopped events.jsonl", "stopped timing.jsonl",
    "stopped environment.json", "stopped digests.json", "stopped lease.1", "stopped state.pt",
    "contents of state.pt", "drawn results.json", "drawn events.jsonl", "drawn timing.jsonl",
    "drawn environment.json", "drawn config.toml", "drawn state.pt",
    "drawn analysis/spectrum.json", "drawn analysis/probe.json", "drawn analysis/cka.json",
    "drawn analysis/tsne.json", "drawn analysis/projection.json", "drawn analysis/drift.json",
    "arrays", "array files", "folders", "tables", "tinyimagenet", "pickles", "idx", "archives",
    "--set", "options", "paths", "documents",
)  # fmt: skip
Kinds = dict[str, tuple[list[Case], Path]]  # and the stage of which each case has a copy


@contextmanager
def quick(home: Path) -> Iterator[None]:
    """Figures are computed and not drawn, and what is cached is cached here."""
    folders = {"LINSEP_CACHE": str(home), "LINSEP_DATA": str(home / "data")}
    with undrawn(), mock.patch.dict("os.environ", folders):
        yield


def kinds(home: Path) -> Kinds:
    """Build the stages below a folder and list what is tried on them."""
    names = ("finished", "stopped", "data", "bare", *stage.PARTS)
    finished, stopped, data, bare, *drawn = (home / name.replace("/", " ") for name in names)
    for folder in (finished, stopped, data, bare, *drawn):
        folder.mkdir()
    stage.build_finished(finished)
    stage.build_stopped(stopped)
    for folder, part in zip(drawn, stage.PARTS.values(), strict=True):
        stage.build_drawn(folder, part)
    pairs = zip(stage.PARTS, drawn, strict=True)
    listed = (
        (run_files.of_finished(finished), finished),
        (run_files.of_stopped(stopped), stopped),
        *((run_files.of_drawn(folder, file), folder) for file, folder in pairs),
        (data_files.kinds(data), data),
        (published.kinds(), bare),
        (words.kinds(), bare),
    )
    return {name: (_apart(cases), on) for found, on in listed for name, cases in found.items()}


def _apart(cases: list[Case]) -> list[Case]:
    """Names that are alike get a number, so that a case can be repeated by its name."""
    seen: Counter[str] = Counter()
    for i, case in enumerate(cases):
        seen[case.name] += 1
        if seen[case.name] > 1:
            cases[i] = replace(case, name=f"{case.name} ({seen[case.name]})")
    return cases
