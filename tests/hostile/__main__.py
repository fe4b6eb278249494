"""`python -m tests.hostile PART OF A NAME`: try the cases so named; with no words, all of them."""

import sys
import tempfile
import time
from pathlib import Path

from .case import problems
from .everything import MEMORY, ROOM, kinds, quick

with tempfile.TemporaryDirectory(dir=MEMORY) as home, quick(Path(home, "cache")):
    total = 0
    for kind, (cases, stage) in kinds(Path(home)).items():
        wanted = [case for case in cases if " ".join(sys.argv[1:]) in f"{kind}: {case.name}"]
        began = time.process_time()
        found = problems(wanted, stage, Path(home) / ROOM)
        total += len(wanted)
        if wanted:
            seconds = time.process_time() - began
            print(f"{kind}: {len(wanted)} cases, {len(found)} bad, {seconds:.1f} s")  # noqa: T201
        for line in found:
            print(f"  {line}"[:400].encode(errors="backslashreplace").decode(), flush=True)  # noqa: T201
    print(f"{total} cases")  # noqa: T201
