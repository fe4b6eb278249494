"""Where runs were made, and the commands that make them again.

Knows environment.json and resolved configs. Knows nothing of HTML.
"""

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..compare.tables import Table, Value
from .gather import Gathered, Run

SHOWN = (
    "linsep", "python", "torch", "numpy", "system", "cpu", "cores", "threads", "device", "commit",
)  # fmt: skip
PINNED = ("torch", "numpy")
NAMES = {"name", "tags"}  # which may differ between runs of one grid


@dataclass(frozen=True)
class Recipe:
    """How to make some runs again: a file, what is in it, and the command."""

    title: str  # what the file's name leaves open
    file: str
    content: str
    command: str


def environments(gathered: Gathered) -> Table | None:
    """One line for each environment, with how many runs were made there."""
    seen: Counter[tuple[Value, ...]] = Counter()
    for run in gathered.runs:
        seen.update({_environment(found) for found in run.environments})
    rows: list[list[Value]] = [[*where, n] for where, n in seen.items()]
    return Table([*SHOWN, "runs"], rows) if rows else None


def _environment(found: Mapping[str, Any]) -> tuple[Value, ...]:
    git = found.get("git")
    commit = ""
    if isinstance(git, dict):
        commit = str(git.get("commit", ""))[:10] + (" and changes" if git.get("changed") else "")
    values = {**found, "commit": commit or None}
    return tuple(None if (v := values.get(name)) is None else str(v) for name in SHOWN)


def install(gathered: Gathered) -> list[str]:
    """The pip line of every set of versions that was used."""
    lines = []
    for run in gathered.runs:
        for found in run.environments:
            pins = [f"{name}=={found[name]}" for name in ("linsep", *PINNED) if name in found]
            pins = [pin.partition("+")[0] for pin in pins]  # +cpu is not on the index
            if pins:
                lines.append("pip install " + " ".join(map(shlex.quote, pins)))
    return list(dict.fromkeys(lines))


def recipes(gathered: Gathered) -> list[Recipe]:
    """One grid if the runs differ in seed and method alone and every pair is there, else each."""
    grid = _grid(gathered)
    return [grid] if grid else [_single(run) for run in gathered.runs]


def _single(run: Run) -> Recipe:
    name = f"{run.name}.toml"
    return Recipe("", name, run.files.config_text(), f"linsep run {shlex.quote(name)}")


def _grid(gathered: Gathered) -> Recipe | None:
    """Every method over every seed; each takes its own of the options of all methods."""
    import tomli_w

    runs = gathered.runs
    methods = list(dict.fromkeys(str(run.settings["method"]) for run in runs))
    seeds = sorted({run.seed for run in runs})
    if len(runs) < 2 or len(runs) != len(methods) * len(seeds):
        return None
    whole: dict[str, Any] = {}
    for run in runs:
        for section, value in run.settings.items():
            if section in ("method", "seed", *NAMES):
                continue
            if section == "memory" and not value.get("rows"):
                continue  # a method without one: a grid leaves memory settings out for it
            if whole.setdefault(section, value) != value:
                return None  # something else differs
    parts = {part for method in methods for part in method.split("+")}
    own = {name for run in runs for name in run.settings} & parts | NAMES
    if any(set(run.settings) - own != set(runs[0].settings) - own for run in runs):
        return None
    over = {"method": methods, "seed": seeds}
    content = tomli_w.dumps({**whole, "over": over})
    title = f"{len(methods)} methods over {len(seeds)} seeds"
    return Recipe(title, "grid.toml", content, "linsep grid grid.toml")
