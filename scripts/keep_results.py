"""Keep finished runs of the evidence's protocol in results/small, without weights and paths.

    linsep paper run small --also results/small --runs runs
    python scripts/keep_results.py runs

A run has the files that `linsep bundle` would share; its events are compressed, and what is there
already stays. Runs that are not asked for by the protocol, or are not finished, are left out.
"""

import gzip
import sys
from pathlib import Path

from linsep.paper.evidence import Runs
from linsep.storage.bundle import shared
from linsep.storage.folder import COMPRESSED, TIMING, RunFolder
from linsep.storage.store import Record, Store

RESULTS = Path(__file__).parent.parent / "results" / "small"


def asked_for(records: list[Record]) -> set[Path]:
    runs = Runs(records)
    found = (runs.run(settings) for part in runs.parts.values() for settings in part)
    return {record.folder for record in found if record is not None}


def keep(folder: Path, results: Path) -> None:
    """A copy of a run, its folder named last so that an interrupted copy is no run."""
    part = results / f".{folder.name}"
    for name, content in shared(folder):
        if name == TIMING:
            continue  # cost.json has the sum
        path = part / COMPRESSED.get(name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        packed = gzip.compress(content, mtime=0) if name in COMPRESSED else content
        path.write_bytes(packed)
    part.rename(results / folder.name)


def main(runs: Path, results: Path = RESULTS) -> int:
    kept = 0
    for folder in sorted(asked_for(Store(runs).records())):
        if not RunFolder(results / folder.name).exists:
            keep(folder, results)
            kept += 1
    print(f"{kept} runs added to {results.name}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
