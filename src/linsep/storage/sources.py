"""Whether a run's own parts and weights are still those that it was begun with.

A digest of each is in the run's key, so that a changed file makes another run. Whoever repeats the
command to resume must hear of it, and not find the run begun afresh beside what was done.

Knows configs and folders. Executes nothing.
"""

import tomllib
from glob import escape
from pathlib import Path

from ..errors import ConfigError, StateError
from ..prepare import Prepared
from ..settings.config import to_toml
from ..settings.layers import decides
from .folder import RunFolder
from .store import Value, flat


def check(prepared: Prepared, runs: Path) -> None:
    """Refuse parts without a source, and a half-finished run whose sources were changed."""
    config = prepared.config
    for name, part in config.own.items():
        if not part.digest:
            raise ConfigError(
                f"{name}: its source cannot be found, so its runs cannot be told from others; "
                "put the function into a file, and pass the function itself"
            )
    if RunFolder(runs / prepared.name).begun or not (config.own or config.net.weights):
        return
    mine = flat(tomllib.loads(to_toml(config)))
    for path in sorted(runs.glob(f"{escape(prepared.name.removesuffix(prepared.key))}*")):
        other = RunFolder(path)
        if other.begun and other.exists and not other.finished:
            theirs = flat(other.config())
            if _apart_from_digests(theirs) == _apart_from_digests(mine):
                raise StateError(_changed(path, theirs, mine))


def _changed(path: Path, theirs: dict[str, Value], mine: dict[str, Value]) -> str:
    name = next(name for name in mine if _is_digest(name) and mine[name] != theirs.get(name))
    place = (
        "net.weights" if name == "net.weights_digest" else f"{name.removesuffix('digest')}source"
    )
    return (
        f"{mine[place]} was changed since {path} was begun. To resume that run, restore the file; "
        "to start afresh with the changed one, delete that folder"
    )


def _is_digest(name: str) -> bool:
    return name == "net.weights_digest" or (name.startswith("own.") and name.endswith(".digest"))


def _apart_from_digests(facts: dict[str, Value]) -> dict[str, Value]:
    return {n: v for n, v in facts.items() if decides(n) and not _is_digest(n)}
