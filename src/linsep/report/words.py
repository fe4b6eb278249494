"""Sentences and tables of the report: conclusions that the numbers support.

Knows a comparison and how methods are called. Knows nothing of files, figures or HTML.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..compare.arms import Arm, Comparison, Estimate, shown, spelled
from ..compare.statistics import EXACT_UP_TO, Summary, paired
from ..compare.tables import Table, Value
from ..learning.metrics import SETTINGS
from .gather import Block, Gathered
from .style import arm_label

ALL_AT_ONCE = "jt"  # an upper bound and no competitor
MOST_PAIRS = 6  # that are spelled out; the table has them all


# --- the lead ------------------------------------------------------------------------------------


def lead(gathered: Gathered) -> list[str]:
    """Return a paragraph per block: the highest mean, and what the paired tests support."""
    return [" ".join(_about(gathered, block)) for block in gathered.blocks[:4]]


def _about(gathered: Gathered, block: Block) -> Iterator[str]:
    figures = [f for f in _figures(gathered.comparison) if f.arm.block == block.settings]
    faa = [(f, f.summary) for f in figures if (f.setting, f.metric) == ("class_il", "faa")]
    known = [(f.arm, s) for f, s in faa if s is not None]
    rivals = [(arm, s) for arm, s in known if arm.method.partition("+")[0] != ALL_AT_ONCE] or known
    if not rivals:
        return
    ranked = sorted(rivals, key=lambda pair: -pair[1].mean)
    (best, top), *rest = ranked
    place = f"{block.title}: " if block.title else ""
    if rest:
        yield (
            f"{place}{called(best)} has the highest mean Class-IL accuracy at the end (FAA) of "
            f"{len(rivals)} methods: {spread(top)} %"
            f"{_seeds(top)}; next is {called(rest[0][0])} with {spread(rest[0][1])} %."
        )
    else:
        yield (
            f"{place}{called(best)}: Class-IL accuracy at the end (FAA) {spread(top)} %"
            f"{_seeds(top)}."
        )
    for arm, found in known:
        if arm not in [r for r, _ in rivals]:
            yield f"{called(arm)}, trained on all data at once, has {spread(found)} %."
    pairs = [f for f, _ in faa if f.pairs is not None]
    if rest and not any(_is_pair(f, best, rest[0][0]) for f in pairs):
        yield from _first_two(best, rest[0][0])
    for figure in pairs[:MOST_PAIRS]:
        yield _difference(figure)
    if len(pairs) > MOST_PAIRS:
        yield f"{len(pairs) - MOST_PAIRS} more differences are in the table."


def _is_pair(figure: Estimate, one: Arm, other: Arm) -> bool:
    return any(figure.arm is a and figure.against is b for a, b in ((one, other), (other, one)))


def _first_two(best: Arm, second: Arm) -> Iterator[str]:
    mine, theirs = (arm.values("class_il", "faa") for arm in (best, second))
    if mine.keys() & theirs.keys() and len(mine) <= EXACT_UP_TO:
        yield _said(best, second, paired(mine, theirs).difference)
        yield "(These two were chosen by rank, which the interval does not account for.)"


def _difference(figure: Estimate) -> str:
    assert figure.pairs is not None
    assert figure.against is not None
    return _said(figure.arm, figure.against, figure.pairs.difference)


def _said(arm: Arm, against: Arm, gap: Summary) -> str:
    start = f"{called(arm)} against {called(against)}: {gap.mean:+z.2f} points"
    if gap.low is None or gap.high is None:
        return f"{start} on one seed, too few for an interval."
    start += f", 95 % interval {gap.low:z.2f} to {gap.high:z.2f} ({gap.n} pairs of seeds)"
    if gap.low <= 0 <= gap.high:
        return f"{start}: it includes 0, so these seeds do not tell the two apart."
    return f"{start}: it excludes 0."


def called(arm: Arm) -> str:
    return arm_label(arm.method, spelled(arm.options))


def spread(found: Summary) -> str:
    return f"{found.mean:.2f}" + (f" ± {found.std:.2f}" if found.std is not None else "")


def _seeds(found: Summary) -> str:
    return f" ({found.n} seeds)" if found.n > 1 else " (one seed)"


def _figures(comparison: Comparison) -> Iterator[Estimate]:
    for figures in comparison.estimates:
        yield from figures


# --- what was run --------------------------------------------------------------------------------


def named(table: Table) -> Table:
    """The same table with methods called as in the figures."""
    from dataclasses import replace

    columns = list(table.columns)
    places = [columns.index(name) for name in ("method", "against") if name in columns]
    rows = [
        [_called(value) if i in places else value for i, value in enumerate(row)]
        for row in table.rows
    ]
    return replace(table, rows=rows)


def _called(label: Value) -> Value:
    """An arm's label, 'derpp+bfp (bfp.weight=3)'."""
    method, _, options = str(label).partition(" (")
    return arm_label(method, options.removesuffix(")"))


