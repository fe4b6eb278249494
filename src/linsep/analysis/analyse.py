"""`linsep analyse` from within: analyses of finished runs, done once and kept with the run.

What was found is kept in the run's folder as `analysis/<what>.json` with what it was made from:
asked for again, it is read, and made anew only if the run or the settings differ. The studies
themselves are in `studies`. Knows files and names of analyses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from ..errors import StateError
from ..storage import files
from ..storage.environment import threads
from ..storage.snapshots import projections
from . import embed
from .contents import FOLDER, Content, stored
from .features import Features
from .studies import Settings, backward, planes, probes, similarities, spectra

VERSION = 1  # raise it when the same features give other results than before

__all__ = ["ANALYSES", "Analysis", "Settings", "analyse", "possible"]


@dataclass(frozen=True)
class Analysis:
    make: Callable[[Features, Settings], Content]
    depends: tuple[str, ...]  # on which settings


ANALYSES: Mapping[str, Analysis] = {
    "spectrum": Analysis(spectra, ("centred",)),
    "cka": Analysis(similarities, ()),
    "probe": Analysis(probes, ("portions", "draws", "c", "seed")),
    "tsne": Analysis(planes, ("task", "points", "engine", "seed")),
    "projection": Analysis(backward, ()),
}


def possible(run: Features) -> list[str]:
    """Those that a run's snapshots and method allow."""
    several = len(run.ends) > 1
    projects = several and any("features" in t.layers for _, t in projections(run.learner))
    allowed = {
        "cka": several,
        "tsne": several and run.ends[0].task == 0,
        "projection": projects,
    }
    return [what for what in ANALYSES if run.ends and allowed.get(what, True)]


def analyse(run: Features, what: str, chosen: Settings) -> Content:
    """One analysis of a run, from its folder or made now."""
    kind, path = ANALYSES[what], run.folder / FOLDER / f"{what}.json"
    settings = {name: getattr(chosen, name) for name in kind.depends}
    if what == "tsne":
        settings["engine"] = chosen.engine or embed.available_engine()
    head = {"what": what, "version": VERSION, "settings": settings, "inputs": _inputs(run)}
    head = json.loads(json.dumps(head))
    kept = stored(run.folder, what)
    if kept is not None and {name: kept.get(name) for name in head} == head:
        return kept
    run.needed(run.ends, what)
    run.say(f"{what} of {run.folder.name}")
    try:
        with threads(1):  # whose sums come out the same on every machine's number of cores
            whole = head | kind.make(run, chosen)
        text = json.dumps(whole, separators=(",", ":"), allow_nan=False)
    except ValueError as error:  # features that are all alike, or not finite
        raise StateError(f"{run.folder.name}: {what} cannot be made: {error}") from None
    files.make_folder(path.parent)
    files.write(path, text.encode() + b"\n")
    return whole


def _inputs(run: Features) -> str:
    what = [run.prepared.key, *(f"{s.name} {s.digest}" for s in run.snapshots)]
    return blake2b("\n".join(what).encode(), digest_size=8).hexdigest()
