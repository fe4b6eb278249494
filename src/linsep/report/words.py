"""Tables and sentences about the runs: their settings, what they cost, whether their metrics are
consistent, where they were made, and the commands that make them again."""

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..compare import statistics
from ..compare.summaries import differences
from ..compare.tables import Spread, Table, Value
from ..compare.variants import shown
from ..learning.metrics import COSTS, PROTOCOLS
from ..learning.metrics import audit as flaws
from .gather import LoadedRuns, Run, VariantRuns, called, readable

# --- what was run --------------------------------------------------------------------------------


def gains(loaded: LoadedRuns) -> Table:
    """Paired differences with tests, with methods called as in the figures."""
    table = differences(loaded.comparison)
    names = {variant.title: called(variant) for variant in loaded.comparison.variants}
    rows = [[names.get(str(value), value) for value in row] for row in table.rows]
    return replace(table, rows=rows, caption="", spare=())


def differing(loaded: LoadedRuns) -> tuple[Table, set[tuple[int, int]]]:
    """A row for each variant, a column for each setting in which they differ, and the cells that
    are not what most variants have."""
    comparison = loaded.comparison
    names = list(dict.fromkeys([*comparison.differing, *comparison.by_method]))
    names += list(dict.fromkeys(n for variant in comparison.variants for n, _ in variant.options))
    names += ["method"] * any(a.given_name == a.title for a in comparison.variants)
    names += ["tags"] * any(run.record.tags for run in loaded.runs)
    rows: list[list[Value]] = []
    for variant in comparison.variants:
        tags = {tag: None for run in variant.runs.values() for tag in run.tags}
        facts = {**next(iter(variant.runs.values())).facts, "tags": ", ".join(tags) or None}
        seeds = ", ".join(map(str, sorted(variant.runs)))
        rows.append([called(variant), seeds, *(shown(facts.get(name)) for name in names)])
    marked = set()
    for column in range(2, 2 + len(names)):
        usual, _ = Counter(row[column] for row in rows).most_common(1)[0]
        marked |= {(i, column) for i, row in enumerate(rows) if row[column] != usual}
    return Table(["variant", "seeds", *names], rows), marked


def own_options(loaded: LoadedRuns) -> Table:
    """Options of each method's own parts, where all its variants agree on them."""
    rows: dict[tuple[str, str, str], None] = {}  # each once, in order
    for variant in loaded.comparison.variants:
        varied = {name for name, _ in variant.options}
        for name, value in next(iter(variant.runs.values())).facts.items():
            part, dot, _ = name.partition(".")
            if dot and part in variant.method.split("+") and name not in varied:
                rows[called(variant), name, shown(value)] = None
    return Table(["method", "option", "value"], list(rows))


def common(loaded: LoadedRuns) -> Table:
    found = loaded.comparison.common.items()
    rows = [[name, shown(value)] for name, value in found if name != "data"]
    return Table(["protocol", "value in all runs" if len(loaded.runs) > 1 else "value"], rows)


# --- audit ---------------------------------------------------------------------------------------


def audit(loaded: LoadedRuns) -> list[str]:
    """Return the inconsistencies in the stored metrics; an empty list means none were found."""
    found = []
    for run in loaded.runs:
        tasks = len(run.tasks)
        if not tasks:  # the number of tasks is not known: what the run itself said
            found += [f"{run.name}: {text}" for text in run.results.get("audit", [])]
            continue
        for protocol, label in PROTOCOLS.items():
            texts = flaws(run.results["metrics"][protocol], tasks)
            found += [f"{run.name}, {label}: {text}" for text in texts]
    return found


# --- cost and time -------------------------------------------------------------------------------


COST_HEADS = {
    "compute": "relative compute", "images": "images processed", "seconds": "CPU seconds",
    "bytes": "bytes kept", "step.forward": "forward per step",
    "step.backward": "backward per step", "step.frozen": "previous network per step",
}  # fmt: skip


def costs(loaded: LoadedRuns) -> tuple[Table, str]:
    """What every variant cost, and what the columns mean."""
    known = [name for name in COSTS if any(v.variant.values("cost", name) for v in loaded.variants)]

    def cells(variant: VariantRuns) -> list[Value]:
        found = [(name, variant.variant.summary("cost", name)) for name in known]
        exact = ("compute", "seconds")
        return [(s.mean if name in exact else round(s.mean)) if s else None for name, s in found]

    heads = {name: COST_HEADS.get(name, name) for name in known}
    meaning = "; ".join(f"{head}: {COSTS[name]}" for name, head in heads.items())
    note = f"{meaning}. A backward pass counts as two forward passes; testing is not counted."
    return _by_variant(loaded, list(heads.values()), cells), note


