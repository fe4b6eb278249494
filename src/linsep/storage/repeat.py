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
    """What first sets two finished runs apart; None if every file that both must have is equal."""
    for number, pair in enumerate(zip(first.events(), second.events(), strict=False), start=1):
        if pair[0] != pair[1]:
            fields = [name for name in pair[0] if pair[0][name] != pair[1].get(name)]
            here, there = (event.get(fields[0]) for event in pair)
            return f"event {number}, {pair[0]['event']}, {fields[0]}: {here} and {there}"
    for name in compared(first):
        if _digest(first.path / name) != _digest(second.path / name):
            return f"{name} differs, and no event does before it"
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
