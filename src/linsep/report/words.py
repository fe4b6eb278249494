"""Sentences and tables of the report: conclusions that the numbers support, what the runs were,
what they cost, where they were made, and the commands that make them again."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from ..compare import statistics
from ..compare.naming import is_bound
from ..compare.statistics import EXACT_UP_TO, Summary, paired
from ..compare.tables import Spread, Table, Value
from ..compare.variants import Variant, shown
from ..learning.metrics import COSTS, METRICS, PROTOCOLS, REPORTED
from ..learning.metrics import audit as flaws
from .gather import Block, LoadedRuns, Run, VariantRuns
from .style import labelled

METRIC = "final average accuracy (FAA) in Class-IL"
MOST_PAIRS = 6  # that are spelled out; the table has them all


# --- the lead ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """The answer about one block: which method is ahead, and what each added term gains."""

    text: str
    gains: Sequence[str]


def lead(loaded: LoadedRuns) -> list[Answer]:
    """Return an answer per block: the highest mean, and what the paired tests support."""
    found = [_about(loaded, block) for block in loaded.blocks[:4]]
    return [answer for answer in found if answer.text]


def _about(loaded: LoadedRuns, block: Block) -> Answer:
    figures = [f for f in chain(*loaded.comparison.estimates) if f.variant.block == block.settings]
    faa = [f for f in figures if (f.protocol, f.metric) == ("class_il", "faa")]
    known = [(f.variant, f.summary) for f in faa if f.summary is not None]
    rivals = [(variant, s) for variant, s in known if not is_bound(variant.method)]
    ranked = sorted(rivals or known, key=lambda pair: -pair[1].mean)
    pairs = [
        (f.variant, f.against, f.pairs.difference)
        for f in faa
        if f.against is not None and f.pairs is not None
    ]
    text = list(_ahead(f"{block.title}: " if block.title else "", ranked))
    for variant, bound in known if rivals else ():
        if is_bound(variant.method):
            text.append(
                f"{called(variant)}, trained on all data at once, reaches {spread(bound)} %."
            )
    compared = [pair for a, b, _ in pairs for pair in ((a, b), (b, a))]
    if len(ranked) > 1 and (ranked[0][0], ranked[1][0]) not in compared:
        text += _first_two(ranked[0][0], ranked[1][0])
    gains = [_said(*pair) for pair in pairs[:MOST_PAIRS]]
    if more := len(pairs) - len(gains):
        gains.append(f"{more} more {'differences are' if more > 1 else 'difference is'} below.")
    return Answer(" ".join(text), gains)


def _ahead(place: str, ranked: Sequence[tuple[Variant, Summary]]) -> Iterator[str]:
    if not ranked:
        return
    (best, top), *rest = ranked
    found = f"{spread(top)} % ({f'{top.n} seeds' if top.n > 1 else 'one seed'})"
    if not rest:
        yield f"{place}{called(best)} reaches a {METRIC} of {found}."
        return
    mean = "mean " if max(s.n for _, s in ranked) > 1 else ""
    yield (
        f"{place}{called(best)} has the highest {mean}{METRIC} of {len(ranked)} methods: {found}; "
        f"next is {called(rest[0][0])} with {spread(rest[0][1])} %."
    )


def _first_two(best: Variant, second: Variant) -> Iterator[str]:
    mine, theirs = (variant.values("class_il", "faa") for variant in (best, second))
    if mine.keys() & theirs.keys() and len(mine) <= EXACT_UP_TO:
        gap = paired(mine, theirs).difference
        yield _said(best, second, gap)
        if gap.n > 1:
            yield "(These two were chosen by rank, which the interval does not account for.)"


def _said(variant: Variant, against: Variant, gap: Summary) -> str:
    start = f"{called(variant)} against {called(against)}: {gap.mean:+z.2f} points"
    if gap.low is None or gap.high is None:
        return f"{start} on one seed, too few for an interval."
    start += f", 95 % interval {gap.low:z.2f} to {gap.high:z.2f} ({gap.n} pairs of seeds)"
    if gap.low <= 0 <= gap.high:
        return f"{start}: it includes 0, so these seeds do not tell the two apart."
    return f"{start}: it excludes 0."


def called(variant: Variant) -> str:
    return labelled(variant.title, bound=is_bound(variant.method))


def spread(found: Summary) -> str:
    return f"{found.mean:.2f}" + (f" ± {found.std:.2f}" if found.std is not None else "")


# --- what was run --------------------------------------------------------------------------------


def named(table: Table) -> Table:
    """The same table with methods called as in the figures and metrics spelled out."""
    columns = list(table.columns)
    method = columns.index("method")
    rows = [list(row) for row in table.rows]
    for i, row in enumerate(rows):
        row[method] = labelled(str(row[method]), bound=i in table.unranked)
    ranked = {row[method] for i, row in enumerate(rows) if i not in table.unranked}
    spelled_out = {METRICS[name].title: full(name) for name in REPORTED}
    best = {spelled_out.get(name, name): way for name, way in table.best.items()}
    heads = [spelled_out.get(name, name) for name in columns]
    return replace(table, columns=heads, rows=rows, best=best if len(ranked) > 1 else {}, spare=())


def full(metric: str) -> str:
    """'Final average accuracy (FAA)'."""
    about = METRICS[metric]
    return f"{about.meaning.capitalize()} ({about.title})"


def differing(loaded: LoadedRuns) -> tuple[Table, set[tuple[int, int]]]:
    """A row for each variant, a column for each setting in which they differ, and the cells that
    are not what most variants have."""
    comparison = loaded.comparison
    names = list(dict.fromkeys([*comparison.differing, *comparison.by_method]))
    names += list(dict.fromkeys(n for variant in comparison.variants for n, _ in variant.options))
    names += ["method"] * any(variant.by_name for variant in comparison.variants)
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


def counted(loaded: LoadedRuns) -> str:
    runs, variants, place = loaded.runs, loaded.variants, loaded.scenarios
    if len(runs) == 1:
        return f"One finished run of {variants[0].label} on {place}, with seed {runs[0].seed}."
    low, *more = sorted({len(variant.runs) for variant in variants})
    each = f"{low} to {more[-1]} seeds" if more else f"{low} seeds" if low > 1 else "one seed"
    if len(variants) == 1:
        return f"{len(runs)} finished runs of {variants[0].label} on {place}, a seed each."
    return (
        f"{len(runs)} finished runs on {place}: {len(variants)} variants (a method with its "
        f"options and settings) with {each} each."
    )


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
            metrics = run.results["metrics"][protocol]
            texts = flaws(metrics, tasks)
            faa, ff, peak = (metrics.get(name) for name in ("faa", "ff", "mean_peak"))
            if None not in (faa, ff, peak):
                gap = abs(faa + (tasks - 1) / tasks * ff - peak)
                if gap > 1e-6:
                    texts.append(f"FAA + (T-1)/T FF differs from the mean peak by {gap:.4f}")
            found += [f"{run.name}, {label}: {text}" for text in texts]
    return found


# --- cost and time -------------------------------------------------------------------------------


def costs(loaded: LoadedRuns) -> Table | None:
    """What every variant cost: passes, images of a step, bytes, parameters, seconds."""
    known = [
        name
        for name in COSTS
        if any(variant.variant.values("cost", name) for variant in loaded.variants)
    ]

    def cells(variant: VariantRuns) -> list[Value]:
        found = [
            (variant.variant.summary("cost", name), name in ("compute", "seconds"))
            for name in known
        ]
        return [(one.mean if exact else round(one.mean)) if one else None for one, exact in found]

    return _by_variant(loaded, [name.rpartition(".")[2] for name in known], cells)


def speed(loaded: LoadedRuns) -> Table | None:
    """Seconds and images a second of every variant."""

    def cells(variant: VariantRuns) -> list[Value]:
        timings = [run.timing for run in variant.runs if run.timing]
        seconds = [sum(t["seconds"] for t in timing) for timing in timings]
        images = [sum(t["images"] for t in timing) for timing in timings]
        rates = [i / s for s, i in zip(seconds, images, strict=True) if s > 0 and i]
        return [len(timings), _mean(seconds), max(images), _mean(rates)] if timings else []

    found = _by_variant(loaded, ["seeds", "seconds", "images", "images/s"], cells)
    return found and replace(found, digits=1)


def _mean(values: Sequence[float]) -> Spread | None:
    return Spread(statistics.mean(values), statistics.std(values)) if values else None


def _by_variant(
    loaded: LoadedRuns, columns: Sequence[str], cells: Callable[[VariantRuns], list[Value]]
) -> Table | None:
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
    return Table([*head, "method", *columns], rows, group=group) if rows else None


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


def environments(loaded: LoadedRuns) -> Table | None:
    """One line for each environment, with how many runs were made there."""
    seen: Counter[tuple[Value, ...]] = Counter()
    for run in loaded.runs:
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


def install(loaded: LoadedRuns) -> list[str]:
    """The pip line of every set of versions that was used."""
    lines = []
    for run in loaded.runs:
        for found in run.environments:
            pins = [f"{name}=={found[name]}" for name in ("linsep", *PINNED) if name in found]
            pins = [pin.partition("+")[0] for pin in pins]  # +cpu is not on the index
            if pins:
                lines.append("pip install " + " ".join(map(shlex.quote, pins)))
    return list(dict.fromkeys(lines))


def recipes(loaded: LoadedRuns) -> list[Recipe]:
    """One grid if the runs differ in seed and method alone and every pair is there, else each."""
    grid = _grid(loaded)
    return [grid] if grid else [_single(run) for run in loaded.runs]


def _single(run: Run) -> Recipe:
    name = f"{run.name}.toml"
    return Recipe("", name, run.files.config_text(), f"linsep run {shlex.quote(name)}")


def _grid(loaded: LoadedRuns) -> Recipe | None:
    """Every method over every seed; each takes its own of the options of all methods."""
    import tomli_w

    runs = loaded.runs
    methods = list(dict.fromkeys(str(run.settings["method"]) for run in runs))
    seeds = sorted({run.seed for run in runs})
    if len(runs) < 2 or len(runs) != len(methods) * len(seeds):
        return None
    whole: dict[str, Any] = {}
    for run in runs:
        for section, value in run.settings.items():
            if section in ("method", "seed", *NAMES):
                continue
            if section == "memory" and not value.get("size"):
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