SPEED = (
    "Seconds of a whole run, its tests and saves included, and images of the current tasks. "
    "They depend on the machine and on its other work as much as on the method."
)


def speed(loaded: LoadedRuns) -> Table:
    """Seconds and images a second of every variant."""

    def cells(variant: VariantRuns) -> list[Value]:
        timings = [run.timing for run in variant.runs if run.timing]
        seconds = [sum(t["seconds"] for t in timing) for timing in timings]
        images = [sum(t["images"] for t in timing) for timing in timings]
        rates = [i / s for s, i in zip(seconds, images, strict=True) if s > 0 and i]
        return [len(timings), _mean(seconds), max(images), _mean(rates)] if timings else []

    found = _by_variant(loaded, ["seeds", "seconds", "images", "images/s"], cells)
    return replace(found, digits=1)


def _mean(values: Sequence[float]) -> Spread | None:
    return Spread(statistics.mean(values), statistics.std(values)) if values else None


def _by_variant(
    loaded: LoadedRuns, columns: Sequence[str], cells: Callable[[VariantRuns], list[Value]]
) -> Table:
    """A row for each variant that has cells, grouped by block if there are several."""
    several = len(loaded.blocks) > 1
    rows = [
        [*([block.title] if several else []), variant.label, *found]
        for block in loaded.blocks
        for variant in block.variants
        if (found := cells(variant))
    ]
    head = ["protocol"] if several else []
    group = "protocol" if several else None
    return Table([*head, "method", *columns], rows, group=group)


# --- where runs were made, and how to make them again --------------------------------------------

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


def environments(loaded: LoadedRuns) -> Table:
    """One line for each environment, with how many runs were made there."""
    seen: Counter[tuple[Value, ...]] = Counter()
    for run in loaded.runs:
        seen.update({_environment(found) for found in _made_in(run)})
    rows: list[list[Value]] = [[*where, n] for where, n in seen.items()]
    return Table([*SHOWN, "runs"], rows)


def _made_in(run: Run) -> Sequence[Mapping[str, Any]]:
    return readable(lambda: run.files.manifest().environments)


def _environment(found: Mapping[str, Any]) -> tuple[Value, ...]:
    git, values = found.get("git"), dict(found, commit=None)
    if isinstance(git, dict) and git.get("commit"):
        values["commit"] = str(git["commit"])[:10] + (" and changes" if git.get("changed") else "")
    return tuple(None if (v := values.get(name)) is None else str(v) for name in SHOWN)


def install(loaded: LoadedRuns) -> list[str]:
    """The pip line of every set of versions that was used."""
    lines: dict[str, None] = {}
    for found in (found for run in loaded.runs for found in _made_in(run)):
        pins = [f"{name}=={found[name]}" for name in ("linsep", *PINNED) if name in found]
        pins = [shlex.quote(pin.partition("+")[0]) for pin in pins]  # +cpu is not on the index
        lines |= {f"pip install {' '.join(pins)}": None} if pins else {}
    return list(lines)


def recipes(loaded: LoadedRuns) -> list[Recipe]:
    """One grid if the runs differ in seed and method alone and every pair is there, else each."""
    grid = _grid([run.files.config() for run in loaded.runs])
    return [grid] if grid else [_single(run) for run in loaded.runs]


def _single(run: Run) -> Recipe:
    name = f"{run.name}.toml"
    return Recipe("", name, run.files.config_text(), f"linsep run {shlex.quote(name)}")


def _grid(configs: Sequence[Mapping[str, Any]]) -> Recipe | None:
    """Every method over every seed; each takes its own of the options of all methods."""
    import tomli_w

    methods = list(dict.fromkeys(str(config["method"]) for config in configs))
    seeds = sorted({config["seed"] for config in configs})
    if len(configs) < 2 or len(configs) != len(methods) * len(seeds):
        return None
    parts = {part for method in methods for part in method.split("+")}
    shared = [config.keys() - parts - NAMES for config in configs]
    whole: dict[str, Any] = {}
    for name, value in (item for config in configs for item in config.items()):
        if name in ("method", "seed", *NAMES) or (name == "memory" and not value.get("size")):
            continue  # memory settings are left out for a method without one, as in a grid
        if whole.setdefault(name, value) != value:
            return None  # something else differs
    if any(names != shared[0] for names in shared):
        return None
    content = tomli_w.dumps({**whole, "over": {"method": methods, "seed": seeds}})
    title = f"{len(methods)} methods over {len(seeds)} seeds"
    return Recipe(title, "grid.toml", content, "linsep grid grid.toml")
