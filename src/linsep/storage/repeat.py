"""Whether two folders hold the same run, bit for bit, and if not, where they part.

Knows the files of a run. Makes no run.
"""

from pathlib import Path

from . import files
from .environment import DECISIVE
from .folder import EVENTS, MODEL, RESULTS, RunFolder


def compared(first: RunFolder) -> list[str]:
    """The files of a finished run that decide whether another one equals it."""
    return [name for name in (EVENTS, RESULTS, MODEL) if first.has(name)]


def difference(first: RunFolder, second: RunFolder) -> str | None:
    """What first sets two finished runs apart; None if every number is the same, to the last bit.

    Events and results are compared as they read: folders of earlier versions spell them otherwise.
    """
    here, there = first.events(), second.events()
    for number, pair in enumerate(zip(here, there, strict=False), start=1):
        if pair[0] != pair[1]:
            fields = [name for name in pair[0] if pair[0][name] != pair[1].get(name)]
            values = [event.get(fields[0]) for event in pair] if fields else ["less", "more"]
            name = fields[0] if fields else "fields"
            return f"event {number}, {pair[0]['event']}, {name}: {values[0]} and {values[1]}"
    if len(here) != len(there):
        return f"{len(here)} and {len(there)} events"
    if first.results() != second.results():
        return f"{RESULTS} differs, and no event does before it"
    if first.has(MODEL) and _digest(first.path / MODEL) != _digest(second.path / MODEL):
        return f"{MODEL} differs, and neither events nor results do"
    return None


def surroundings(first: RunFolder, second: RunFolder) -> list[str]:
    """What was different where the two were made, of that which changes the last bits."""
    ends = [run.environments()[-1:] for run in (first, second)]
    if not all(ends):
        return []
    (here,), (there,) = ends
    return [
        f"{name}: {here[name]} and {there[name]}"
        for name in DECISIVE
        if name in here and name in there and here[name] != there[name]
    ]


def _digest(path: Path) -> str:
    return files.digest(files.read(path, largest=None))
