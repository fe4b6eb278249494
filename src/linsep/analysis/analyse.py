"""Make an analysis of a finished run, or read it from the run's folder.

What was found is kept as `analysis/<name>.json` with what it was made from: asked for again, it is
read, and made anew only if the run or the settings differ.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

from ..errors import StateError
from ..storage import files
from ..storage.environment import threads
from .features import Features
from .kinds import FOLDER, Content, find, stored

VERSION = 1  # raise it when the same features give other results than before
DEFAULTS: Mapping[str, Any] = MappingProxyType({})


def lacking(run: Features, name: str) -> str:
    """Why this analysis of the run is impossible; "" if it is possible."""
    if not run.ends:
        return (
            f"{name} needs the weights at the end of tasks, which were not kept; remove its folder "
            "and run it with --keep tasks"
        )
    return find(name).lacking(run)


def analyse(run: Features, name: str, options: Mapping[str, Any] = DEFAULTS) -> Content:
    """One analysis of a run, from its folder or made now."""
    kind = find(name)
    settings = kind.settings(options)
    inputs = [run.prepared.key, *(f"{s.name} {s.digest}" for s in run.snapshots)]
    digest = blake2b("\n".join(inputs).encode(), digest_size=8).hexdigest()
    made_from = {"what": name, "version": VERSION, "settings": settings, "inputs": digest}
    head = json.loads(json.dumps(made_from))
    with suppress(StateError):
        kept = stored(run.folder, name) or {}
        if {key: kept.get(key) for key in head} == head:
            return kept
    if reason := lacking(run, name):
        raise StateError(f"{run.folder.name}: {reason}")
    run.say(f"{name} of {run.folder.name}")
    try:
        with threads(1):  # so that sums are the same on any number of cores
            whole: Content = head | kind.make(run, **settings)
        text = json.dumps(whole, separators=(",", ":"), allow_nan=False)
    except ValueError as error:  # features that are all alike, or not finite
        raise StateError(f"{run.folder.name}: {name} cannot be made: {error}") from None
    files.make_folder(run.folder / FOLDER)
    files.write(run.folder / FOLDER / f"{name}.json", text.encode() + b"\n")
    return whole