def differing(gathered: Gathered) -> tuple[Table, set[tuple[int, int]]]:
    """A row for each arm, a column for each setting that is not the same in all; and which cells
    differ from what most arms have."""
    comparison = gathered.comparison
    names = list(dict.fromkeys([*comparison.differing, *comparison.by_method]))
    names += list(dict.fromkeys(n for arm in comparison.arms for n, _ in arm.options))
    rows: list[list[Value]] = []
    for arm in comparison.arms:
        facts = next(iter(arm.runs.values())).facts
        seeds = ", ".join(map(str, sorted(arm.runs)))
        rows.append([called(arm), seeds, *(shown(facts.get(name)) for name in names)])
    marked = set()
    for column in range(2, 2 + len(names)):
        usual, _ = Counter(row[column] for row in rows).most_common(1)[0]
        marked |= {(i, column) for i, row in enumerate(rows) if row[column] != usual}
    return Table(["method", "seeds", *names], rows), marked


def own_options(gathered: Gathered) -> Table:
    """Options of each method's own parts, where all its arms agree on them."""
    rows: list[list[Value]] = []
    said = set()
    for arm in gathered.comparison.arms:
        facts = next(iter(arm.runs.values())).facts
        varied = {name for name, _ in arm.options}
        for name, value in facts.items():
            part = name.partition(".")[0]
            if part in arm.method.split("+") and "." in name and name not in varied:
                row = (called(arm) if varied else arm_label(arm.method, ""), name, shown(value))
                if row not in said:
                    said.add(row)
                    rows.append(list(row))
    return Table(["method", "option", "value"], rows)


def common(gathered: Gathered) -> Table:
    found = gathered.comparison.common.items()
    rows: list[list[Value]] = [[name, shown(v)] for name, v in found if name != "data"]
    return Table(["setting", "value in all runs"], rows)


def counted(gathered: Gathered) -> str:
    runs, arms = len(gathered.runs), len(gathered.arms)
    seeds = {len(arm.runs) for arm in gathered.arms}
    each = f"{min(seeds)} each" if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)} each"
    scenarios = {str(run.record["scenario"]) for run in gathered.runs}
    where = ", ".join(sorted(scenarios))
    return (
        f"{runs} finished run{'s' if runs > 1 else ''} of {arms} "
        f"arm{'s' if arms > 1 else ''} (seeds: {each}) on {where}."
    )


# --- audit ---------------------------------------------------------------------------------------


def audit(gathered: Gathered) -> list[str]:
    """Return the inconsistencies in the stored metrics; an empty list means none were found."""
    from ..learning.metrics import audit as flaws

    found = []
    for run in gathered.runs:
        tasks = len(run.tasks)
        if not tasks:  # the number of tasks is not known: what the run itself said
            found += [f"{run.name}: {text}" for text in run.results.get("audit", [])]
            continue
        for setting, label in SETTINGS.items():
            metrics = run.results["metrics"].get(setting, {})
            found += [f"{run.name}, {label}: {flaw.text}" for flaw in flaws(metrics, tasks)]
            gap = _identity_gap(metrics, tasks)
            if gap is not None and gap > 1e-6:
                text = f"FAA + (T-1)/T FF differs from the mean peak by {gap:.4f}"
                found.append(f"{run.name}, {label}: {text}")
    return found


def _identity_gap(metrics: dict[str, float | None], tasks: int) -> float | None:
    faa, ff, peak = (metrics.get(name) for name in ("faa", "ff", "mean_peak"))
    if faa is None or ff is None or peak is None:
        return None
    return abs(faa + (tasks - 1) / tasks * ff - peak)
